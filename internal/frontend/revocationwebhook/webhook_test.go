package revocationwebhook

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

var at = time.Date(2026, 11, 28, 14, 0, 0, 0, time.UTC)

// certificate returns a self-signed certificate.
func certificate(t testing.TB, kind pki.KeyType) *x509.Certificate {
	t.Helper()
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: string(kind)}, NotAfter: at.Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func credential(der []byte) string {
	sum := sha256.Sum256(der)
	return Certificate + hex.EncodeToString(sum[:])
}

// review is what an API server asks about a user.
func review(t testing.TB, ids []string, selector int) []byte {
	t.Helper()
	asked := authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1", Kind: "SubjectAccessReview"},
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: "alice", Groups: []string{"developers", "system:authenticated"},
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "list", Resource: "pods", Version: "v1", LabelSelector: &authorizationv1.LabelSelectorAttributes{}},
			Extra:              map[string]authorizationv1.ExtraValue{"other": {"x"}},
		},
	}
	if ids != nil {
		asked.Spec.Extra[CredentialID] = ids
	}
	for range selector {
		asked.Spec.ResourceAttributes.LabelSelector.Requirements = append(asked.Spec.ResourceAttributes.LabelSelector.Requirements, metav1.LabelSelectorRequirement{Key: "a", Operator: "Exists"})
	}
	body, err := json.Marshal(asked)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// ask posts a body, and returns the status of the answer.
func ask(t testing.TB, h http.Handler, body []byte) (int, authorizationv1.SubjectAccessReviewStatus) {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, Path, bytes.NewReader(body)))
	if answer.Header().Get("Retry-After") != "" {
		t.Error("the answer has Retry-After")
	}
	var got authorizationv1.SubjectAccessReview
	if answer.Code == http.StatusOK {
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || got.TypeMeta != reviewKind {
			t.Errorf("%s, %v", answer.Body, err)
		}
	}
	return answer.Code, got.Status
}

func revokedIn(t testing.TB, certs ...*x509.Certificate) *revocation.Index {
	t.Helper()
	index := revocation.NewIndex()
	var entries []revocation.Entry
	for _, cert := range certs {
		entries = append(entries, revocation.EntryOf(cert, at, pki.ReasonKeyCompromise))
	}
	index.Add(revocation.Act{UID: "laptop", Revision: 1}, entries)
	return index
}

// The certificate of a user decides, in both of its forms, and nothing is ever allowed.
func TestAnswers(t *testing.T) {
	const reason = "the client certificate was revoked on 2026-11-28T14:00:00Z: KeyCompromise"
	h := &Handler{}
	want := func(what string, ids []string, denied bool) {
		code, got := ask(t, h, review(t, ids, 0))
		expected := authorizationv1.SubjectAccessReviewStatus{Denied: denied}
		if denied {
			expected.Reason = reason
		}
		if code != http.StatusOK || got != expected {
			t.Errorf("%s: %d, %+v", what, code, got)
		}
	}
	for _, kind := range pki.KeyTypes() {
		cert, good := certificate(t, kind), certificate(t, pki.ECDSAP256)
		h = New(revokedIn(t, cert).Fingerprint, time.Now, nil)
		want(string(kind), []string{credential(cert.Raw)}, true)
		want("the second of two", []string{credential(good.Raw), credential(cert.Raw)}, true)
		want("behind something else", []string{"JTI=1", credential(cert.Raw)}, true)
		want("another", []string{credential(good.Raw)}, false)
		twin, has := pki.OtherForm(cert)
		if has != strings.HasPrefix(string(kind), "ecdsa") {
			t.Errorf("%s: another form: %t", kind, has)
		}
		if has {
			want("the other form of "+string(kind), []string{credential(twin)}, true)
		}
		want("a token", []string{"JTI=" + strings.TrimPrefix(credential(cert.Raw), Certificate)}, false)
	}
	want("nothing", nil, false)
	want("no digest", []string{Certificate + "zz", Certificate, ""}, false)
}

// A body that is not a review gets 400: kube-apiserver sends a review again after some other codes.
func TestMalformed(t *testing.T) {
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	cert := certificate(t, pki.ECDSAP256)
	h := New(revokedIn(t, cert).Fingerprint, time.Now, metrics)
	good := review(t, []string{credential(cert.Raw)}, 0)
	bad := [][]byte{
		nil, []byte("hello"), []byte("[]"), []byte("{}"), []byte("null"), good[:len(good)/2], append(bytes.Clone(good), '}'),
		bytes.Replace(good, []byte("/v1"), []byte("/v1beta1"), 1), bytes.Replace(good, []byte("SubjectAccessReview"), []byte("TokenReview"), 1),
		[]byte(`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1"}`),
		bytes.Replace(good, []byte(`["X509`), []byte(`[1,"X509`), 1),
		bytes.Repeat([]byte(" "), maxBody+1),
	}
	for _, body := range bad {
		if code, _ := ask(t, h, body); code != http.StatusBadRequest {
			t.Errorf("%.80q: %d", body, code)
		}
	}
	ask(t, h, good)
	ask(t, h, review(t, []string{"JTI=x"}, 0))
	want := fmt.Sprintf(`
# HELP certplane_revocation_webhook_answers_total Number of answers to reviews of API servers, by answer (revoked, unknown, malformed).
# TYPE certplane_revocation_webhook_answers_total counter
certplane_revocation_webhook_answers_total{answer="malformed"} %d
certplane_revocation_webhook_answers_total{answer="revoked"} 1
certplane_revocation_webhook_answers_total{answer="unknown"} 1
`, len(bad))
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "certplane_revocation_webhook_answers_total"); err != nil {
		t.Error(err)
	}
	if n, err := testutil.GatherAndCount(registry, "certplane_revocation_webhook_duration_seconds"); n != 1 || err != nil {
		t.Errorf("%d histograms, %v", n, err)
	}
	for _, r := range []*http.Request{httptest.NewRequest(http.MethodGet, Path, nil), httptest.NewRequest(http.MethodPost, "/", nil)} {
		answer := httptest.NewRecorder()
		if h.ServeHTTP(answer, r); answer.Code/100 != 4 || answer.Code == http.StatusTooManyRequests {
			t.Errorf("%s %s: %d", r.Method, r.URL, answer.Code)
		}
	}
}

// Whoever holds a revoked certificate cannot make the review so large that it is not
// answered: 1 MiB of a label selector is the most that an API server accepts.
func TestLargeReviews(t *testing.T) {
	cert := certificate(t, pki.ECDSAP256)
	h := New(revokedIn(t, cert).Fingerprint, time.Now, nil)
	body := review(t, []string{credential(cert.Raw)}, 1<<20/2)
	if len(body) < 16<<20 {
		t.Fatalf("the review has only %d bytes", len(body))
	}
	var all sync.WaitGroup
	for range maxLarge + 1 {
		all.Go(func() {
			if code, got := ask(t, h, body); code != http.StatusOK || !got.Denied {
				t.Errorf("%d, %+v", code, got)
			}
		})
	}
	all.Wait()
}

func FuzzParse(f *testing.F) {
	f.Add(review(f, []string{Certificate + "00"}, 1))
	f.Add([]byte(`{"kind":"SubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":null}`))
	h := New(revokedIn(f).Fingerprint, time.Now, nil)
	f.Fuzz(func(t *testing.T, body []byte) {
		if code, got := ask(t, h, body); code != http.StatusOK && code != http.StatusBadRequest || got.Denied || got.Allowed {
			t.Errorf("%d, %+v", code, got)
		}
	})
}

// The goal is an answer within 2 ms at 1,000 reviews a second.
func BenchmarkHandler(b *testing.B) {
	cert := certificate(b, pki.ECDSAP256)
	h := New(revokedIn(b, cert).Fingerprint, time.Now, nil)
	for name, id := range map[string]string{"revoked": credential(cert.Raw), "unknown": credential(nil), "large": credential(cert.Raw)} {
		body := review(b, []string{id}, 1)
		if name == "large" {
			body = review(b, []string{id}, 1<<20/2)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				ask(b, h, body)
			}
		})
	}
}
