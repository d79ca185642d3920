package acmeserver

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	toolscache "k8s.io/client-go/tools/cache"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/process/collector"
)

// counts are metrics of the orders in the cache. Each process exports those of all.
type counts struct {
	orders *prometheus.GaugeVec
}

func newCounts(registry prometheus.Registerer) (*counts, error) {
	c := &counts{
		orders: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "certplane_acme_orders", Help: "Orders of ACME clients, by their stored state; open ones are not finalized.",
		}, []string{"endpoint", "state"}),
	}
	return c, collector.Share(registry, &c.orders)
}

func (c *counts) handler() toolscache.ResourceEventHandler {
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) { c.count(object, 1) },
		UpdateFunc: func(old, changed any) {
			c.count(old, -1)
			c.count(changed, 1)
		},
		DeleteFunc: func(object any) { c.count(stillKnown(object), -1) },
	}
}

func (c *counts) count(object any, by float64) {
	o, ok := object.(*v1alpha1.AcmeOrder)
	if !ok {
		return
	}
	state := string(o.Status.State)
	if o.Status.State == v1alpha1.AcmeOrderOpen {
		state = "open"
	}
	c.orders.WithLabelValues(o.Spec.Endpoint, state).Add(by)
}

// accountCounts holds the number of accounts of each endpoint, so that requests of unknown
// clients need no list of accounts.
type accountCounts struct {
	mu sync.Mutex
	// names holds the accounts in the cache, by endpoint.
	names map[string]map[string]bool
	// made maps the accounts that this process has made, and that are not in the cache
	// yet, to their endpoints.
	made map[string]string
}

// newAccountCounts counts the accounts in a cache.
func newAccountCounts(ctx context.Context, objects ctrlcache.Cache) (*accountCounts, error) {
	c := &accountCounts{names: map[string]map[string]bool{}, made: map[string]string{}}
	informer, err := objects.GetInformer(ctx, &v1alpha1.AcmeAccount{}, ctrlcache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("caching AcmeAccounts: %w", err)
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { c.add(object, true) },
		DeleteFunc: func(object any) { c.add(stillKnown(object), false) },
	})
	if err != nil {
		return nil, fmt.Errorf("following AcmeAccounts: %w", err)
	}
	return c, nil
}

func (c *accountCounts) add(object any, exists bool) {
	a, ok := object.(*v1alpha1.AcmeAccount)
	if !ok {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.made, a.Name)
	names := c.names[a.Spec.Endpoint]
	switch {
	case exists && names == nil:
		c.names[a.Spec.Endpoint] = map[string]bool{a.Name: true}
	case exists:
		names[a.Name] = true
	default:
		if delete(names, a.Name); len(names) == 0 {
			delete(c.names, a.Spec.Endpoint)
		}
	}
}

// of returns how many accounts an endpoint has, with those that servers have announced.
func (c *accountCounts) of(endpoint string, announced ...string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := len(c.names[endpoint])
	for _, name := range announced {
		if _, making := c.made[name]; !making && !c.names[endpoint][name] {
			count++
		}
	}
	for _, of := range c.made {
		if of == endpoint {
			count++
		}
	}
	return count
}

// making counts an account that this process is about to make; drop ends that if it is
// not made.
func (c *accountCounts) making(name, endpoint string) (drop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made[name] = endpoint
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.made, name)
	}
}

// stillKnown returns the last known state of a deleted object.
func stillKnown(object any) any {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		return gone.Obj
	}
	return object
}
