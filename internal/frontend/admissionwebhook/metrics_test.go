package admissionwebhook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// Reviews are counted by result, and no client can create its own series by
// sending reviews.
func TestMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	handler := New(fake.NewClientset(), known(t), nil, metrics)
	post := func(path string, body []byte) {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
		request.Header.Set("Content-Type", "application/json")
		handler.ServeHTTP(httptest.NewRecorder(), request)
	}
	of := func(resource string) []byte {
		body, err := json.Marshal(review(func(r *admissionv1.AdmissionRequest) { r.Resource.Resource = resource }))
		if err != nil {
			t.Fatal(err)
		}
		return body
	}
	post(MutatePath, of("certificaterequests"))
	post(ValidatePath, of("certificaterequests")) // refused: it contains no request
	post(ValidatePath, of("things"))              // which other clients may send
	post(ValidatePath, []byte("hello"))
	post("/elsewhere", nil)
	const want = `
# HELP certplane_admission_webhook_reviews_total Number of reviews that API servers have asked for, by path (mutate, validate), resource and result (allowed, refused, failed).
# TYPE certplane_admission_webhook_reviews_total counter
certplane_admission_webhook_reviews_total{path="mutate",resource="certificaterequests",result="allowed"} 1
certplane_admission_webhook_reviews_total{path="validate",resource="certificaterequests",result="refused"} 1
certplane_admission_webhook_reviews_total{path="validate",resource="other",result="allowed"} 1
certplane_admission_webhook_reviews_total{path="validate",resource="other",result="failed"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "certplane_admission_webhook_reviews_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "certplane_admission_webhook_review_duration_seconds"); n != 2 || err != nil {
		t.Errorf("%d paths have times, %v", n, err)
	}
}

// The metric shows when the served certificate expires. Before there is one,
// the metric does not exist.
func TestMetricsOfTheCertificate(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	const name = "certplane_admission_webhook_certificate_not_after_seconds"
	if n, err := testutil.GatherAndCount(registry, name); n != 0 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	served := newCertificate(t)
	(&Server{Metrics: metrics}).Use(served)
	if got := testutil.ToFloat64(metrics.notAfter); got != float64(served.Leaf.NotAfter.Unix()) {
		t.Errorf("it ends at %f", got)
	}
}
