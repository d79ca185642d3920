package sign

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/metrics"
	"github.com/certplane/certplane/internal/pki"
)

// caOf returns a CA with this lifetime.
func caOf(t *testing.T, life time.Duration) *pki.Authority {
	t.Helper()
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "short-lived", newKey(t), life, now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// Events say that a CA has shortened a certificate, so that no user has to
// compare dates.
func TestTellsOfShortenedCertificates(t *testing.T) {
	f := newFixture(t, approved(t))
	f.ca.authority = caOf(t, 24*time.Hour)
	assertQuiet(t, f)
	want := fmt.Sprintf("which ends on %s with its CA, 8735h55m0s earlier than requested", now.Add(24*time.Hour).Format(time.RFC3339))
	if got := f.eventText(); !strings.Contains(got, "Normal Issued ") || !strings.Contains(got, want) {
		t.Errorf("events are %q, want %q in them", got, want)
	}
	assertMetrics(t, f, map[string]float64{
		"certplane_signing_issued_total":               1,
		"certplane_signing_shortened_total":            1,
		"certplane_signing_signature_duration_seconds": 1,
		"certplane_signing_duration_seconds":           1,
	})
}

func TestWaited(t *testing.T) {
	at := func(d time.Duration) condition {
		return condition{Type: "Approved", Status: "True", LastUpdateTime: metav1.NewTime(now.Add(d))}
	}
	tests := []struct {
		reason     string
		conditions []condition
		want       time.Duration
		known      bool
	}{
		{reason: "approved before", conditions: []condition{{Type: "Other"}, at(-3 * time.Second)}, want: 3 * time.Second, known: true},
		{reason: "another's clock is ahead", conditions: []condition{at(time.Minute)}, known: true},
		{reason: "waited for the CA", conditions: []condition{at(-time.Hour), {Type: certificates.ConditionDelayed}}},
		{reason: "no time", conditions: []condition{{Type: "Approved"}}},
		{reason: "not approved"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			c := &csr{}
			c.Status.Conditions = tc.conditions
			if got, known := waited(c, now); got != tc.want || known != tc.known {
				t.Errorf("%v, %v, want %v, %v", got, known, tc.want, tc.known)
			}
		})
	}
}

// The time in the queue is counted once for each request, however it ends.
func TestCountsQueueWaitOnce(t *testing.T) {
	c := approved(t)
	c.Status.Conditions[0].LastUpdateTime = metav1.NewTime(now.Add(-time.Hour))
	f := newFixture(t, c)
	f.ca.err = errors.New("no CA")
	if _, err := f.reconcile(); err == nil {
		t.Error("no error without a CA")
	}
	f.ca.err = nil
	assertQuiet(t, f)
	assertMetrics(t, f, map[string]float64{
		"certplane_signing_queue_wait_seconds":         1,
		"certplane_signing_delayed_total":              1,
		"certplane_signing_issued_total":               1,
		"certplane_signing_signature_duration_seconds": 1,
		"certplane_signing_duration_seconds":           1,
	})
}

// Counters exist before they are first incremented, so that alerts notice the
// first time.
func TestMetricsBeginAtZero(t *testing.T) {
	registry := prometheus.NewRegistry()
	if err := AddBuiltIn(newManager(t), BuiltIn{Config: Config{SignerName: servingSigner, Metrics: registry}, CA: &fakeCA{}}); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, name := range []string{
		"certplane_signing_issued_total", "certplane_signing_refused_total", "certplane_signing_delayed_total", "certplane_signing_shortened_total",
		"certplane_signing_queue_wait_seconds", "certplane_signing_signature_duration_seconds", "certplane_signing_duration_seconds",
	} {
		count, err := testutil.GatherAndCount(registry, name)
		if err != nil {
			t.Fatal(err)
		}
		got[name] = count
	}
	want := map[string]int{
		"certplane_signing_issued_total": 1, "certplane_signing_shortened_total": 1, "certplane_signing_duration_seconds": 1,
		"certplane_signing_queue_wait_seconds": 1, "certplane_signing_signature_duration_seconds": 1,
		"certplane_signing_refused_total": len(signer.PermanentReasons()), "certplane_signing_delayed_total": len(signer.PendingReasons()),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
}

// TestCAWatch follows one CA from its last months to its replacement.
func TestCAWatch(t *testing.T) {
	counts, err := metrics.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	clock, ca := clocktesting.NewFakePassiveClock(now), &fakeCA{authority: caOf(t, 100*24*time.Hour)}
	told := events.NewFakeRecorder(10)
	w := &caWatch{
		signerName: servingSigner, ca: ca, clock: clock, warnBefore: 30 * 24 * time.Hour, metrics: counts, events: told,
		regarding: &corev1.ObjectReference{Kind: "ServiceAccount", Namespace: "kube-system", Name: "csr-signer"},
	}
	const day = 24 * time.Hour
	steps := []struct {
		reason string
		after  time.Duration
		change func()
		warns  bool
	}{
		{reason: "long before", after: 70*day - time.Second},
		{reason: "a month before", after: 70 * day, warns: true},
		{reason: "an hour later", after: 70*day + time.Hour},
		{reason: "a day later", after: 71 * day, warns: true},
		{reason: "no CA for a moment", after: 73 * day, change: func() { ca.err = errors.New("gone") }},
		{reason: "it is back", after: 73 * day, change: func() { ca.err = nil }, warns: true},
		{reason: "another that ends even earlier", after: 73*day + time.Minute, change: func() { ca.authority = caOf(t, 80*day) }, warns: true},
		{reason: "a good one", after: 75 * day, change: func() { ca.authority = caOf(t, 1000*day) }},
	}
	for _, step := range steps {
		if step.change != nil {
			step.change()
		}
		clock.SetTime(now.Add(step.after))
		w.look(t.Context())
		if warned := len(told.Events) > 0; warned != step.warns {
			t.Errorf("%s: warned %v, want %v", step.reason, warned, step.warns)
		}
		for len(told.Events) > 0 {
			if got := <-told.Events; !strings.HasPrefix(got, "Warning CAEndsSoon The CA of signer kubernetes.io/kubelet-serving expires on 2026-") {
				t.Errorf("%s: event %q", step.reason, got)
			}
		}
		if got, want := testutil.ToFloat64(counts.NotAfter.WithLabelValues(servingSigner)), float64(ca.authority.Validity().NotAfter.Unix()); got != want {
			t.Errorf("%s: the metric says %v, want %v", step.reason, got, want)
		}
	}
}
