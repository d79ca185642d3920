// Package signlog records the certificates that the keys of this process sign.
package signlog

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/collector"
)

// New returns a recorder that counts each certificate in registry, which can be
// nil, and writes it to the log at verbosity 1: one that is stored has a line
// already. own, if not nil, records those that the program makes for itself: no request
// has them.
func New(registry prometheus.Registerer, own pki.Recorder) (pki.Recorder, error) {
	signed := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "certplane", Subsystem: "certificates", Name: "signed_total",
		Help: "Number of certificates signed, whether or not they could be stored, by signer.",
	}, []string{"signer"})
	if err := collector.Share(registry, &signed); err != nil {
		return nil, fmt.Errorf("registering the metrics of signed certificates: %w", err)
	}
	return func(ctx context.Context, cert *x509.Certificate, why pki.Purpose) error {
		if why.Signer == "" || why.Kind == "" && why.Use == "" {
			return errors.New("the purpose of the certificate is not known")
		}
		signed.WithLabelValues(why.Signer).Inc()
		log.FromContext(ctx).V(1).Info("Signed certificate", append(facts(why), pki.LogFacts(cert)...)...)
		if why.Use != "" && own != nil {
			return own(ctx, cert, why)
		}
		return nil
	}, nil
}

// facts returns why a certificate was signed, as keys and values for the log.
func facts(why pki.Purpose) []any {
	facts := []any{"signer", why.Signer}
	for _, fact := range []struct{ name, value string }{
		{"requester", why.Requester}, {"requestKind", why.Kind}, {"requestNamespace", why.Namespace},
		{"requestName", why.Name}, {"uid", why.UID}, {"use", why.Use},
	} {
		if fact.value != "" {
			facts = append(facts, fact.name, fact.value)
		}
	}
	return facts
}
