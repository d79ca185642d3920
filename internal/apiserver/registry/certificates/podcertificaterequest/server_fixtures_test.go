package podcertificaterequest_test

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	client "k8s.io/client-go/kubernetes/typed/certificates/v1beta1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

type podRequest = certificatesv1beta1.PodCertificateRequest

const signerName = "example.com/signer"

// world is a running server and its administrator.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

func start(t *testing.T, options ...func(*server.Config)) world {
	t.Helper()
	s := apitest.Start(t, options...)
	return world{Server: s, admin: apitest.Client(t, s.Admin(t))}
}

// anyPod allows requests for pods that do not exist.
func anyPod(c *server.Config) {
	c.Admission.DisabledPlugins = append(c.Admission.DisabledPlugins, "PodCertificateIdentity")
}

func requests(of kubernetes.Interface) client.PodCertificateRequestInterface {
	return of.CertificatesV1beta1().PodCertificateRequests("default")
}

// newRequest returns a request for a pod that need not exist.
func newRequest(t testing.TB, name string, key crypto.Signer, edits ...func(*podRequest)) *podRequest {
	t.Helper()
	stub, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	request := &podRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: signerName,
			PodName:    "p", PodUID: "pod-uid", ServiceAccountName: "sa", ServiceAccountUID: "sa-uid", NodeName: "n", NodeUID: "node-uid",
			StubPKCS10Request: stub,
		},
	}
	for _, edit := range edits {
		edit(request)
	}
	return request
}

// create stores a request.
func (w world) create(t testing.TB, name string, key crypto.Signer, edits ...func(*podRequest)) *podRequest {
	t.Helper()
	return must(requests(w.admin).Create(t.Context(), newRequest(t, name, key, edits...), metav1.CreateOptions{}))(t)
}

func must[T any](obj T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return obj
	}
}

// issued returns request with a certificate of a CA created for it.
func issued(t testing.TB, request *podRequest, key crypto.Signer) *podRequest {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", apitest.NewKey(t), time.Hour*48, now)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := root.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "p"}, key.Public(), pki.ClientUsages(), 2*time.Hour, now.Add(time.Minute)) // it is backdated
	if err != nil {
		t.Fatal(err)
	}
	return answered(request, chain...)
}

// answered returns request with a chain and the fields that belong to it.
func answered(request *podRequest, chain ...*x509.Certificate) *podRequest {
	request = request.DeepCopy()
	at := func(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
	request.Status = certificatesv1beta1.PodCertificateRequestStatus{
		Conditions:       []metav1.Condition{condition("Issued")},
		CertificateChain: string(pki.EncodeCertificates(chain...)),
		NotBefore:        at(chain[0].NotBefore), NotAfter: at(chain[0].NotAfter),
		BeginRefreshAt: at(chain[0].NotAfter.Add(-30 * time.Minute)),
	}
	return request
}

// selfSigned returns a leaf that is its own CA, which no signer should issue.
func selfSigned(t testing.TB, key crypto.Signer) *x509.Certificate {
	t.Helper()
	now := time.Now().Truncate(time.Second)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "self"}, NotBefore: now, NotAfter: now.Add(2 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return must(x509.ParseCertificate(der))(t)
}

func condition(kind string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now()}
}

// deniedOf returns request after its signer has denied it.
func deniedOf(request *podRequest) *podRequest {
	request = request.DeepCopy()
	request.Status.Conditions = []metav1.Condition{condition("Denied")}
	return request
}

// causes returns the fields of a 422 and their errors.
func causes(t testing.TB, err error) []string {
	t.Helper()
	if !apierrors.IsInvalid(err) {
		t.Fatalf("got %v, want 422", err)
	}
	var causes []string
	for _, cause := range err.(apierrors.APIStatus).Status().Details.Causes {
		causes = append(causes, string(cause.Type)+" "+cause.Field)
	}
	return causes
}

func wantCauses(t testing.TB, err error, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, causes(t, err)); diff != "" {
		t.Errorf("causes (-want +got):\n%s\n%v", diff, err)
	}
}

// send sends a plain HTTP request, for content that typed clients do not send
// or return.
func (w world) send(t testing.TB, cfg *rest.Config, method, path, contentType, body string) (code int, header http.Header, answer []byte) {
	t.Helper()
	transport, err := rest.TransportFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(context.Background(), method, w.URL+path, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err = io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, answer
}
