package outcome

import (
	"context"
	"crypto/x509"
	"errors"
	"math/big"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/metrics"
)

// A certificate that every attempt gets counts once: not for an attempt whose
// write fails because another one has stored the same before, but if the response
// to its own write was lost.
func TestReportedOnce(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "certificaterequests"}, "web", errors.New("changed"))
	for _, tc := range []struct {
		reason  string
		fails   error
		fetched bool
		counts  float64
	}{
		{"stored", nil, true, 1},
		{"stored by another attempt", conflict, true, 0},
		{"signed by this attempt alone", conflict, false, 1},
		{"the response is lost", errors.New("connection reset"), true, 1},
	} {
		stored := false
		kind := Kind[*cmv1.CertificateRequest]{
			Read: func(context.Context, client.ObjectKey) (*cmv1.CertificateRequest, error) {
				return &cmv1.CertificateRequest{}, nil
			},
			Write: func(context.Context, *cmv1.CertificateRequest, Outcome) error {
				stored = true
				return tc.fails
			},
			Shows: func(*cmv1.CertificateRequest, Outcome) bool { return stored },
			Waits: func(*cmv1.CertificateRequest) bool { return !stored },
		}
		registry := prometheus.NewRegistry()
		counts, err := metrics.New(registry)
		if err != nil {
			t.Fatal(err)
		}
		issued := Outcome{State: Issued, Issued: &signer.Issued{Certificate: &x509.Certificate{SerialNumber: big.NewInt(1)}, Fetched: tc.fetched}}
		report := Report{Object: &cmv1.CertificateRequest{}, Signer: "s", Metrics: counts, Clock: clock.RealClock{}}
		if _, err := kind.Put(t.Context(), &cmv1.CertificateRequest{}, issued, report); err != nil {
			t.Errorf("%s: %v", tc.reason, err)
		}
		if got := sum(t, registry, "certplane_signing_issued_total"); got != tc.counts {
			t.Errorf("%s: counted %v times", tc.reason, got)
		}
	}
}

// sum returns the sum of all series of a counter.
func sum(t *testing.T, registry *prometheus.Registry, name string) (total float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, series := range family.GetMetric() {
			total += series.GetCounter().GetValue()
		}
	}
	return total
}
