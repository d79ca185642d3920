//go:build venafi

package venafi_test

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/server"
	"github.com/certplane/certplane/internal/signer/venafi/venafitest"
)

const (
	annotationPickup    = "venafi.cert-manager.io/pickup-id"
	annotationPickupCSR = "venafi.experimental.cert-manager.io/pickup-id"
	annotationFields    = "venafi.cert-manager.io/custom-fields"
	zone                = `Certificates\web`
)

// world is a real API server with its controllers, and a stand-in for TPP.
type world struct {
	*apitest.Server
	tpp   *venafitest.Server
	admin client.Client
}

func start(t *testing.T) *world {
	t.Helper()
	w := &world{Server: apitest.Start(t, func(cfg *server.Config) { cfg.CertManager.Venafi.AllowLoopback = true }), tpp: venafitest.Start(t)}
	w.connect(t)
	w.create(t, secret("tpp", map[string]string{"username": venafitest.User, "password": venafitest.Password}), w.issuer("corp", nil))
	return w
}

func (w *world) connect(t *testing.T) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, certmanager.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	everywhere, err := client.New(w.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w.admin = client.NewNamespacedClient(everywhere, "default")
}

func (w *world) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := w.admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

func secret(name string, data map[string]string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}
}

func (w *world) issuer(name string, change func(*cmv1.Issuer)) *cmv1.Issuer {
	i := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Name: name}}
	i.Spec.Venafi = &cmv1.VenafiIssuer{Zone: zone, TPP: &cmv1.VenafiTPP{
		URL: w.tpp.URL + "/vedsdk", CredentialsRef: cmmeta.LocalObjectReference{Name: "tpp"}, CABundle: w.tpp.Bundle(),
	}}
	if change != nil {
		change(i)
	}
	return i
}

func (w *world) request(t *testing.T, name, cn, issuer string, change func(*cmv1.CertificateRequest)) *cmv1.CertificateRequest {
	t.Helper()
	pem, err := pki.NewRequest(pki.Subject{CommonName: cn, DNSNames: []string{cn}}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	cr := &cmv1.CertificateRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
	cr.Spec.Request, cr.Spec.IssuerRef = pem, cmmeta.IssuerReference{Name: issuer}
	if change != nil {
		change(cr)
	}
	w.create(t, cr)
	return cr
}

// becomes waits until a request shows this state, and a message with this part.
func (w *world) becomes(t *testing.T, name, reason, part string) *cmv1.CertificateRequest {
	t.Helper()
	cr := &cmv1.CertificateRequest{}
	shows := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s shows %s", name, shows)
		}
	}()
	apitest.Eventually(t, name+" is "+reason+" "+part, func() bool {
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: name}, cr); err != nil {
			t.Fatal(err)
		}
		ready := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady)
		if ready == nil {
			return false
		}
		shows = ready.Reason + " " + ready.Message
		return ready.Reason == reason && strings.Contains(ready.Message, part)
	})
	return cr
}

// holds reports an error unless a request has the certificate for its key.
func holds(t *testing.T, name string, chain, request []byte) *x509.Certificate {
	t.Helper()
	certs, err := pki.ParseCertificates(chain)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	csr, err := pki.ParseRequest(request)
	if err != nil {
		t.Fatal(err)
	}
	if !pki.SameKey(certs[0].PublicKey, csr.PublicKey) {
		t.Errorf("%s has a certificate for another key", name)
	}
	return certs[0]
}

func (w *world) ready(t *testing.T, issuer, want string) {
	t.Helper()
	apitest.Eventually(t, issuer+" is "+want, func() bool {
		i := &cmv1.Issuer{}
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: issuer}, i); err != nil {
			t.Fatal(err)
		}
		ready := certmanager.IssuerCondition(i, cmv1.IssuerConditionReady)
		if ready == nil {
			return false
		}
		text := strings.ReplaceAll(fmt.Sprintf("%s %s %s", ready.Status, ready.Reason, ready.Message), w.tpp.URL, "SERVER")
		t.Log(text)
		return strings.Contains(text, want)
	})
}

// From a request to its certificate, in both flows.
func TestIssue(t *testing.T) {
	w := start(t)
	w.ready(t, "corp", "True Certificate Manager issuer started Certificate Manager issuer started")
	cr := w.request(t, "web", "web.example.com", "corp", func(cr *cmv1.CertificateRequest) {
		cr.Annotations = map[string]string{annotationFields: `[{"name": "team", "value": "a"}]`}
	})
	issued := w.becomes(t, "web", cmv1.CertificateRequestReasonIssued, "Certificate fetched from issuer successfully")
	leaf := holds(t, "web", issued.Status.Certificate, cr.Spec.Request)
	if certs, err := pki.ParseCertificates(issued.Status.Certificate); err != nil || len(certs) != 2 || len(issued.Status.CA) == 0 {
		t.Errorf("%d certificates, CA %q", len(certs), issued.Status.CA)
	}
	if life := time.Until(leaf.NotAfter); life < 89*24*time.Hour || life > 91*24*time.Hour {
		t.Errorf("lives %v", life)
	}
	if id := issued.Annotations[annotationPickup]; id != `\VED\Policy\`+zone+`\web.example.com` {
		t.Errorf("pick-up id %q", id)
	}
	sent := w.tpp.Calls("/certificates/request")
	if len(sent) != 1 {
		t.Fatalf("%d requests", len(sent))
	}
	for field, want := range map[string]string{
		"PolicyDN": `\VED\Policy\` + zone, "ObjectName": "web.example.com", "CertificateType": "AUTO", "DisableAutomaticRenewal": "true",
		"Reenable": "true", "Origin": "cert-manager", "PKCS10": string(cr.Spec.Request), "CustomFields": "[map[Name:team Values:[a]]]",
	} {
		if got := fmt.Sprint(sent[0].Body[field]); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	if got := len(w.tpp.Calls("/authorize/oauth")); got != 1 {
		t.Errorf("%d tokens for one issuer", got)
	}
	if got := len(w.tpp.Calls("/certificates/reset")); got != 1 {
		t.Errorf("%d resets", got)
	}

	clientset := apitest.Client(t, w.Admin(t))
	csr := apitest.NewCSR(t, "web", "issuers.cert-manager.io/default.corp", pki.Subject{CommonName: "csr.example.com"}, apitest.NewKey(t))
	created := apitest.Decide(t, clientset, apitest.Create(t, clientset, csr), certificatesv1.CertificateApproved)
	holds(t, "the CSR", apitest.Issued(t, clientset, created), csr.Spec.Request)
	stored, err := clientset.CertificatesV1().CertificateSigningRequests().Get(t.Context(), "web", metav1.GetOptions{})
	if err != nil || stored.Annotations[annotationPickupCSR] != `\VED\Policy\`+zone+`\csr.example.com` {
		t.Errorf("%v, annotations %v", err, stored.Annotations)
	}
}

// Requests with one common name are for one object on the server, which has the
// certificate of the last one.
func TestOneName(t *testing.T) {
	w := start(t)
	w.tpp.With(func(s *venafitest.State) { s.Pending = 1 })
	var all []*cmv1.CertificateRequest
	for i := range 10 {
		all = append(all, w.request(t, fmt.Sprintf("r%d", i), "one.example.com", "corp", nil))
	}
	for _, cr := range all {
		issued := w.becomes(t, cr.Name, cmv1.CertificateRequestReasonIssued, "")
		holds(t, cr.Name, issued.Status.Certificate, cr.Spec.Request)
	}
	if got := len(w.tpp.Calls("/certificates/request")); got != 10 {
		t.Errorf("%d requests to the server", got)
	}
}

var _ sync.Mutex
var _ http.Handler
