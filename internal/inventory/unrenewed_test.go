package inventory

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// named returns a record of a certificate for a name, which ends some days after start and was
// issued lifetime before that.
func named(n int, name string, days int, lifetime time.Duration) *inventoryv1alpha1.IssuedCertificate {
	r := record(n, days)
	r.Certificate.DNSNames = []string{name}
	r.Certificate.NotBefore = metav1.NewTime(r.Certificate.NotAfter.Add(-lifetime))
	return r
}

func TestUnrenewed(t *testing.T) {
	const month = 30 * 24 * time.Hour
	of := func(r *inventoryv1alpha1.IssuedCertificate, kind string) *inventoryv1alpha1.IssuedCertificate {
		r.Location = &inventoryv1alpha1.Location{Kind: kind}
		return r
	}
	request := func(r *inventoryv1alpha1.IssuedCertificate) *inventoryv1alpha1.IssuedCertificate {
		r.Request.Kind = "CertificateRequest"
		Complete(r)
		return r
	}
	other := named(5, "other-signer", 40, month)
	other.SignerName = "example.com/others"
	w := newWorld(t)
	w.write(
		named(1, "tomorrow", 1, month),
		named(2, "this-week", 5, month),
		request(named(3, "kept-in-a-secret", 5, month)),
		named(4, "other-signer", 5, month), other,
		// No matter:
		named(6, "next-month", 29, month),
		named(7, "renewed", 5, month), named(8, "renewed", 35, month),
		named(9, "renewed-in-time-for-this-week", 2, month), named(10, "renewed-in-time-for-this-week", 7, month/30),
		named(11, "short-lived", 1, 25*time.Hour),
		of(named(12, "of-a-pod", 5, month), "Pod"), of(named(13, "of-a-node", 5, month), "Node"),
	)
	want := map[[2]string]float64{
		{"CertificateSigningRequest", "1d"}: 1, {"CertificateSigningRequest", "7d"}: 2,
		{"CertificateRequest", "1d"}: 0, {"CertificateRequest", "7d"}: 1,
	}
	w.counts(want)

	// The same records, in packs.
	for n := range 3 * packRecords {
		w.write(named(100+n, "filler", 5, month), named(1000+n, "filler", 35, month))
	}
	if err := w.AwaitPacked(t.Context()); err != nil {
		t.Fatal(err)
	}
	if packed, _ := w.packed(w.Inventory); packed == 0 {
		t.Fatal("nothing is packed")
	}
	w.counts(want)

	w.write(named(2000, "this-week", 35, month), named(2001, "tomorrow", 31, month))
	want[[2]string{"CertificateSigningRequest", "1d"}], want[[2]string{"CertificateSigningRequest", "7d"}] = 0, 1
	w.counts(want)
}

// counts counts, and compares the metric.
func (w *world) counts(want map[[2]string]float64) {
	w.Helper()
	if err := w.countUnrenewed(w.Context()); err != nil {
		w.Fatal(err)
	}
	for labels, number := range want {
		if got := testutil.ToFloat64(w.metrics.unrenewed.WithLabelValues(labels[:]...)); got != number {
			w.Errorf("%v: %v, want %v", labels, got, number)
		}
	}
}
