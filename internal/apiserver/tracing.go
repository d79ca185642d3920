package apiserver

import (
	"fmt"

	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
)

// TracingConfig is the stanza "tracing".
type TracingConfig struct {
	// configFile is a file with a TracingConfiguration of apiserver.config.k8s.io/v1: the
	// destination of traces (OpenTelemetry, OTLP over gRPC) and how many of a million
	// requests are traced. Default: none, no traces.
	ConfigFile string `json:"configFile,omitempty"`
}

func (c TracingConfig) applyTo(generic *genericapiserver.Config) error {
	traces := options.TracingOptions{ConfigFile: c.ConfigFile}
	if err := traces.ApplyTo(nil, generic); err != nil {
		return fmt.Errorf("using tracing.configFile %s: %w", c.ConfigFile, err)
	}
	return nil
}
