package frontend

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/rest"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

const (
	// selfSignedLifetime is the lifetime of a certificate for /metrics that the
	// process makes for itself. It is longer than any process runs.
	selfSignedLifetime = 10 * 365 * 24 * time.Hour
	// metricsStop is how long the last responses of /metrics may take when the
	// process stops.
	metricsStop = 5 * time.Second
)

// MetricsConfig is the stanza "metrics".
type MetricsConfig struct {
	// bindAddress is the address of /metrics, HOST:PORT; "0" serves none.
	// Default: 127.0.0.1:8443. Flag: --metrics-bind-address.
	BindAddress string `json:"bindAddress"`
	// certFile and keyFile are the certificate for /metrics in PEM, read again
	// when they change. Set both or none. Default: none, which makes a
	// self-signed one at each start.
	CertFile string `json:"certFile,omitempty"`
	// keyFile belongs to certFile.
	KeyFile string `json:"keyFile,omitempty"`
	// anonymous serves /metrics to all clients without TLS. Otherwise the API
	// decides which users may see them, by a TokenReview and a SubjectAccessReview
	// for get on /metrics. Default: false.
	Anonymous bool `json:"anonymous"`
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (c MetricsConfig) Validate() error {
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("metrics.certFile and metrics.keyFile: set both or none")
	}
	return CheckAddress("metrics.bindAddress", c.BindAddress)
}

// openMetrics returns the front end of /metrics. It checks with the process's
// own identity which users may read it.
func openMetrics(p Process, cfg Config) (FrontEnd, error) {
	c := cfg.Metrics
	if c.BindAddress == "" || c.BindAddress == Off {
		return FrontEnd{}, nil
	}
	options, follow := metricsserver.Options{BindAddress: c.BindAddress}, func(context.Context) {}
	if !c.Anonymous {
		certificate, followed, err := c.certificate()
		if err != nil {
			return FrontEnd{}, err
		}
		follow = followed
		options.SecureServing = true
		options.FilterProvider = filters.WithAuthenticationAndAuthorization
		options.TLSOpts = []func(*tls.Config){func(t *tls.Config) {
			t.GetCertificate = certificate
			// One page does not need HTTP/2.
			t.NextProtos = []string{"http/1.1"}
		}}
	}
	client, err := rest.HTTPClientFor(p.Own)
	if err != nil {
		return FrontEnd{}, fmt.Errorf("making its client: %w", err)
	}
	server, err := metricsserver.NewServer(options, p.Own, client)
	if err != nil {
		return FrontEnd{}, fmt.Errorf("making its server: %w", err)
	}
	serve := func(ctx context.Context) error {
		go follow(ctx)
		return server.Start(ctx)
	}
	return FrontEnd{Serve: serve, StopTimeout: metricsStop}, nil
}

type getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// certificate returns the certificate for /metrics, and the function that
// follows its files until ctx ends. Without files, the certificate is made now.
// It then encrypts but proves nothing, like those of Kubernetes' own
// components.
func (c MetricsConfig) certificate() (getCertificate, func(context.Context), error) {
	if c.CertFile == "" {
		made, err := selfSigned()
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return made, nil }, func(context.Context) {}, err
	}
	watcher, err := certwatcher.New(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the certificate for /metrics: %w", err)
	}
	return watcher.GetCertificate, func(ctx context.Context) {
		if err := watcher.Start(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "Cannot follow the certificate for /metrics", "file", c.CertFile)
		}
	}, nil
}

func selfSigned() (*tls.Certificate, error) {
	cert, key, err := certutil.GenerateSelfSignedCertKeyWithOptions(certutil.SelfSignedCertKeyOptions{Host: "localhost", MaxAge: selfSignedLifetime})
	if err != nil {
		return nil, fmt.Errorf("making the certificate for /metrics: %w", err)
	}
	made, err := tls.X509KeyPair(cert, key)
	return &made, err
}
