package challenges

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/process/changewatch"
)

// objects is a cache whose reads are always up to date.
type objects struct {
	*informertest.FakeInformers
	api     client.WithWatch
	running context.Context
	// watching gets a kind when it is watched: what is created before may be
	// missed, because the API of these tests does not replay it.
	watching chan string
}

func (o objects) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	return o.api.Get(ctx, key, object, opts...)
}

func (o objects) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return o.api.List(ctx, list, opts...)
}

func (o objects) GetInformer(_ context.Context, object client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	kind, err := o.api.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	newList := func() (client.ObjectList, error) {
		list, err := o.api.Scheme().New(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return list.(client.ObjectList), err
	}
	informer := toolscache.NewSharedIndexInformer(listFirst{&toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := newList()
			if err != nil {
				return nil, err
			}
			return list, o.api.List(ctx, list)
		},
		WatchFuncWithContext: func(ctx context.Context, _ metav1.ListOptions) (watch.Interface, error) {
			list, err := newList()
			if err != nil {
				return nil, err
			}
			events, err := o.api.Watch(ctx, list)
			select {
			case o.watching <- kind.Kind:
			default:
			}
			return events, err
		},
	}}, object, 0, nil)
	go informer.RunWithContext(o.running)
	return informer, nil
}

// listFirst begins with a list, which the API of these tests needs.
type listFirst struct{ *toolscache.ListWatch }

// IsWatchListSemanticsUnSupported is asked for by reflectors.
func (listFirst) IsWatchListSemanticsUnSupported() bool { return true }

// The workers, the watches and the slots work together: with fewer slots than
// Challenges, by the real clock.
func TestWork(t *testing.T) {
	w := newWorld(t)
	secrets := httptest.NewServer(http.NotFoundHandler())
	defer secrets.Close()
	watcher, err := changewatch.New(&rest.Config{Host: secrets.URL}, changewatch.Secrets, "")
	if err != nil {
		t.Fatal(err)
	}
	ca := &quickCA{accepted: map[string]bool{}, open: map[string]bool{}}
	net := &quietNetwork{ca}
	cfg := w.controller.Config
	cfg.Client, cfg.Clock, cfg.Secrets, cfg.Workers, cfg.Events = w.api, clock.RealClock{}, watcher, 5, nil
	cfg.Settings.MaxConcurrentChallenges = 3
	cfg.Solvers = func(*acmev1.Challenge) (solver.Solver, error) { return net, nil }
	cfg.Clients = func(context.Context, cmv1.GenericIssuer) (Client, error) { return ca, nil }
	cfg.Versions = func(context.Context, string) (*metav1.APIResourceList, error) {
		return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "challenges"}}}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended, watching := make(chan error, 1), make(chan string, 100)
	go func() {
		ended <- (&controller{cfg: cfg, cache: objects{&informertest.FakeInformers{}, w.api.(client.WithWatch), ctx, watching}}).Start(ctx)
	}()
	for kind := ""; kind != "Challenge"; kind = <-watching {
	}

	var all []*acmev1.Challenge
	for i := range 10 {
		ch := w.create("shop", fmt.Sprint(i), func(ch *acmev1.Challenge) {
			ch.Spec.Solver.WaitInsteadOfSelfCheck = &metav1.Duration{}
		})
		all = append(all, ch)
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		valid := 0
		for _, ch := range all {
			if got := w.get(ch); got.Status.State == acmev1.Valid && len(got.Finalizers) == 0 {
				valid++
			}
		}
		if valid == len(all) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d are valid", valid, len(all))
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if ca.most == 0 || ca.most > 3 {
		t.Errorf("%d were worked on at the same time, with 3 slots", ca.most)
	}
}

// quietNetwork shows every answer.
type quietNetwork struct {
	ca *quickCA
}

func (n *quietNetwork) Prepare(context.Context, solver.Task) (string, error) { return "", nil }

func (n *quietNetwork) Present(_ context.Context, task solver.Task) error {
	n.ca.mu.Lock()
	defer n.ca.mu.Unlock()
	n.ca.open[task.Challenge.Spec.URL] = true
	n.ca.most = max(n.ca.most, len(n.ca.open))
	return nil
}

func (n *quietNetwork) Check(context.Context, solver.Task) (solver.Found, error) {
	return solver.Found{}, nil
}

func (n *quietNetwork) CleanUp(context.Context, solver.Task) error { return nil }

// quickCA validates at once, whatever it is asked.
type quickCA struct {
	mu       sync.Mutex
	accepted map[string]bool
	// open are presented and not known to be valid; most is how many were.
	open map[string]bool
	most int
}

func (c *quickCA) Authorization(_ context.Context, url string) (rfc8555.Authorization, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, status := strings.Replace(url, "authz", "chall", 1), rfc8555.StatePending
	if c.accepted[own] {
		status = rfc8555.StateValid
		delete(c.open, own)
	}
	return rfc8555.Authorization{Status: status, Challenges: []rfc8555.Challenge{{URL: own, Status: status}}}, nil
}

func (c *quickCA) Accept(_ context.Context, url string) (rfc8555.Challenge, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.accepted[url] = true
	return rfc8555.Challenge{URL: url, Status: rfc8555.StateValid}, nil
}
