package acme

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// maxOrders is the number of requests whose Orders are remembered. The Orders of further
// requests are looked up each time.
const maxOrders = 100_000

// orders are the names of the Orders that requests wait for, by the UIDs of the
// requests: to find the Order of a request without them takes several requests to
// the API. It is safe for concurrent use.
type orders struct {
	mu   sync.Mutex
	name map[string]types.NamespacedName // mu guards it
}

func (o *orders) of(requestUID string) (types.NamespacedName, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	name, ok := o.name[requestUID]
	return name, ok
}

func (o *orders) remember(requestUID string, name types.NamespacedName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.name == nil || len(o.name) >= maxOrders {
		o.name = map[string]types.NamespacedName{}
	}
	o.name[requestUID] = name
}

func (o *orders) forget(requestUID string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.name, requestUID)
}
