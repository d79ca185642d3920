package acmeserver_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/rights"
	serverconfig "github.com/certplane/certplane/internal/run/server"
)

// server has no controllers for ACME orders: a stand-in does their part.
var server = &apitest.Shared{Options: []func(*serverconfig.Config){withoutControllers}}

func withoutControllers(cfg *serverconfig.Config) {
	cfg.Controllers = []string{"*"}
	for _, c := range []rights.Controller{rights.ServeACMEOrders, rights.ValidateACME, rights.ApproveACME, rights.CleanACME, rights.KeepACMEEndpoints} {
		cfg.Controllers = append(cfg.Controllers, "-"+c.Name)
	}
}

func TestMain(m *testing.M) { apitest.Main(m, server, whole) }

// world is an endpoint with its ServiceAccount on the shared server, and what serves
// it.
type world struct {
	t         *testing.T
	api       client.Client
	admin     kubernetes.Interface
	shared    *apitest.Server
	namespace string
	endpoint  *v1alpha1.AcmeEndpoint
	fronts    []*front
	ca        *x509.Certificate
	caKey     crypto.Signer
}

// front is one process of the ACME server.
type front struct {
	*acmeserver.Server
	http     *httptest.Server
	external string
}

var scheme = func() *runtime.Scheme {
	s := runtime.NewScheme()
	if clientgoscheme.AddToScheme(s) != nil || v1alpha1.AddToScheme(s) != nil {
		panic("making a scheme")
	}
	return s
}()

// newWorld makes an open endpoint for *.corp.example and 10.0.0.0/8, changed by edits,
// and one process that serves it.
func newWorld(t *testing.T, edits ...func(*v1alpha1.AcmeEndpoint)) *world {
	t.Helper()
	w := &world{t: t, shared: server.Start(t)}
	w.admin = apitest.Client(t, w.shared.Admin(t))
	var err error
	if w.api, err = client.New(w.shared.Admin(t), client.Options{Scheme: scheme}); err != nil {
		t.Fatal(err)
	}
	w.namespace = apitest.OwnNamespace(t, w.admin)
	w.serviceAccount("web")
	w.endpoint = &v1alpha1.AcmeEndpoint{
		ObjectMeta: metav1.ObjectMeta{Name: w.namespace},
		Spec: v1alpha1.AcmeEndpointSpec{
			Accounts: v1alpha1.AcmeAccounts{
				Admission:      v1alpha1.AcmeAdmissionOpen,
				ServiceAccount: &v1alpha1.AcmeServiceAccount{Namespace: w.namespace, Name: "web"},
			},
			Identifiers: v1alpha1.AcmeIdentifiers{
				DNS: &v1alpha1.AcmeDNSNames{Allow: []string{"*.corp.example", "corp.example"}, Deny: []string{"vault.corp.example"}},
				IP:  &v1alpha1.AcmeAddresses{Allow: []string{"10.0.0.0/8", "fd00::/8"}},
			},
			Profiles: []v1alpha1.AcmeProfile{{
				Name: "server", Description: "30 days", Signer: &v1alpha1.AcmeSigner{Name: "corp.example/hosts"},
				Lifetime: v1alpha1.AcmeLifetime{Default: hours(720), Maximum: hours(720)},
			}, {
				Name: "short", Signer: &v1alpha1.AcmeSigner{Name: "corp.example/short"},
				Lifetime: v1alpha1.AcmeLifetime{Default: hours(24), Maximum: hours(24)},
			}},
			Challenges: v1alpha1.AcmeChallenges{Types: []string{"http-01", "dns-01", "tls-alpn-01"}},
		},
	}
	for _, edit := range edits {
		edit(w.endpoint)
	}
	w.create(withDefaults(t, w.endpoint))
	if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(w.endpoint), w.endpoint); err != nil {
		t.Fatal(err)
	}
	w.caKey = apitest.NewKey(t)
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "test", w.caKey, 365*24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	w.ca = ca.Certificate()
	w.serve("")
	return w
}

func hours(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Hour} }

// create stores an object; a kind may be served only after a moment.
func (w *world) create(o client.Object) {
	w.t.Helper()
	apitest.Eventually(w.t, "the object is stored", func() bool {
		err := w.api.Create(w.t.Context(), o)
		if apierrors.IsInvalid(err) {
			w.t.Fatal(err)
		}
		return err == nil
	})
}

// withDefaults returns an object without the fields that are zero, so that the API
// sets their defaults.
func withDefaults(t *testing.T, o client.Object) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	dropZero(fields)
	u := &unstructured.Unstructured{Object: fields}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("AcmeEndpoint"))
	return u
}

func dropZero(fields map[string]any) {
	for name, value := range fields {
		inner, isObject := value.(map[string]any)
		if isObject {
			dropZero(inner)
		}
		if list, ok := value.([]any); ok {
			for _, each := range list {
				if inner, ok := each.(map[string]any); ok {
					dropZero(inner)
				}
			}
		}
		if value == "0s" || isObject && len(inner) == 0 {
			delete(fields, name)
		}
	}
}

// serviceAccount makes a ServiceAccount that may use the endpoint and request
// certificates.
func (w *world) serviceAccount(name string) {
	w.t.Helper()
	w.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}})
	w.shared.Grant(w.t, "system:serviceaccount:"+w.namespace+":"+name,
		rbacv1.PolicyRule{Verbs: []string{"use"}, APIGroups: []string{"certplane.dev"}, Resources: []string{"acmeendpoints"}, ResourceNames: []string{w.namespace}},
		apitest.Allow("create", "certificatesigningrequests"))
}

// shared has all clients of the tests come from one address, without limits.
func shared(*http.Request) (netip.Addr, bool) { return netip.MustParseAddr("127.0.0.1"), true }

// serve starts one more process of the server. With an external URL, it is one of
// several.
func (w *world) serve(external string, edits ...func(*acmeserver.Config)) *front {
	w.t.Helper()
	objects, err := cache.New(w.shared.Admin(w.t), cache.Options{Scheme: scheme})
	if err != nil {
		w.t.Fatal(err)
	}
	f := &front{http: httptest.NewUnstartedServer(nil), external: external}
	if external == "" {
		f.external = "https://" + f.http.Listener.Addr().String()
	}
	cfg := acmeserver.Config{ExternalURL: f.external, Client: w.api, Cache: objects, Address: shared, Now: time.Now}
	for _, edit := range edits {
		edit(&cfg)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if f.Server, err = acmeserver.New(ctx, cfg); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- objects.Start(ctx) }()
	w.t.Cleanup(func() {
		f.http.Close()
		cancel()
		<-ended
	})
	if !objects.WaitForCacheSync(ctx) {
		w.t.Fatal("the cache does not fill")
	}
	f.http.Config.Handler = f.Server
	f.http.StartTLS()
	w.fronts = append(w.fronts, f)
	apitest.Eventually(w.t, "the endpoint is served", func() bool {
		return objects.Get(ctx, client.ObjectKeyFromObject(w.endpoint), &v1alpha1.AcmeEndpoint{}) == nil
	})
	return f
}

// controllers do their part for all orders of the endpoint: challenges are met, and
// certificates are issued.
func (w *world) controllers() {
	w.t.Helper()
	objects, err := cache.New(w.shared.Admin(w.t), cache.Options{Scheme: scheme, DefaultNamespaces: map[string]cache.Config{w.namespace: {}}})
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	informer, err := objects.GetInformer(ctx, &v1alpha1.AcmeOrder{}, cache.BlockUntilSynced(false))
	if err != nil {
		w.t.Fatal(err)
	}
	act := func(o any) { w.act(ctx, o.(*v1alpha1.AcmeOrder).DeepCopy()) }
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: act, UpdateFunc: func(_, o any) { act(o) }}); err != nil {
		w.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- objects.Start(ctx) }()
	w.t.Cleanup(func() { cancel(); <-ended })
}

// act is what the controllers do about an order. A conflict is followed by another
// event.
func (w *world) act(ctx context.Context, o *v1alpha1.AcmeOrder) {
	now := time.Now()
	due, _ := acmeorder.DueChallenges(o, now)
	if len(due) > 0 {
		if s := acmeorder.RecordAttempt(o, due[0], acmeorder.Attempt{}, &w.endpoint.Spec, now); s != nil {
			o.Status = *s
			_ = w.api.Status().Update(ctx, o)
		}
		return
	}
	if acmeorder.OrderState(o, now) == rfc8555.StateProcessing {
		if s := w.issued(o, now); s != nil {
			o.Status = *s
			_ = w.api.Status().Update(ctx, o)
		}
	}
}

// issued returns the status of an order with a certificate.
func (w *world) issued(o *v1alpha1.AcmeOrder, now time.Time) *v1alpha1.AcmeOrderStatus {
	csr, err := x509.ParseCertificateRequest(o.Status.CSR)
	if err != nil {
		w.t.Errorf("the order has no certificate request: %v", err)
		return nil
	}
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	template := &x509.Certificate{
		SerialNumber: serial, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(24 * time.Hour), DNSNames: csr.DNSNames, IPAddresses: csr.IPAddresses,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, w.ca, csr.PublicKey, w.caKey)
	if err != nil {
		w.t.Errorf("signing: %v", err)
		return nil
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		w.t.Errorf("parsing: %v", err)
		return nil
	}
	checked, err := acmeorder.CheckLeaf(o, acmeorder.Issued{PEM: pki.EncodeCertificates(leaf, w.ca), Lifetime: 720 * time.Hour}, now)
	if err != nil {
		w.t.Errorf("the certificate is not what was ordered: %v", err)
		return nil
	}
	return acmeorder.Issue(o, checked, now)
}

func inNamespace(name string) client.ListOption { return client.InNamespace(name) }
