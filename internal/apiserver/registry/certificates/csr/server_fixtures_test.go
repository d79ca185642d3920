package csr_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

type (
	condition = certificatesv1.CertificateSigningRequestCondition
	csr       = certificatesv1.CertificateSigningRequest
	edit      = func(*csr)
)

const (
	signerName = "example.com/signer"
	v1Path     = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	v1beta1    = "/apis/certificates.k8s.io/v1beta1/certificatesigningrequests"
)

// world is a running server and its administrator.
type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

func start(t *testing.T, options ...func(*server.Config)) world {
	t.Helper()
	s := apitest.Start(t, append([]func(*server.Config){alone}, options...)...)
	return world{Server: s, admin: apitest.Client(t, s.Admin(t))}
}

// bounded returns a context that ends after a time limit.
func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (w world) csrs() certificatesclient.CertificateSigningRequestInterface {
	return w.admin.CertificatesV1().CertificateSigningRequests()
}

// create stores a request through the API.
func (w world) create(t testing.TB, name string, edits ...edit) *csr {
	t.Helper()
	obj, err := w.csrs().Create(bounded(t), newCSR(t, name, edits...), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func (w world) get(t testing.TB, name string) *csr {
	t.Helper()
	obj, err := w.csrs().Get(bounded(t), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// as returns a client of a user.
func (w world) as(t testing.TB, user string) kubernetes.Interface {
	t.Helper()
	return apitest.Client(t, w.As(t, user))
}

// endpoint is one of the endpoints of a request.
type endpoint string

const (
	mainEndpoint     endpoint = ""
	statusEndpoint   endpoint = "status"
	approvalEndpoint endpoint = "approval"
)

func endpoints() []endpoint { return []endpoint{mainEndpoint, statusEndpoint, approvalEndpoint} }

// String returns a text for the names of objects and for messages.
func (e endpoint) String() string {
	if e == mainEndpoint {
		return "main"
	}
	return string(e)
}

// path returns the URL path of a request through the endpoint, in v1.
func (e endpoint) path(name string) string {
	if e == mainEndpoint {
		return v1Path + "/" + name
	}
	return v1Path + "/" + name + "/" + string(e)
}

// option changes how a request is sent.
type option func(*rest.Request)

// dryRun makes the request a dry run.
func dryRun(r *rest.Request) { r.Param("dryRun", metav1.DryRunAll) }

// put updates a request through an endpoint.
func put(t testing.TB, client kubernetes.Interface, via endpoint, obj *csr, options ...option) (*csr, error) {
	t.Helper()
	return send(t, client.CertificatesV1().RESTClient().Put().Body(obj), via, obj.Name, options)
}

// patch patches a request through an endpoint.
func patch(t testing.TB, client kubernetes.Interface, via endpoint, name string, kind types.PatchType, body string, options ...option) (*csr, error) {
	t.Helper()
	return send(t, client.CertificatesV1().RESTClient().Patch(kind).Body([]byte(body)), via, name, options)
}

func send(t testing.TB, request *rest.Request, via endpoint, name string, options []option) (*csr, error) {
	t.Helper()
	obj := &csr{}
	request = request.Resource("certificatesigningrequests").Name(name)
	if via != mainEndpoint {
		request = request.SubResource(string(via))
	}
	for _, option := range options {
		option(request)
	}
	return obj, request.Do(bounded(t)).Into(obj)
}

// mustPut is put by the administrator, and must succeed.
func (w world) mustPut(t testing.TB, via endpoint, obj *csr) *csr {
	t.Helper()
	got, err := put(t, w.admin, via, obj)
	if err != nil {
		t.Fatalf("PUT via %s: %v", via, err)
	}
	return got
}

// call is a request as it is sent over the network.
type call struct {
	method, path        string // default: GET
	contentType, accept string
	body                []byte
}

// answer is a response.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// call sends c as the administrator.
func (w world) call(t testing.TB, c call) answer {
	t.Helper()
	return w.callAs(t, w.Admin(t), c)
}

func (w world) callAs(t testing.TB, cfg *rest.Config, c call) answer {
	t.Helper()
	response := w.respond(t, cfg, c)
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, body}
}

// firstEvent returns the first event of a watch.
func (w world) firstEvent(t testing.TB, path, accept string) answer {
	t.Helper()
	response := w.respond(t, w.Admin(t), call{path: path, accept: accept})
	body := make([]byte, 1<<16)
	n, err := response.Body.Read(body) // events are sent one at a time
	if n == 0 {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, body[:n]}
}

func (w world) respond(t testing.TB, cfg *rest.Config, c call) *http.Response {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(bounded(t), c.method, w.URL+c.path, bytes.NewReader(c.body))
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]string{"Content-Type": c.contentType, "Accept": c.accept} {
		if value != "" {
			request.Header.Set(key, value)
		}
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

// statusOf returns the Status with which a call failed; it is empty if the call
// succeeded.
func statusOf(t testing.TB, err error) metav1.Status {
	t.Helper()
	if err == nil {
		return metav1.Status{}
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("not an answer of the API: %v", err)
	}
	return status.Status()
}

// checkError compares the text of an error; "" means success.
func checkError(t testing.TB, err error, want string) {
	t.Helper()
	if diff := cmp.Diff(want, statusOf(t, err).Message); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// invalid returns the text of a 422.
func invalid(name, errs string) string {
	return `CertificateSigningRequest.certificates.k8s.io "` + name + `" is invalid: ` + errs
}

// forbidden returns the text of an admission plugin's 403.
func forbidden(name, detail string) string {
	return `certificatesigningrequests.certificates.k8s.io "` + name + `" is forbidden: ` + detail
}

// newCSR returns a request that is valid unless an edit makes it invalid.
func newCSR(t testing.TB, name string, edits ...edit) *csr {
	t.Helper()
	obj := &csr{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    newRequest(t, pki.Subject{CommonName: "alice"}),
			SignerName: signerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}
	return changed(obj, edits...)
}

// changed returns a copy of obj with edits.
func changed(obj *csr, edits ...edit) *csr {
	obj = obj.DeepCopy()
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func newRequest(t testing.TB, subject pki.Subject) []byte {
	t.Helper()
	data, err := pki.NewRequest(subject, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newCertificate returns the DER of a certificate that is valid for d.
func newCertificate(t testing.TB, d time.Duration) []byte {
	t.Helper()
	key := apitest.NewKey(t)
	from := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: from.Add(d)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func block(label string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der})
}

// chain returns a certificate with everything around it that is allowed.
func chain(t testing.TB) []byte {
	t.Helper()
	der := newCertificate(t, time.Hour)
	return slices.Concat([]byte("Leaf:\n"), block("CERTIFICATE", der),
		[]byte("Intermediates:\n"), block("CERTIFICATE", slices.Concat(der, der)), []byte("The end.\n"))
}

func signer(name string) edit { return func(c *csr) { c.Spec.SignerName = name } }

func usages(names ...certificatesv1.KeyUsage) edit { return func(c *csr) { c.Spec.Usages = names } }

func expires(seconds int32) edit { return func(c *csr) { c.Spec.ExpirationSeconds = &seconds } }

func certificate(data []byte) edit { return func(c *csr) { c.Status.Certificate = data } }

func finalizers(names ...string) edit { return func(c *csr) { c.Finalizers = names } }

func labels(key, value string) edit {
	return func(c *csr) { c.Labels = map[string]string{key: value} }
}

// conditions replaces the conditions by ones of the given types with status
// True.
func conditions(types ...certificatesv1.RequestConditionType) edit {
	return func(c *csr) {
		c.Status.Conditions = nil
		for _, t := range types {
			c.Status.Conditions = append(c.Status.Conditions, condition{Type: t, Status: "True"})
		}
	}
}

// unconditional removes the version that an update is based on.
func unconditional(c *csr) { c.ResourceVersion = "" }

// emptyIsNil treats values as equal that JSON does not distinguish.
func emptyIsNil() cmp.Option { return cmpopts.EquateEmpty() }

// alone makes sure that only the test changes requests: otherwise the cleaner
// deletes old ones, and signers answer approved ones.
func alone(cfg *server.Config) {
	cfg.Controllers = append(slices.Clone(cfg.Controllers), "-approve", "-sign", "-clean")
}

// withSigners is for tests that use the certificates they request.
func withSigners(cfg *server.Config) {
	cfg.Controllers = append(server.DefaultConfig().Controllers, "-clean")
}
