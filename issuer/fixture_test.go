package issuer_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	api "github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/issuer"
)

const controllerName = "remote-issuer.test.example.com"

var group = schema.GroupVersion{Group: "test.example.com", Version: "v1"}

// Remote is a kind of issuer, for one namespace, and RemoteForAll one for all.
type Remote struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

type RemoteForAll Remote

type Spec struct {
	URL string `json:"url"`
}

type Status struct {
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

func (r *Remote) GetConditions() []metav1.Condition       { return r.Status.Conditions }
func (r *RemoteForAll) GetConditions() []metav1.Condition { return r.Status.Conditions }

func (r *Remote) DeepCopyObject() runtime.Object {
	c := *r
	c.ObjectMeta = *r.ObjectMeta.DeepCopy()
	c.Status.Conditions = slices.Clone(r.Status.Conditions)
	return &c
}

func (r *RemoteForAll) DeepCopyObject() runtime.Object {
	return (*RemoteForAll)((*Remote)(r).DeepCopyObject().(*Remote))
}

type RemoteList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Remote `json:"items"`
}

type RemoteForAllList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []RemoteForAll `json:"items"`
}

func (l *RemoteList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

func (l *RemoteForAllList) DeepCopyObject() runtime.Object {
	c := *l
	c.Items = slices.Clone(l.Items)
	return &c
}

func addToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(group, &Remote{}, &RemoteList{}, &RemoteForAll{}, &RemoteForAllList{})
	metav1.AddToGroupVersion(scheme, group)
	return nil
}

// definition is that of a kind.
func definition(kind, plural string, scope apiextensionsv1.ResourceScope) *apiextensionsv1.CustomResourceDefinition {
	const schema = `{"type": "object", "properties": {
	  "spec": {"type": "object", "properties": {"url": {"type": "string"}}},
	  "status": {"type": "object", "properties": {"conditions": {
	    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
	    "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "required": ["type"],
	      "properties": {"type": {"type": "string"}}}}}}}}`
	properties := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(schema), properties); err != nil {
		panic(err)
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group.Group, Scope: scope,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: plural, Kind: kind},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: group.Version, Served: true, Storage: true,
				Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: properties},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}
}

func definitions() []client.Object {
	return []client.Object{
		definition("Remote", "remotes", apiextensionsv1.NamespaceScoped),
		definition("RemoteForAll", "remotesforall", apiextensionsv1.ClusterScoped),
	}
}

// remote is an issuer for one namespace.
func remote(name string) *Remote {
	return &Remote{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: Spec{URL: "https://" + name}}
}

// The servers that tests share.
var (
	common apitest.Shared
	// byHand has no approver but the tests.
	byHand = apitest.Shared{Options: []func(*server.Config){func(cfg *server.Config) {
		cfg.Controllers = []string{"*", "-certificaterequests-approver"}
	}}}
)

func TestMain(m *testing.M) { apitest.Main(m, &common, &byHand) }

// world is a server with the kinds of issuers, and its administrator.
type world struct {
	*apitest.Server
	// namespace is where admin finds and puts things, and what the controllers
	// of the test look after.
	namespace string
	admin     client.Client
}

// share is a shared server, with a namespace for the test.
func share(t *testing.T, s *apitest.Shared) world {
	t.Helper()
	running := s.Start(t)
	w := newWorld(t, running, apitest.OwnNamespace(t, apitest.Client(t, running.Admin(t))))
	w.install(t)
	return w
}

// start is a server for one test, which changes definitions or uses names of the
// whole cluster.
func start(t *testing.T) world {
	t.Helper()
	w := startWithout(t)
	w.install(t)
	return w
}

// startWithout starts a server for one test, which does not know the kinds.
func startWithout(t *testing.T) world {
	t.Helper()
	return newWorld(t, apitest.Start(t), "default")
}

func newWorld(t *testing.T, s *apitest.Server, namespace string) world {
	t.Helper()
	w := world{Server: s, namespace: namespace}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, api.AddToScheme, apiextensionsv1.AddToScheme, addToScheme,
	} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	admin, err := client.New(w.Admin(t), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	w.admin = client.NewNamespacedClient(admin, namespace)
	return w
}

// install defines the kinds and lets the built-in approver approve for them,
// unless another test has done so.
func (w world) install(t *testing.T) {
	t.Helper()
	w.ensure(t, definitions()...)
	for _, list := range []client.ObjectList{&RemoteList{}, &RemoteForAllList{}} {
		apitest.Eventually(t, "the kinds are served", func() bool { return w.admin.List(t.Context(), list) == nil })
	}
	role := metav1.ObjectMeta{Name: "approve-for-remotes"}
	w.ensure(t, &rbacv1.ClusterRole{ObjectMeta: role, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{"cert-manager.io"}, Resources: []string{"signers"}, Verbs: []string{"approve"},
		ResourceNames: []string{"remotes.test.example.com/*", "remotesforall.test.example.com/*"},
	}}}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: role, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "kube-system", Name: "cert-manager-certificaterequests-approver"}},
	})
}

func (w world) ensure(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := w.admin.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

func (w world) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := w.admin.Create(t.Context(), object); err != nil {
			t.Fatalf("creating %T %s: %v", object, object.GetName(), err)
		}
	}
}

func always(context.Context, issuer.Issuer) error { return nil }

// run runs a controller until the test ends.
func (w world) run(t *testing.T, c issuer.Controller) {
	t.Helper()
	w.runWith(t, c, testr.NewWithInterface(quiet{t}, testr.Options{}))
}

// runWith runs a controller until the test ends or stop is called, which returns
// when the controller has ended.
func (w world) runWith(t *testing.T, c issuer.Controller, logger logr.Logger, changes ...func(*ctrl.Options)) (stop func()) {
	t.Helper()
	c.Name, c.AddToScheme = controllerName, addToScheme
	c.Kinds = []issuer.Issuer{&Remote{}, &RemoteForAll{}}
	if c.Check == nil {
		c.Check = always
	}
	options := ctrl.Options{
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{w.namespace: {}}},
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Logger:     logger,
		Controller: config.Controller{SkipNameValidation: ptr.To(true)},
	}
	for _, change := range changes {
		change(&options)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- issuer.Run(ctx, w.Admin(t), c, options) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the controller ended: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// journal is a log that can be read while it is written.
type journal struct {
	mu   sync.Mutex
	text strings.Builder // mu guards it
}

func (j *journal) logger() logr.Logger {
	return funcr.New(func(prefix, args string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		fmt.Fprintln(&j.text, prefix, args)
	}, funcr.Options{})
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// wants waits for a line with these words.
func (j *journal) wants(t *testing.T, words string) {
	t.Helper()
	apitest.Eventually(t, "the log says "+words, func() bool { return strings.Contains(j.String(), words) })
}

// quiet logs while a test runs, and drops what is logged after its end.
type quiet struct{ t *testing.T }

func (q quiet) Helper() {}
func (q quiet) Log(args ...any) {
	if q.t.Context().Err() == nil {
		q.t.Log(args...)
	}
}

// ca is a root, an intermediate CA, and how many certificates it was asked for.
type ca struct {
	root, signing *x509.Certificate
	key           crypto.Signer

	mu    sync.Mutex
	calls map[string]int // by the request's name; mu guards it
}

func newCA(t *testing.T) *ca {
	t.Helper()
	rootKey, key := apitest.NewKey(t), apitest.NewKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", rootKey, 400*24*time.Hour, time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	request := &issuer.Request{CSR: csrOf(t, "intermediate", key), IsCA: true, KeyUsage: x509.KeyUsageCertSign, Duration: 300 * 24 * time.Hour}
	c := &ca{root: root.Certificate(), key: rootKey, signing: root.Certificate(), calls: map[string]int{}}
	der, err := c.der(request)
	if err != nil {
		t.Fatal(err)
	}
	if c.signing, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	c.key = key
	return c
}

func (c *ca) der(request *issuer.Request) ([]byte, error) {
	template, err := request.Template(c.signing, time.Now())
	if err != nil {
		return nil, err
	}
	return x509.CreateCertificate(rand.Reader, template, c.signing, request.CSR.PublicKey, c.key)
}

// sign answers with the whole chain, in an order of its own.
func (c *ca) sign(_ context.Context, request *issuer.Request) ([]byte, error) {
	c.count(request)
	der, err := c.der(request)
	if err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return pki.EncodeCertificates(c.root, leaf, c.signing), nil
}

func (c *ca) count(request *issuer.Request) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[request.Object.GetName()]++
	return c.calls[request.Object.GetName()]
}

func (c *ca) asked(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[name]
}

// wantPauses checks that attempts to answer a request that is no older than
// since had the pauses of the back-off between them: 5 seconds or more.
func (c *ca) wantPauses(t *testing.T, name string, since time.Time) {
	t.Helper()
	if n, most := c.asked(name), 1+int(time.Since(since)/(5*time.Second)); n > most {
		t.Errorf("asked %d times in %v, want %d at most", n, time.Since(since), most)
	}
}

func csrOf(t *testing.T, name string, key crypto.Signer) *x509.CertificateRequest {
	t.Helper()
	data, err := pki.NewRequest(pki.Subject{CommonName: name, DNSNames: []string{name + ".example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.ParseRequest(data)
	if err != nil {
		t.Fatal(err)
	}
	return csr.CertificateRequest
}

// request asks a Remote for a certificate; it is not sent yet.
func request(t *testing.T, name, of string, key crypto.Signer) *cmv1.CertificateRequest {
	t.Helper()
	return &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: cmv1.CertificateRequestSpec{
			IssuerRef: cmmeta.IssuerReference{Name: of, Kind: "Remote", Group: group.Group},
			Request:   pki.EncodeRequest(csrOf(t, name, key)),
		},
	}
}

func (w world) request(t *testing.T, name string) *cmv1.CertificateRequest {
	t.Helper()
	cr := &cmv1.CertificateRequest{}
	if err := w.admin.Get(t.Context(), client.ObjectKey{Name: name}, cr); err != nil {
		t.Fatal(err)
	}
	return cr
}

// becomes waits until a request has a Ready condition with this reason.
func (w world) becomes(t *testing.T, name, reason string) *cmv1.CertificateRequest {
	t.Helper()
	var cr *cmv1.CertificateRequest
	apitest.Eventually(t, name+" is "+reason, func() bool {
		cr = w.request(t, name)
		return api.ReadyReason(cr) == reason
	})
	return cr
}

func messageOf(cr *cmv1.CertificateRequest) string {
	return api.RequestCondition(cr, cmv1.CertificateRequestConditionReady).Message
}

func (w world) decide(t *testing.T, name string, kind cmv1.CertificateRequestConditionType) {
	t.Helper()
	apitest.Eventually(t, fmt.Sprintf("%s is %s", name, kind), func() bool { // controllers write it, too
		cr := w.request(t, name)
		api.SetRequestCondition(cr, kind, cmmeta.ConditionTrue, "Test", "decided by a test", metav1.Now())
		return w.admin.Status().Update(t.Context(), cr) == nil
	})
}

// isReady waits until a Remote's Ready condition is so; it returns it.
func (w world) isReady(t *testing.T, name string, status metav1.ConditionStatus, reason string) metav1.Condition {
	t.Helper()
	r := &Remote{}
	apitest.Eventually(t, "the issuer "+name+" is "+reason, func() bool {
		if err := w.admin.Get(t.Context(), client.ObjectKey{Name: name}, r); err != nil {
			t.Fatal(err)
		}
		return len(r.Status.Conditions) == 1 && r.Status.Conditions[0].Status == status && r.Status.Conditions[0].Reason == reason &&
			r.Status.Conditions[0].ObservedGeneration == r.Generation
	})
	return r.Status.Conditions[0]
}

// told waits for an Event about an object, and returns its note.
func (w world) told(t *testing.T, name, kind, reason string) string {
	t.Helper()
	note := ""
	apitest.Eventually(t, "there is an Event "+reason+" of "+name, func() bool {
		list := &eventsv1.EventList{}
		if err := w.admin.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(list.Items, func(e eventsv1.Event) bool {
			return e.Regarding.Name == name && e.ReportingController == controllerName && e.Type == kind && e.Reason == reason
		})
		if i >= 0 {
			note = list.Items[i].Note
		}
		return i >= 0
	})
	return note
}

// verified checks that a request has a certificate for its key, below the root.
func verified(t *testing.T, chainPEM []byte, root *x509.Certificate, key crypto.Signer) *x509.Certificate {
	t.Helper()
	chain, err := pki.ParseCertificates(chainPEM)
	if err != nil {
		t.Fatal(err)
	}
	roots, between := x509.NewCertPool(), x509.NewCertPool()
	roots.AddCert(root)
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}
	if _, err := chain[0].Verify(options); err != nil {
		t.Error(err)
	}
	if !pki.SameKey(chain[0].PublicKey, key.Public()) {
		t.Error("the certificate has another key")
	}
	if len(chain) != 2 || chain[1].Equal(root) {
		t.Errorf("%d certificates, want the leaf and the intermediate CA", len(chain))
	}
	return chain[0]
}
