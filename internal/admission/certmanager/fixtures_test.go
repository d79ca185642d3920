package certmanager_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
)

// common is the server of the tests that define no kinds.
var common = apitest.Shared{Options: []func(*server.Config){withoutControllers}}

func TestMain(m *testing.M) { apitest.Main(m, &common) }

// withoutControllers makes sure that only the tests change the requests.
func withoutControllers(c *server.Config) {
	c.Controllers = append(c.Controllers, "-issuers", "-certificates", "-certificaterequests", "-certificaterequests-approver", "-certificatesigningrequests")
}

// world is a server and its administrator, in a namespace of the test's.
type world struct {
	*apitest.Server
	namespace string
	admin     client.Client
}

func start(t *testing.T) *world {
	t.Helper()
	return startOn(t, common.Start(t))
}

func startOn(t *testing.T, s *apitest.Server) *world {
	t.Helper()
	w := &world{Server: s, namespace: apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t)))}
	w.admin = w.connect(t, w.Admin(t))
	return w
}

// user returns the name of a user that no other test has.
func (w *world) user(name string) string { return name + "-of-" + w.namespace }

// as returns a client of a user with the rights in rules.
func (w *world) as(t *testing.T, user string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	w.Grant(t, user, rules...)
	return w.connect(t, w.As(t, user))
}

func (w *world) connect(t *testing.T, cfg *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, api.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	connected, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return client.NewNamespacedClient(connected, w.namespace)
}

// rule returns a rule about resources of cert-manager.io.
func rule(verbs, resources string, names ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		Verbs: strings.Fields(verbs), APIGroups: []string{api.Group}, Resources: strings.Fields(resources), ResourceNames: names,
	}
}

// Extensions that a request can have.
var (
	basicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	keyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	extKeyUsage      = asn1.ObjectIdentifier{2, 5, 29, 37}

	serverAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	clientAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
)

func newKey(t testing.TB, curve elliptic.Curve) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ext(t testing.TB, id asn1.ObjectIdentifier, value any) pkix.Extension {
	t.Helper()
	encoded, err := asn1.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return pkix.Extension{Id: id, Value: encoded}
}

func newCSR(t testing.TB, key crypto.Signer, extensions ...pkix.Extension) []byte {
	t.Helper()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "web"}, DNSNames: []string{"web.example.com"}, ExtraExtensions: extensions}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

// newRequest returns a request that has not been sent yet.
func newRequest(t testing.TB, name string, ref cmmeta.IssuerReference) *cmv1.CertificateRequest {
	t.Helper()
	return &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       cmv1.CertificateRequestSpec{IssuerRef: ref, Request: newCSR(t, newKey(t, elliptic.P256()))},
	}
}

// create stores cr and updates it with the server's answer.
func create(t testing.TB, c client.Client, cr *cmv1.CertificateRequest) *cmv1.CertificateRequest {
	t.Helper()
	if err := c.Create(t.Context(), cr); err != nil {
		t.Fatalf("creating a request: %v", err)
	}
	return cr
}

// decide approves or denies cr in a copy.
func decide(t testing.TB, c client.Client, cr *cmv1.CertificateRequest, kind cmv1.CertificateRequestConditionType) error {
	t.Helper()
	decided := cr.DeepCopy()
	api.SetRequestCondition(decided, kind, cmmeta.ConditionTrue, "Test", "decided by a test", metav1.Now())
	err := c.Status().Update(t.Context(), decided)
	if err == nil {
		*cr = *decided
	}
	return err
}

// refused checks that err is a refusal with the text of a webhook.
func refused(t testing.TB, err error, want string) {
	t.Helper()
	const denial = `admission webhook "webhook.cert-manager.io" denied the request: `
	if err == nil {
		t.Errorf("it was let through, want a refusal with %q", want)
	} else if !strings.HasPrefix(err.Error(), denial) || !strings.Contains(err.Error(), want) {
		t.Errorf("refused with\n%v\nwant %s... %s", err, denial, want)
	}
}

func attributes(namespace, verb, group, resource, subresource string) authorizationv1.ResourceAttributes {
	return authorizationv1.ResourceAttributes{Namespace: namespace, Verb: verb, Group: group, Resource: resource, Subresource: subresource}
}
