package orders

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/certplane/certplane/internal/acme/acmetest"
)

// An issuer wakes the Orders that name it and have not ended, a Challenge its
// Order.
func TestWakes(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	for name, o := range map[string]struct {
		namespace string
		ref       cmmeta.IssuerReference
		state     acmev1.State
	}{
		"of-issuer":      {"shop", cmmeta.IssuerReference{Name: "le"}, ""},
		"elsewhere":      {"other", cmmeta.IssuerReference{Name: "le", Kind: "Issuer"}, acmev1.Pending},
		"of-cluster":     {"shop", cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer"}, acmev1.Pending},
		"other-cluster":  {"shop", cmmeta.IssuerReference{Name: "ca", Kind: "ClusterIssuer"}, acmev1.Pending},
		"cluster-failed": {"shop", cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer"}, acmev1.Errored},
		"cluster-valid":  {"other", cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer"}, acmev1.Valid},
		"cluster-other":  {"other", cmmeta.IssuerReference{Name: "le", Kind: "ClusterIssuer"}, acmev1.Ready},
	} {
		order := &acmev1.Order{ObjectMeta: metav1.ObjectMeta{Namespace: o.namespace, Name: name}, Spec: acmev1.OrderSpec{IssuerRef: o.ref}}
		w.must(t, w.api.Create(t.Context(), order))
		order.Status.State = o.state
		w.must(t, w.api.Status().Update(t.Context(), order))
	}
	woken := func(issuer client.Object) []string {
		names := []string{}
		for _, request := range w.waitingFor(t.Context(), issuer) {
			names = append(names, request.String())
		}
		return names
	}
	equal(t, "by the Issuer", woken(&cmv1.Issuer{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "le"}}), []string{"shop/of-issuer"})
	equal(t, "by the ClusterIssuer", woken(issuerWith()), []string{"other/cluster-other", "shop/of-cluster"})

	owner := &acmev1.Order{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid"}}
	challenge := &acmev1.Challenge{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "c"}}
	if got := orderOf(t.Context(), challenge); got != nil {
		t.Errorf("%v", got)
	}
	challenge.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, acmev1.SchemeGroupVersion.WithKind("Order"))}
	if got := orderOf(t.Context(), challenge); len(got) != 1 || got[0].String() != "shop/web" {
		t.Errorf("%v", got)
	}
}

// informed is a cache that shows the API, and whose events the test sends.
type informed struct {
	informertest.FakeInformers
	client.Reader

	mu        sync.Mutex
	informers map[string]*informer // mu guards it
}

// informer is safe for concurrent use, other than the one in it.
type informer struct {
	*controllertest.FakeInformer
	mu sync.Mutex
}

func (i *informer) AddEventHandlerWithOptions(h toolscache.ResourceEventHandler, o toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.FakeInformer.AddEventHandlerWithOptions(h, o)
}

func (i *informer) add(o metav1.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Add(o)
}

func (i *informer) update(before, after metav1.Object) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.Update(before, after)
}

func (i *informed) informer(o client.Object) *informer {
	i.mu.Lock()
	defer i.mu.Unlock()
	kind := fmt.Sprintf("%T", o)
	if i.informers[kind] == nil {
		i.informers[kind] = &informer{FakeInformer: controllertest.NewFakeInformer(controllertest.Synced)}
	}
	return i.informers[kind]
}

func (i *informed) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	return i.informer(o), nil
}

func (i *informed) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	return i.Reader.Get(ctx, key, o, opts...)
}

func (i *informed) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return i.Reader.List(ctx, list, opts...)
}

// The whole controller works by events of Orders and of Challenges.
func TestWork(t *testing.T) {
	w := newWorld(t, acmetest.Options{})
	objects := &informed{Reader: w.api, FakeInformers: informertest.FakeInformers{Scheme: w.api.Scheme()}, informers: map[string]*informer{}}
	orders, challenges := objects.informer(&acmev1.Order{}), objects.informer(&acmev1.Challenge{})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.work(ctx, objects) }()
	key := newKey(t)
	o := w.newOrder(t, "web", key, nil, "a.example.com")
	eventually(t, "there is a Challenge", func() bool { orders.add(o); return len(w.challenges(t)) == 1 })
	w.solve(t)
	done := w.challenges(t)[0]
	before := done.DeepCopy()
	before.ResourceVersion = "before"
	challenges.update(before, &done)
	eventually(t, "there is a certificate", func() bool { return isDone(w.order(t, "web")) })
	w.issued(t, w.order(t, "web"), key)
	cancel()
	w.must(t, <-ended)
}

func eventually(t *testing.T, what string, reached func() bool) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(time.Minute); !reached(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}
