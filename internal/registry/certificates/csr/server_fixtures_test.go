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
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	certificatesclient "k8s.io/client-go/kubernetes/typed/certificates/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/server"
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
	s := apitest.Start(t, options...)
	return world{Server: s, admin: apitest.Client(t, s.Admin(t))}
}

// bounded is a context that ends before anybody loses patience.
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

// as is a client of a user.
func (w world) as(t testing.TB, user string) kubernetes.Interface {
	t.Helper()
	return apitest.Client(t, w.As(t, user))
}

// rule is about resources of the group; verbs, resources and names are
// separated by spaces.
func rule(verbs, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{certificatesv1.GroupName},
		Resources: strings.Fields(resources), ResourceNames: names}
}

// grant gives rights to a user and waits until the authorizer knows.
func (w world) grant(t testing.TB, user string, rules ...rbacv1.PolicyRule) {
	t.Helper()
	ctx := bounded(t)
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "of-" + user},
		Rules:      append(rules, rule("get", "granted", user)), // what grant waits for
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "of-" + user},
		RoleRef:    rbacv1.RoleRef{Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: "User", Name: user}},
	}
	if _, err := w.admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.RbacV1().ClusterRoleBindings().Create(ctx, binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	known := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: user,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "get", Group: certificatesv1.GroupName, Resource: "granted", Name: user,
		},
	}}
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		review, err := w.admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, known, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	})
	if err != nil {
		t.Fatalf("waiting until the authorizer knows the rights of %s: %v", user, err)
	}
}

// endpoint is one of the ways to a request.
type endpoint string

const (
	mainEndpoint     endpoint = ""
	statusEndpoint   endpoint = "status"
	approvalEndpoint endpoint = "approval"
)

func endpoints() []endpoint { return []endpoint{mainEndpoint, statusEndpoint, approvalEndpoint} }

func (e endpoint) String() string { return "/" + string(e) }

// path is the URL path of a request through the endpoint, in v1.
func (e endpoint) path(name string) string {
	if e == mainEndpoint {
		return v1Path + "/" + name
	}
	return v1Path + "/" + name + "/" + string(e)
}

// put updates a request through an endpoint.
func put(t testing.TB, client kubernetes.Interface, via endpoint, obj *csr) (*csr, error) {
	t.Helper()
	return into(t, client.CertificatesV1().RESTClient().Put().Body(obj), via, obj.Name)
}

// patch patches a request through an endpoint.
func patch(t testing.TB, client kubernetes.Interface, via endpoint, name string, kind types.PatchType, body string) (*csr, error) {
	t.Helper()
	return into(t, client.CertificatesV1().RESTClient().Patch(kind).Body([]byte(body)), via, name)
}

func into(t testing.TB, request *rest.Request, via endpoint, name string) (*csr, error) {
	t.Helper()
	obj := &csr{}
	request = request.Resource("certificatesigningrequests").Name(name)
	if via != mainEndpoint {
		request = request.SubResource(string(via))
	}
	return obj, request.Do(bounded(t)).Into(obj)
}

// mustPut is put by the administrator that has to succeed.
func (w world) mustPut(t testing.TB, via endpoint, obj *csr) *csr {
	t.Helper()
	got, err := put(t, w.admin, via, obj)
	if err != nil {
		t.Fatalf("PUT %s: %v", via, err)
	}
	return got
}

// call is a request as it goes over the wire.
type call struct {
	method, path        string // GET is the default
	contentType, accept string
	body                []byte
}

// answer is what comes back.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// call sends c as the administrator.
func (w world) call(t testing.TB, c call) answer {
	t.Helper()
	return callAs(t, w.Admin(t), w.URL, c)
}

func callAs(t testing.TB, cfg *rest.Config, url string, c call) answer {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(bounded(t), c.method, url+c.path, bytes.NewReader(c.body))
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
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, body}
}

// statusOf is the Status that a call failed with; it is empty if it succeeded.
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

// checkError compares the text of an error; "" is success.
func checkError(t testing.TB, err error, want string) {
	t.Helper()
	if diff := cmp.Diff(want, statusOf(t, err).Message); diff != "" {
		t.Errorf("error (-want +got):\n%s", diff)
	}
}

// invalid is the text of a 422.
func invalid(name, errs string) string {
	return `CertificateSigningRequest.certificates.k8s.io "` + name + `" is invalid: ` + errs
}

// forbidden is the text of an admission plugin's 403.
func forbidden(name, detail string) string {
	return `certificatesigningrequests.certificates.k8s.io "` + name + `" is forbidden: ` + detail
}

// newCSR is a request that is valid unless an edit spoils it.
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

// changed is a copy of obj with edits.
func changed(obj *csr, edits ...edit) *csr {
	obj = obj.DeepCopy()
	for _, edit := range edits {
		edit(obj)
	}
	return obj
}

func newRequest(t testing.TB, subject pki.Subject) []byte {
	t.Helper()
	key, err := pki.GenerateKey("ecdsa-p256")
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(subject, key)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newCertificate is the DER of a certificate that is valid for d.
func newCertificate(t testing.TB, d time.Duration) []byte {
	t.Helper()
	key, err := pki.GenerateKey("ecdsa-p256")
	if err != nil {
		t.Fatal(err)
	}
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

// chain is a certificate with everything around it that is allowed.
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

// conditions replaces the conditions by true ones of the given types.
func conditions(types ...certificatesv1.RequestConditionType) edit {
	return func(c *csr) {
		c.Status.Conditions = nil
		for _, t := range types {
			c.Status.Conditions = append(c.Status.Conditions, condition{Type: t, Status: "True"})
		}
	}
}

// unconditional leaves out the version that an update is based on.
func unconditional(c *csr) { c.ResourceVersion = "" }

// emptyIsNil compares what JSON does not tell apart as equal.
func emptyIsNil() cmp.Option { return cmpopts.EquateEmpty() }
