package csr

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-base/metrics"
	"k8s.io/utils/ptr"
)

// Dashboards depend on the exposition format.
const (
	requestedHead = `
# HELP apiserver_certificates_registry_csr_requested_duration_total [ALPHA] Total number of issued CSRs with a requested duration, sliced by signer (only kubernetes.io signer names are specifically identified)
# TYPE apiserver_certificates_registry_csr_requested_duration_total counter
`
	honoredHead = `
# HELP apiserver_certificates_registry_csr_honored_duration_total [ALPHA] Total number of issued CSRs with a requested duration that was honored, sliced by signer (only kubernetes.io signer names are specifically identified)
# TYPE apiserver_certificates_registry_csr_honored_duration_total counter
`
)

func requested(signer string) string {
	return requestedHead + `apiserver_certificates_registry_csr_requested_duration_total{signerName="` + signer + `"} 1` + "\n"
}

func honored(signer string) string {
	return requested(signer) + honoredHead + `apiserver_certificates_registry_csr_honored_duration_total{signerName="` + signer + `"} 1` + "\n"
}

func TestCountsDurations(t *testing.T) {
	const nothing = ""
	lasting := func(d time.Duration) func(*csr) {
		return func(c *csr) { c.Status.Certificate = newCertificate(t, d) }
	}
	data := func(data string) func(*csr) { return func(c *csr) { c.Status.Certificate = []byte(data) } }
	asked := func(seconds int32) func(*csr) { return func(c *csr) { c.Spec.ExpirationSeconds = ptr.To(seconds) } }
	signed := func(signer string, seconds int32) func(*csr) {
		return func(c *csr) { c.Spec.SignerName, c.Spec.ExpirationSeconds = signer, ptr.To(seconds) }
	}
	dryRun := &metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}}

	for _, tc := range []struct {
		reason  string
		stored  func(*csr)
		update  func(*csr)
		failed  bool
		options *metav1.UpdateOptions
		want    string
	}{
		{reason: "exactly as requested", stored: asked(3600), update: lasting(time.Hour), want: honored("other")},
		{reason: "an hour and six minutes", stored: asked(3600), update: lasting(66 * time.Minute), want: honored("other")},
		{reason: "an hour less six minutes", stored: asked(3600), update: lasting(54 * time.Minute), want: honored("other")},
		{reason: "just long enough", stored: asked(1000), update: lasting(651 * time.Second), want: honored("other")},
		{reason: "just too short", stored: asked(1000), update: lasting(650 * time.Second), want: requested("other")},
		{reason: "just short enough", stored: asked(1000), update: lasting(1349 * time.Second), want: honored("other")},
		{reason: "just too long", stored: asked(1000), update: lasting(1350 * time.Second), want: requested("other")},
		{reason: "ten minutes, backdated by five", stored: asked(600), update: lasting(15 * time.Minute), want: honored("other")},
		{reason: "a certificate that does not parse", stored: asked(3600), update: data("text"), want: requested("other")},

		{reason: "signers of Kubernetes have a series of their own", stored: signed("kubernetes.io/anything", 3600), update: lasting(time.Hour), want: honored("kubernetes.io/anything")},
		{reason: "those of its subdomains do not", stored: signed("foo.kubernetes.io/x", 3600), update: lasting(time.Hour), want: honored("other")},

		{reason: "an update that failed", stored: asked(3600), update: lasting(time.Hour), failed: true, want: nothing},
		{reason: "a dry run", stored: asked(3600), update: lasting(time.Hour), options: dryRun, want: nothing},
		{reason: "a certificate that was there before", stored: func(c *csr) { asked(3600)(c); data("old")(c) }, update: lasting(time.Hour), want: nothing},
		{reason: "no requested duration", stored: func(*csr) {}, update: lasting(time.Hour), want: nothing},
		{reason: "no certificate", stored: asked(3600), update: conditions(decided("Failed", "")), want: nothing},
		{reason: "an empty certificate", stored: asked(3600), update: data(""), want: nothing},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if tc.options == nil {
				tc.options = &metav1.UpdateOptions{}
			}
			old := newCSR(t, tc.stored)
			obj := old.DeepCopy()
			tc.update(obj)
			checkCounted(t, obj, old, tc.options, !tc.failed, tc.want)
		})
	}
}

func TestCountsOnlyRequests(t *testing.T) {
	good := func() *csr {
		return newCSR(t, func(c *csr) { c.Spec.ExpirationSeconds = ptr.To[int32](3600) })
	}
	issued := good()
	issued.Status.Certificate = newCertificate(t, time.Hour)

	for reason, pair := range map[string][2]runtime.Object{
		"no old object":      {issued, nil},
		"a nil old object":   {issued, (*certificatesv1.CertificateSigningRequest)(nil)},
		"a foreign old one":  {issued, &metav1.Status{}},
		"no new object":      {nil, good()},
		"a nil new object":   {(*certificatesv1.CertificateSigningRequest)(nil), good()},
		"a foreign new one":  {&metav1.Status{}, good()},
		"nothing whatsoever": {nil, nil},
	} {
		t.Run(reason, func(t *testing.T) {
			checkCounted(t, pair[0], pair[1], &metav1.UpdateOptions{}, true, "")
		})
	}
}

// checkCounted runs an update through the hook of /status.
func checkCounted(t *testing.T, obj, old runtime.Object, options *metav1.UpdateOptions, success bool, want string) {
	t.Helper()
	registry := metrics.NewKubeRegistry()
	counters, err := newDurationCounters(registry.Register)
	if err != nil {
		t.Fatal(err)
	}
	finish, err := counters.beginStatusUpdate(context.Background(), obj, old, options)
	if err != nil {
		t.Fatal(err)
	}
	finish(context.Background(), success)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// Nothing is evaluated before the update is complete: the strategy still
// changes the object.
func TestCountsTheFinishedObject(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	counters, err := newDurationCounters(registry.Register)
	if err != nil {
		t.Fatal(err)
	}
	old := newCSR(t, func(c *csr) { c.Spec.ExpirationSeconds = ptr.To[int32](3600) })
	obj := old.DeepCopy()
	finish, err := counters.beginStatusUpdate(context.Background(), obj, old, &metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	obj.Status.Certificate = newCertificate(t, time.Hour)
	finish(context.Background(), true)
	if err := testutil.GatherAndCompare(registry, strings.NewReader(honored("other"))); err != nil {
		t.Error(err)
	}
}

// Several API servers in one process share their counters.
func TestCountersAreShared(t *testing.T) {
	registry := metrics.NewKubeRegistry()
	for range 2 {
		counters, err := newDurationCounters(registry.Register)
		if err != nil {
			t.Fatal(err)
		}
		counters.requested.WithLabelValues("other").Inc()
	}
	want := requestedHead + `apiserver_certificates_registry_csr_requested_duration_total{signerName="other"} 2` + "\n"
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
