package sign_test

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

const signerName = certificatesv1.KubeAPIServerClientSignerName

type csr = certificatesv1.CertificateSigningRequest

// world is a server whose certificates live for a day at most, and its
// administrator.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

// start starts a server on which only the test approves.
func start(t *testing.T, options ...func(*server.Config)) world {
	t.Helper()
	s := apitest.Start(t, append(options, func(c *server.Config) {
		c.Signing.MaxDuration = metav1.Duration{Duration: 24 * time.Hour}
		c.Controllers = []string{"*", "-approve"}
	})...)
	return world{Server: s, admin: apitest.Client(t, s.Admin(t))}
}

func TestServer(t *testing.T) {
	w := start(t)
	t.Run("durations", w.testDurations)
	t.Run("durations that are refused", w.testRefusedDurations)
	t.Run("certificate", w.testCertificate)
	t.Run("signers", w.testSigners)
	t.Run("legacy signer", w.testLegacySigner)
	t.Run("failed", w.testFailed)
	t.Run("untouched", w.testUntouched)
	t.Run("client certificate", w.testClientCertificate)
	t.Run("bad client certificates", w.testBadClientCertificates)
	t.Run("rights", w.testRights)
	t.Run("separation", w.testSeparation)
	t.Run("events", w.testEvents)
	t.Run("burst", w.testBurst)
}

func newCSR(t *testing.T, name string, subject pki.Subject, key crypto.Signer) *csr {
	t.Helper()
	return apitest.NewCSR(t, name, signerName, subject, key)
}

// issue creates a request, approves it and waits for the certificate, which
// must be all there is in the status.
func (w world) issue(t *testing.T, request *csr) *x509.Certificate {
	t.Helper()
	created := apitest.Create(t, w.admin, request)
	apitest.Decide(t, w.admin, created, certificatesv1.CertificateApproved)
	return w.parse(t, apitest.Issued(t, w.admin, created))[0]
}

// Events in the signer's name say what has become of a request.
func (w world) testEvents(t *testing.T) {
	cert := w.issue(t, newCSR(t, "told", pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
	apitest.Eventually(t, "there is an event about the certificate", func() bool {
		list, err := w.admin.EventsV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "regarding.name=told"})
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Reason == "Issued" && e.ReportingController == "certplane.dev/csr-signer" && strings.Contains(e.Note, cert.SerialNumber.Text(16)) &&
				e.DeprecatedSource.Component == e.ReportingController && e.DeprecatedCount == 1 &&
				!e.DeprecatedFirstTimestamp.IsZero() && e.DeprecatedLastTimestamp == e.DeprecatedFirstTimestamp
		})
	})
}

// parse parses a single certificate of the generated CA, without its chain as
// in Kubernetes, and without anything around it.
func (w world) parse(t *testing.T, data []byte) []*x509.Certificate {
	t.Helper()
	chain := parseChain(t, data)
	if len(chain) != 1 || chain[0].CheckSignatureFrom(w.ClientCA(t).Certificate()) != nil {
		t.Fatalf("not one certificate of the CA:\n%s", data)
	}
	return chain
}

// parseChain parses PEM blocks with certificates and nothing around them.
func parseChain(t *testing.T, data []byte) []*x509.Certificate {
	t.Helper()
	chain, err := pki.ParseCertificates(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(pki.EncodeCertificates(chain...), data) {
		t.Fatalf("not certificates alone:\n%s", data)
	}
	return chain
}

// span returns how long a certificate is valid, counted as the API server's
// metrics count it.
func span(cert *x509.Certificate) time.Duration { return cert.NotAfter.Sub(cert.NotBefore) }

func (w world) testDurations(t *testing.T) {
	const day = 24 * time.Hour
	tests := []struct {
		reason    string
		requested time.Duration
		want      time.Duration
	}{
		{"no wish gets the longest", 0, day},
		{"the longest", day, day},
		{"too long is cut", 2 * day, day},
		{"long", 20 * time.Hour, 20 * time.Hour},
		{"just long", 10 * time.Hour, 10 * time.Hour},
		{"short ones get the backdate on top", 2 * time.Hour, 2*time.Hour + 5*time.Minute},
		{"half an hour", 30 * time.Minute, 35 * time.Minute},
		{"the shortest", 10 * time.Minute, 15 * time.Minute},
	}
	requested, honored := w.scrape(t, requestedMetric), w.scrape(t, honoredMetric)
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			request := newCSR(t, fmt.Sprintf("duration-%d", i), pki.Subject{CommonName: "x"}, apitest.NewKey(t))
			request.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}
			if tc.requested != 0 {
				request.Spec.ExpirationSeconds = ptr.To(int32(tc.requested / time.Second))
			}
			before := time.Now()
			cert := w.issue(t, request)
			if got := span(cert); got != tc.want {
				t.Errorf("the certificate is valid for %v, want %v", got, tc.want)
			}
			if begin, earliest := cert.NotBefore.Add(5*time.Minute), before.Truncate(time.Second); begin.Before(earliest) || begin.After(time.Now()) {
				t.Errorf("the certificate begins at %v, want five minutes before it was issued", cert.NotBefore)
			}
		})
	}
	if diff := cmp.Diff(map[string]int{signerName: 7}, increase(requested, w.scrape(t, requestedMetric))); diff != "" {
		t.Errorf("increase of %s (-want +got):\n%s", requestedMetric, diff)
	}
	if diff := cmp.Diff(map[string]int{signerName: 6}, increase(honored, w.scrape(t, honoredMetric))); diff != "" {
		t.Errorf("increase of %s (-want +got):\n%s", honoredMetric, diff)
	}
}

const (
	requestedMetric = "apiserver_certificates_registry_csr_requested_duration_total"
	honoredMetric   = "apiserver_certificates_registry_csr_honored_duration_total"
	issuedMetric    = "certplane_signing_issued_total"
)

// scrape returns the counters of a metric by the value of their one label.
func (w world) scrape(t *testing.T, metric string) map[string]int {
	t.Helper()
	text, err := w.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	counters := map[string]int{}
	for line := range strings.Lines(string(text)) {
		labels, isCounter := strings.CutPrefix(line, metric+"{")
		parts := strings.Split(labels, `"`)
		if !isCounter || len(parts) != 3 {
			continue
		}
		value, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(parts[2], "}")))
		if err != nil {
			t.Fatalf("reading %q: %v", line, err)
		}
		counters[parts[1]] = value
	}
	return counters
}

func increase(before, after map[string]int) map[string]int {
	grown := map[string]int{}
	for label, count := range after {
		if count != before[label] {
			grown[label] = count - before[label]
		}
	}
	return grown
}

func (w world) testRefusedDurations(t *testing.T) {
	for _, seconds := range []int32{599, 180, 0, -420} {
		request := newCSR(t, "too-short", pki.Subject{CommonName: "x"}, apitest.NewKey(t))
		request.Spec.ExpirationSeconds = &seconds
		_, err := w.admin.CertificatesV1().CertificateSigningRequests().Create(t.Context(), request, metav1.CreateOptions{})
		want := fmt.Sprintf(`CertificateSigningRequest.certificates.k8s.io "too-short" is invalid: spec.expirationSeconds: Invalid value: %d: may not specify a duration less than 600 seconds (10 minutes)`, seconds)
		if !apierrors.IsInvalid(err) || err.Error() != want {
			t.Errorf("%d seconds:\n got %v\nwant %s", seconds, err, want)
		}
	}
}

func (w world) testFailed(t *testing.T) {
	tests := []struct {
		reason string
		usages []certificatesv1.KeyUsage
		want   string
	}{
		{"a server's usage", []certificatesv1.KeyUsage{"client auth", "server auth"}, "invalid usage for client certificate: server auth"},
		{"another name of a right usage", []certificatesv1.KeyUsage{"client auth", "signing"}, "invalid usage for client certificate: signing"},
		{"no client's usage", []certificatesv1.KeyUsage{"digital signature"}, "missing required usage for client certificate: client auth"},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			request := newCSR(t, fmt.Sprintf("failed-%d", i), pki.Subject{CommonName: "x"}, apitest.NewKey(t))
			request.Spec.Usages = tc.usages
			before := metav1.Now().Rfc3339Copy()
			approved := apitest.Decide(t, w.admin, apitest.Create(t, w.admin, request), certificatesv1.CertificateApproved)
			failed := w.waitFor(t, approved.Name, func(c *csr) bool { return len(c.Status.Conditions) > 1 })
			want := certificatesv1.CertificateSigningRequestStatus{Conditions: append(slices.Clone(approved.Status.Conditions),
				certificatesv1.CertificateSigningRequestCondition{Type: "Failed", Status: "True", Reason: "SignerValidationFailure", Message: tc.want})}
			times := cmpopts.IgnoreTypes(metav1.Time{})
			if diff := cmp.Diff(want, failed.Status, times); diff != "" {
				t.Fatalf("status (-want +got):\n%s", diff)
			}
			condition := failed.Status.Conditions[1]
			if condition.LastUpdateTime.Before(&before) || condition.LastTransitionTime.Before(&before) {
				t.Errorf("times of the condition are %v and %v", condition.LastUpdateTime, condition.LastTransitionTime)
			}
		})
	}
}

// waitFor polls one request until it is as wanted.
func (w world) waitFor(t *testing.T, name string, wanted func(*csr) bool) *csr {
	t.Helper()
	var got *csr
	apitest.Eventually(t, name+" is as wanted", func() bool {
		got = w.get(t, name)
		return wanted(got)
	})
	return got
}

func (w world) get(t *testing.T, name string) *csr {
	t.Helper()
	got, err := w.admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// testUntouched checks that the signer answers only approved requests of its
// own.
func (w world) testUntouched(t *testing.T) {
	create := func(name, signer string) *csr {
		return apitest.Create(t, w.admin, apitest.NewCSR(t, name, signer, pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
	}
	untouched := []*csr{
		create("undecided", signerName),
		apitest.Decide(t, w.admin, create("denied", signerName), certificatesv1.CertificateDenied),
		apitest.Decide(t, w.admin, create("failed", signerName), certificatesv1.CertificateFailed),
		create("kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName),
		apitest.Decide(t, w.admin, create("foreign", "example.com/signer"), certificatesv1.CertificateApproved),
	}
	// This request has failed and is then approved.
	untouched[2] = apitest.Decide(t, w.admin, untouched[2], certificatesv1.CertificateApproved)

	// The signer works in the order in which it receives requests. Once it has
	// answered one request more than it has workers, it has looked at the
	// others.
	for i := range w.Config.Signing.Concurrency + 1 {
		w.issue(t, newCSR(t, fmt.Sprintf("after-untouched-%d", i), pki.Subject{CommonName: "x"}, apitest.NewKey(t)))
	}
	for _, before := range untouched {
		if diff := cmp.Diff(before, w.get(t, before.Name)); diff != "" {
			t.Errorf("%s has changed (-was +is):\n%s", before.Name, diff)
		}
	}
}
