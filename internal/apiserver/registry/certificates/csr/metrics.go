package csr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/util/dryrun"
	"k8s.io/component-base/metrics"

	"github.com/certplane/certplane/internal/pki"
)

// durationCounters count how often signers issue certificates with the
// requested duration (KEP-2784).
type durationCounters struct {
	requested *metrics.CounterVec
	honored   *metrics.CounterVec
}

// Register adds a metric to a registry. It returns a
// prometheus.AlreadyRegisteredError if the metric already exists.
type Register func(metrics.Registerable) error

// newDurationCounters registers the counters. API servers that share a
// registry share its counters.
func newDurationCounters(register Register) (durationCounters, error) {
	requested, err := registerCounter(register, "csr_requested_duration_total",
		"Total number of issued CSRs with a requested duration, sliced by signer (only kubernetes.io signer names are specifically identified)")
	if err != nil {
		return durationCounters{}, err
	}
	honored, err := registerCounter(register, "csr_honored_duration_total",
		"Total number of issued CSRs with a requested duration that was honored, sliced by signer (only kubernetes.io signer names are specifically identified)")
	if err != nil {
		return durationCounters{}, err
	}
	return durationCounters{requested: requested, honored: honored}, nil
}

// registerCounter returns the registered counter called name, and registers it
// if necessary.
func registerCounter(register Register, name, help string) (*metrics.CounterVec, error) {
	counter := metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      "apiserver",
		Subsystem:      "certificates_registry",
		Name:           name,
		Help:           help,
		StabilityLevel: metrics.ALPHA,
	}, []string{"signerName"})

	err := register(counter)
	var taken prometheus.AlreadyRegisteredError
	if errors.As(err, &taken) {
		if registered, ok := taken.ExistingCollector.(*metrics.CounterVec); ok {
			return registered, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("registering the counter %s: %w", name, err)
	}
	return counter, nil
}

// beginStatusUpdate returns a function that counts the update once it is about
// to be written.
func (c durationCounters) beginStatusUpdate(_ context.Context, obj, old runtime.Object, options *metav1.UpdateOptions) (registry.FinishFunc, error) {
	return func(_ context.Context, success bool) {
		if success && !dryrun.IsDryRun(options.DryRun) {
			c.count(obj, old)
		}
	}, nil
}

// count counts an update from old to obj if it issues a certificate with a
// requested duration.
func (c durationCounters) count(obj, old runtime.Object) {
	stored, ok := old.(*certificatesv1.CertificateSigningRequest)
	if !ok || stored == nil || len(stored.Status.Certificate) > 0 || stored.Spec.ExpirationSeconds == nil {
		return
	}
	csr, ok := obj.(*certificatesv1.CertificateSigningRequest)
	if !ok || csr == nil || len(csr.Status.Certificate) == 0 {
		return
	}
	signer := signerLabel(stored.Spec.SignerName)
	c.requested.WithLabelValues(signer).Inc()

	got, err := validity(csr.Status.Certificate)
	if err != nil {
		utilruntime.HandleError(fmt.Errorf("reading the validity of the certificate issued for %q: %w", csr.Name, err))
		return
	}
	if honors(got, time.Duration(*stored.Spec.ExpirationSeconds)*time.Second) {
		c.honored.WithLabelValues(signer).Inc()
	}
}

// signerLabel bounds the number of series: any client can invent signer names.
func signerLabel(signerName string) string {
	if strings.HasPrefix(signerName, "kubernetes.io/") {
		return signerName
	}
	return "other"
}

// validity returns how long the first certificate in data is valid.
func validity(data []byte) (time.Duration, error) {
	certificates, err := pki.ParseVisibleCertificates(data)
	if err != nil {
		return 0, err
	}
	return certificates[0].NotAfter.Sub(certificates[0].NotBefore), nil
}

// honors reports whether got is close enough to want: signers backdate
// certificates because clocks differ, and they round.
func honors(got, want time.Duration) bool {
	return (want - got).Abs() < 5*time.Minute+want/20
}
