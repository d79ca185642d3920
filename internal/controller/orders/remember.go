package orders

import (
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/order"
)

// remembered is the state of one Order that is not in the object. Only the worker that
// processes the Order uses it.
type remembered struct {
	order.Memory
	uid types.UID
	// issuerVersion is the version of the issuer with which the CA was asked last.
	issuerVersion string
	// told is the class of the last Event.
	told order.Class
	// waits is the class of its current wait, which began at since.
	waits order.Class
	since time.Time
}

// memories are by Order. They are safe for concurrent use.
type memories struct {
	mu sync.Mutex
	of map[types.NamespacedName]*remembered // mu guards it
}

// get returns the state of an Order; a new state if the UID differs from the remembered
// one.
func (m *memories) get(name types.NamespacedName, uid types.UID) *remembered {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of[name]
	if known == nil || known.uid != uid {
		known = &remembered{uid: uid}
		m.of[name] = known
	}
	return known
}

// forget removes the state of an Order.
func (m *memories) forget(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.of, name)
}

// faultOf returns why a request to the CA failed.
func faultOf(err error) order.Fault {
	f := order.Fault{Err: err}
	var limited *acme.LimitedError
	var profile *acme.ProfileError
	switch {
	case errors.As(err, &limited):
		f.Until, f.Limit, f.Detail = limited.Until, limited.Limit, limited.Detail
	case errors.As(err, &profile):
		f.Err, f.Permanent = profile, true
	default:
		var problem *rfc8555.Problem
		if errors.As(err, &problem) {
			f.Problem = problem
		}
	}
	return f
}
