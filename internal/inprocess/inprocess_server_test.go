package inprocess_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/inprocess/loopback"
	"github.com/certplane/certplane/internal/inprocess/objectpass"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

var (
	shared   = apitest.Shared{Options: []func(*server.Config){recordEverything, leaveObjects}}
	auditLog string
)

func TestMain(m *testing.M) { apitest.Main(m, &shared) }

// recordEverything makes the server record the objects of requests and answers.
func recordEverything(c *server.Config) {
	auditLog = filepath.Join(c.DataDir, "audit.log")
	c.Audit.Log.Path, c.Audit.PolicyFile = auditLog, filepath.Join(c.DataDir, "audit.yaml")
	c.DataDir = filepath.Join(c.DataDir, "data")
	if err := os.WriteFile(c.Audit.PolicyFile, []byte("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: RequestResponse, resources: [{group: \"\", resources: [configmaps]}]}]\n"), 0o600); err != nil {
		panic(err)
	}
}

// leaveObjects turns off the controllers that would write to objects of tests meanwhile.
func leaveObjects(c *server.Config) {
	c.Controllers = []string{"*", "-certificates", "-acme-endpoints"}
}

// world is a server, a client of its process, one that comes over the network,
// and the objects that the former two pass each other.
type world struct {
	server  *apitest.Server
	inside  client.Client
	outside kubernetes.Interface
	objects *objectpass.Objects
	scheme  *runtime.Scheme
}

func start(t *testing.T) world {
	t.Helper()
	s := shared.Start(t)
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientscheme.AddToScheme, certmanager.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	inside, err := inprocess.NewClient(s.Inside, client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return world{s, inside, apitest.Client(t, s.Admin(t)), s.Inside.Transport.(*loopback.Transport).Objects, kinds}
}

func newConfigMap(t *testing.T) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: strings.ToLower(t.Name())}, Data: map[string]string{"a": "first"}}
}

func (w world) configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	stored, err := w.outside.CoreV1().ConfigMaps("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func TestWritesAndReads(t *testing.T) {
	w, ctx, c := start(t), t.Context(), newConfigMap(t)
	if err := w.inside.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	if difference := cmp.Diff(w.configMap(t, c.Name), c); difference != "" {
		t.Errorf("what the client has is not what is stored: %s", difference)
	}
	c.Data["a"] = "changed after the call"
	if got := w.configMap(t, c.Name).Data["a"]; got != "first" {
		t.Errorf("the store has %q", got)
	}
	if err := w.inside.Update(ctx, c); err != nil {
		t.Fatal(err)
	}
	before := c.DeepCopy()
	c.Data["a"] = "patched"
	if err := w.inside.Patch(ctx, c, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	read := &corev1.ConfigMap{}
	if err := w.inside.Get(ctx, client.ObjectKeyFromObject(c), read); err != nil {
		t.Fatal(err)
	}
	list := &corev1.ConfigMapList{}
	if err := w.inside.List(ctx, list, client.InNamespace("default"), client.MatchingFields{"metadata.name": c.Name}); err != nil {
		t.Fatal(err)
	}
	if stored := w.configMap(t, c.Name); stored.Data["a"] != "patched" || !cmp.Equal(stored, read) || !cmp.Equal(stored, c) || len(list.Items) != 1 || !cmp.Equal(*stored, list.Items[0]) {
		t.Errorf("stored %v\nread %v\nlisted %v", stored, read, list)
	}
	w.nothingLeft(t)
	if err := w.inside.Delete(ctx, c); err != nil {
		t.Fatal(err)
	}
}

func (w world) nothingLeft(t *testing.T) {
	t.Helper()
	apitest.Eventually(t, "no handle is left", func() bool { return w.objects.Len() == 0 })
}

func TestErrors(t *testing.T) {
	w, ctx, c := start(t), t.Context(), newConfigMap(t)
	if err := w.inside.Get(ctx, client.ObjectKeyFromObject(c), c); !apierrors.IsNotFound(err) {
		t.Errorf("getting nothing: %v", err)
	}
	if err := w.inside.Create(ctx, c); err != nil {
		t.Fatal(err)
	}
	again := newConfigMap(t)
	if err := w.inside.Create(ctx, again); !apierrors.IsAlreadyExists(err) {
		t.Errorf("creating it again: %v", err)
	}
	if again.UID != "" || again.Data["a"] != "first" {
		t.Errorf("the error has changed the object: %v", again)
	}
	stale := c.DeepCopy()
	stale.ResourceVersion = "1"
	if err := w.inside.Update(ctx, stale); !apierrors.IsConflict(err) {
		t.Errorf("updating an old version: %v", err)
	}
	invalid := newConfigMap(t)
	invalid.Name = "NOT A NAME"
	if err := w.inside.Create(ctx, invalid); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.name") {
		t.Errorf("creating something invalid: %v", err)
	}
	w.nothingLeft(t)
}

// A client has no more rights than over a network.
func TestRights(t *testing.T) {
	w := start(t)
	nobody := *w.server.Inside
	nobody.Impersonate.UserName = "somebody"
	limited, err := inprocess.NewClient(&nobody, client.Options{Scheme: w.scheme, Mapper: w.inside.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := limited.Create(t.Context(), newConfigMap(t)); !apierrors.IsForbidden(err) {
		t.Errorf("creating: %v", err)
	}
	if err := limited.List(t.Context(), &corev1.SecretList{}); !apierrors.IsForbidden(err) {
		t.Errorf("listing: %v", err)
	}
	nobody.Impersonate.UserName, nobody.BearerToken = "", "wrong"
	stranger, err := inprocess.NewClient(&nobody, client.Options{Scheme: w.scheme, Mapper: w.inside.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	if err := stranger.Create(t.Context(), newConfigMap(t)); !apierrors.IsUnauthorized(err) {
		t.Errorf("with a wrong token: %v", err)
	}
}

// Versions, subresources, times and defaults are those of a request in JSON.
func TestConversion(t *testing.T) {
	w, ctx := start(t), t.Context()
	at := metav1.NewMicroTime(time.Now())
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "conversion"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("me"), RenewTime: &at}}
	if err := w.inside.Create(ctx, lease); err != nil {
		t.Fatal(err)
	}
	if stored, err := w.outside.CoordinationV1().Leases("default").Get(ctx, "conversion", metav1.GetOptions{}); err != nil || !cmp.Equal(stored, lease) {
		t.Errorf("a lease: %v: %s", err, cmp.Diff(stored, lease))
	}
	request := apitest.NewCSR(t, "conversion", "example.com/x", pki.Subject{CommonName: "x"}, apitest.NewKey(t))
	if err := w.inside.Create(ctx, request); err != nil {
		t.Fatal(err)
	}
	request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.Now(),
	})
	if err := w.inside.Status().Update(ctx, request); err != nil {
		t.Fatal(err)
	}
	stored, err := w.outside.CertificatesV1().CertificateSigningRequests().Get(ctx, request.Name, metav1.GetOptions{})
	if err != nil || len(stored.Status.Conditions) != 1 || !cmp.Equal(stored, request) {
		t.Errorf("a request: %v: %s", err, cmp.Diff(stored, request))
	}
	old := &certificatesv1beta1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: "conversion"}}
	if err := w.inside.Create(ctx, old); !apierrors.IsInvalid(err) { // it has no certificate
		t.Errorf("a bundle: %v", err)
	}
	w.nothingLeft(t)
}

// Kinds that the API does not serve from typed storage work too.
func TestCustomResources(t *testing.T) {
	w, ctx := start(t), t.Context()
	issuer := &cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "custom"}, Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}}
	if err := w.inside.Create(ctx, issuer); err != nil {
		t.Fatal(err)
	}
	read := &cmv1.Issuer{}
	if err := w.inside.Get(ctx, client.ObjectKeyFromObject(issuer), read); err != nil || read.UID != issuer.UID || read.Spec.SelfSigned == nil {
		t.Errorf("read %v, %v", read, err)
	}
}

// The recorded objects are those of the request and its answer.
func TestAudit(t *testing.T) {
	w, c := start(t), newConfigMap(t)
	if err := w.inside.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the request is recorded", func() bool {
		recorded, err := os.ReadFile(auditLog)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(recorded)) {
			if strings.Contains(line, `"name":"testaudit"`) && strings.Contains(line, `"requestObject":{"kind":"ConfigMap"`) && strings.Contains(line, `"responseObject":{"kind":"ConfigMap"`) {
				return true
			}
		}
		return false
	})
}

// Objects in caches have no managed fields, and share their parts with the watch
// cache and so with each other.
func TestCaches(t *testing.T) {
	w := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	request := apitest.NewCSR(t, "in-caches", "example.com/x", pki.Subject{CommonName: "x"}, apitest.NewKey(t))
	request.Labels = map[string]string{"test": "caches"}
	if err := w.inside.Create(ctx, request); err != nil {
		t.Fatal(err)
	}
	var caches []cache.Cache
	for range 2 {
		made, err := inprocess.NewCache(w.server.Inside, cache.Options{Scheme: w.scheme, Mapper: w.inside.RESTMapper(), DefaultTransform: cache.TransformStripManagedFields()})
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = made.Start(ctx) }()
		if !made.WaitForCacheSync(ctx) {
			t.Fatal("the cache does not start")
		}
		caches = append(caches, made)
	}
	sharing := func() bool {
		var found [2]certificatesv1.CertificateSigningRequest
		for i, c := range caches {
			if err := c.Get(ctx, client.ObjectKeyFromObject(request), &found[i], client.UnsafeDisableDeepCopy); err != nil {
				t.Fatal(err)
			}
			if found[i].ResourceVersion != request.ResourceVersion {
				return false
			}
			if len(found[i].ManagedFields) != 0 {
				t.Error("a cache has managed fields")
			}
		}
		if &found[0].Spec.Request[0] != &found[1].Spec.Request[0] {
			t.Error("the caches have different copies")
		}
		return true
	}
	apitest.Eventually(t, "the caches have the request", sharing)
	request.Labels["more"] = "yes"
	if err := w.inside.Update(ctx, request); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the caches have its second version", sharing)
	stored, err := w.outside.CertificatesV1().CertificateSigningRequests().Get(ctx, request.Name, metav1.GetOptions{ResourceVersion: "0"})
	if err != nil || len(stored.ManagedFields) == 0 {
		t.Errorf("the API has lost the managed fields: %v, %v", stored, err)
	}
	if err := w.inside.Delete(ctx, request); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the caches forget it", func() bool {
		return apierrors.IsNotFound(caches[0].Get(ctx, client.ObjectKeyFromObject(request), &certificatesv1.CertificateSigningRequest{}))
	})
	w.nothingLeft(t)
}
