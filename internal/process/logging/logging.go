// Package logging configures the log of the process.
package logging

import (
	"fmt"
	"io"
	"log"
	"strconv"

	"go.uber.org/zap/zapcore"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	logsjson "k8s.io/component-base/logs/json"
	"k8s.io/klog/v2"
)

// The formats.
const (
	Text = "text"
	JSON = "json"
)

// Config is the stanza "logging".
type Config struct {
	// format is text (klog's, for people) or json (one object a line, for
	// programs). The log is on standard error. Default: text.
	// Flag: --logging-format.
	Format string `json:"format,omitempty"`
	// verbosity is the amount of logging, from 0 (messages for the operator) to 10
	// (everything). At 0, the log contains warnings, errors and messages of certplane
	// itself; from 1 on also messages of its libraries, as in Kubernetes' components.
	// Default: 0. Flag: -v.
	Verbosity int `json:"verbosity"`
}

// DefaultConfig returns the default configuration.
func DefaultConfig() Config { return Config{Format: Text} }

// Validate reports the first value that cannot work, by its field.
func (c Config) Validate() error {
	if c.Format != Text && c.Format != JSON {
		return fmt.Errorf("logging.format: unknown value %q; known: %s, %s", c.Format, JSON, Text)
	}
	if c.Verbosity < 0 || c.Verbosity > 10 {
		return fmt.Errorf("logging.verbosity: %d is not from 0 to 10", c.Verbosity)
	}
	return nil
}

// Apply sets up the log of the whole process, which goes to out. It must be
// called before anything logs, and once.
func (c Config) Apply(out io.Writer) error {
	if err := c.Validate(); err != nil {
		return err
	}
	if _, err := logs.GlogSetter(strconv.Itoa(c.Verbosity)); err != nil {
		return fmt.Errorf("setting the log's verbosity: %w", err)
	}
	if c.Format != JSON {
		if c.Verbosity == 0 {
			quietText(out)
		}
		return nil
	}
	lines := zapcore.Lock(logsjson.AddNopSync(out))
	logger, control := logsjson.NewJSONLogger(logsapi.VerbosityLevel(c.Verbosity), lines, nil, nil)
	logger = withTimes(logger)
	if c.Verbosity == 0 {
		logger = quieted(logger, nil)
	}
	klog.SetLoggerWithOptions(logger, klog.ContextualLogger(true), klog.FlushLogger(control.Flush))
	// Messages of the standard library's logger go to the same log.
	log.SetFlags(0)
	log.SetOutput(logs.KlogWriter{})
	return nil
}
