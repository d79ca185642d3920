package csr_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/apitest"
)

// The counters belong to the process: this test is not parallel, and compares
// differences.
func TestServerMetrics(t *testing.T) {
	w := start(t)
	t.Run("exposition", w.testExposition)
	t.Run("counted", w.testCounted)
	t.Run("not counted", w.testNotCounted)
}

const (
	requested = "apiserver_certificates_registry_csr_requested_duration_total"
	honored   = "apiserver_certificates_registry_csr_honored_duration_total"
)

// durations returns the lines of /metrics about requested durations.
func (w world) durations(t *testing.T) []string {
	t.Helper()
	var lines []string
	for line := range strings.Lines(string(w.call(t, call{path: "/metrics"}).body)) {
		if strings.Contains(line, requested) || strings.Contains(line, honored) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

// counters returns the values of all series.
func (w world) counters(t *testing.T) map[string]float64 {
	t.Helper()
	counters := map[string]float64{}
	for _, line := range w.durations(t) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		series, value, _ := strings.Cut(line, " ")
		var n float64
		if _, err := fmt.Sscan(value, &n); err != nil {
			t.Fatal(err)
		}
		counters[series] = n
	}
	return counters
}

// grown returns the series that have grown since before, and by how much.
func (w world) grown(t *testing.T, before map[string]float64) map[string]float64 {
	t.Helper()
	grown := map[string]float64{}
	for series, n := range w.counters(t) {
		if n != before[series] {
			grown[series] = n - before[series]
		}
	}
	return grown
}

func series(name, signer string) string { return name + `{signerName="` + signer + `"}` }

func lasting(t testing.TB, d time.Duration) edit {
	t.Helper()
	return certificate(block("CERTIFICATE", newCertificate(t, d)))
}

// Dashboards depend on these lines. A signer has no lines before its first
// certificate.
func (w world) testExposition(t *testing.T) {
	signerName := "kubernetes.io/x" + strings.ToLower(rand.Text())
	if got, ok := w.counters(t)[series(requested, signerName)]; ok {
		t.Errorf("there is a series before the first certificate: %v", got)
	}
	obj := w.create(t, "exposition", signer(signerName), expires(3600))
	w.mustPut(t, statusEndpoint, changed(obj, lasting(t, time.Hour)))
	var got []string
	for _, line := range w.durations(t) {
		if strings.HasPrefix(line, "#") || strings.Contains(line, signerName) {
			got = append(got, line)
		}
	}
	want := []string{
		"# HELP " + honored + " [ALPHA] Total number of issued CSRs with a requested duration that was honored, sliced by signer (only kubernetes.io signer names are specifically identified)",
		"# TYPE " + honored + " counter",
		series(honored, signerName) + " 1",
		"# HELP " + requested + " [ALPHA] Total number of issued CSRs with a requested duration, sliced by signer (only kubernetes.io signer names are specifically identified)",
		"# TYPE " + requested + " counter",
		series(requested, signerName) + " 1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func (w world) testCounted(t *testing.T) {
	only := func(signer string) map[string]float64 { return map[string]float64{series(requested, signer): 1} }
	both := func(signer string) map[string]float64 {
		return map[string]float64{series(requested, signer): 1, series(honored, signer): 1}
	}
	seconds := func(n int) edit { return lasting(t, time.Duration(n)*time.Second) }
	for i, tc := range []struct {
		reason  string
		signer  string
		seconds int32
		issued  edit
		want    map[string]float64
	}{
		{"exactly", "example.com/a", 3600, seconds(3600), both("other")},
		{"six minutes more", "example.com/a", 3600, seconds(3960), both("other")},
		{"six minutes less", "example.com/a", 3600, seconds(3240), both("other")},
		{"at the lower bound", "example.com/a", 1000, seconds(651), both("other")},
		{"below it", "example.com/a", 1000, seconds(650), only("other")},
		{"at the upper bound", "example.com/a", 1000, seconds(1349), both("other")},
		{"above it", "example.com/a", 1000, seconds(1350), only("other")},
		{"backdated", "example.com/a", 600, seconds(900), both("other")},
		{"half of it", "kubernetes.io/anything", 7200, seconds(3600), only("kubernetes.io/anything")},
		{"a known signer", "kubernetes.io/kubelet-serving", 7200, seconds(7200), both("kubernetes.io/kubelet-serving")},
		{"a lookalike", "foo.kubernetes.io/x", 3600, seconds(3600), both("other")},
		{"the first certificate counts", "example.com/a", 3600, certificate(append(block("CERTIFICATE", newCertificate(t, time.Hour)), block("CERTIFICATE", newCertificate(t, 99*time.Hour))...)), both("other")},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj := w.create(t, fmt.Sprintf("counted-%d", i), signer(tc.signer), expires(tc.seconds))
			before := w.counters(t)
			w.mustPut(t, statusEndpoint, changed(obj, tc.issued))
			if diff := cmp.Diff(tc.want, w.grown(t, before)); diff != "" {
				t.Errorf("grown (-want +got):\n%s", diff)
			}
		})
	}
}

func (w world) testNotCounted(t *testing.T) {
	w.Grant(t, "updater", apitest.Allow("update", "certificatesigningrequests/status"))
	issue := lasting(t, time.Hour)
	hour := w.create(t, "hour", expires(3600))
	issued := w.plant(t, "issued", expires(3600), issue)
	forever := w.create(t, "forever")
	before := w.counters(t)

	_, err := put(t, w.admin, statusEndpoint, changed(hour, issue), dryRun)
	checkError(t, err, "")
	_, err = put(t, w.as(t, "updater"), statusEndpoint, changed(hour, issue))
	checkError(t, err, forbidden("hour", `user not permitted to sign requests with signerName "example.com/signer"`))
	_, err = put(t, w.admin, statusEndpoint, changed(hour, issue, conditions("Approved")))
	checkError(t, err, invalid("hour", may("add", "Approved")))
	w.mustPut(t, statusEndpoint, changed(issued, timed("", "Failed")))
	w.mustPut(t, statusEndpoint, changed(forever, issue))
	w.mustPut(t, approvalEndpoint, changed(hour, issue, timed("", "Approved")))
	w.mustPut(t, mainEndpoint, changed(hour, issue, labels("a", "b"), unconditional))
	w.mustPut(t, statusEndpoint, changed(hour, timed("", "Approved", "Failed"), unconditional))
	if diff := cmp.Diff(map[string]float64{}, w.grown(t, before)); diff != "" {
		t.Errorf("grown (-want +got):\n%s", diff)
	}

	// v1beta1 can store data that is not a certificate: it counts as requested,
	// but not as honored.
	obj := w.getBeta(t, "hour")
	obj.Status.Certificate = []byte("text")
	_, err = w.putBeta(t, statusEndpoint, obj)
	checkError(t, err, "")
	if diff := cmp.Diff(map[string]float64{series(requested, "other"): 1}, w.grown(t, before)); diff != "" {
		t.Errorf("grown (-want +got):\n%s", diff)
	}
}
