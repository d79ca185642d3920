package cluster

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/pki"
)

// selfSignedLifetime is how long a certificate for /metrics lasts that the
// process makes for itself: longer than processes run.
const selfSignedLifetime = 10 * 365 * 24 * time.Hour

// registry holds the metrics of the process, of controller-runtime and of the
// controllers.
func registry() prometheus.Registerer { return metrics.Registry }

// metricsOptions says how /metrics is served. Who may see it is asked with the
// process's own identity.
func metricsOptions(c MetricsConfig, own *rest.Config) (metricsserver.Options, error) {
	options := metricsserver.Options{BindAddress: c.BindAddress}
	if c.Anonymous || c.BindAddress == off {
		return options, nil
	}
	certificate, err := c.certificate()
	if err != nil {
		return options, err
	}
	options.SecureServing = true
	options.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		client, err := rest.HTTPClientFor(own)
		if err != nil {
			return nil, err
		}
		return filters.WithAuthenticationAndAuthorization(own, client)
	}
	options.TLSOpts = []func(*tls.Config){func(t *tls.Config) {
		t.GetCertificate = certificate
		// Nobody needs HTTP/2 to fetch one page.
		t.NextProtos = []string{"http/1.1"}
	}}
	return options, nil
}

type getCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error)

// certificate returns the certificate for /metrics: that of the files as they
// are at each handshake, or one that is made now.
func (c MetricsConfig) certificate() (getCertificate, error) {
	if c.CertFile == "" {
		made, err := selfSigned()
		return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return made, nil }, err
	}
	read := func() (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("reading the certificate for /metrics: %w", err)
		}
		return &pair, nil
	}
	_, err := read()
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return read() }, err
}

// selfSigned makes a certificate that encrypts but proves nothing, as
// Kubernetes' components do.
func selfSigned() (*tls.Certificate, error) {
	caKey, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	ca, err := pki.NewRoot("certplane-controllers-metrics", caKey, selfSignedLifetime, time.Now())
	if err != nil {
		return nil, err
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	chain, err := ca.Issue(pki.Subject{CommonName: "certplane-controllers", DNSNames: []string{"localhost"}}, key.Public(), pki.ServerUsages(), selfSignedLifetime, time.Now())
	if err != nil {
		return nil, err
	}
	made := &tls.Certificate{PrivateKey: key}
	for _, cert := range chain {
		made.Certificate = append(made.Certificate, cert.Raw)
	}
	return made, nil
}
