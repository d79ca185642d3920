package policies

import (
	"context"
	"slices"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/notify"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/worker"
)

// fact names something that a decision has read: "access", for all that users may
// do, or an object.
type fact string

const accessFact fact = "access"

func namespaceFact(name string) fact { return fact("namespace " + name) }

func nodeFact(name string) fact { return fact("node " + name) }

func ownerFact(namespace, name string) fact {
	return fact("certificate " + request.FullName(namespace, name))
}

// undecided has the requests that wait for a decision, by the facts that the last
// one has read. It is safe for concurrent use.
type undecided struct {
	// woken are told which requests to decide about again.
	woken notify.List[[]requestKey]

	mu   sync.Mutex // guards all below
	read map[requestKey]waitingRequest
	by   map[fact]map[requestKey]bool
	// changes are the latest changes, number n at n modulo their number; next is the
	// number of the next one.
	changes [keptChanges]fact
	next    int
}

// waitingRequest is the signer of a request, by which policies are found, and what its
// last decision has read.
type waitingRequest struct {
	signer string
	read   []fact
}

// keptChanges is how many changes may come while one request is decided about. With
// more, it is decided about again.
const keptChanges = 256

func newUndecided() *undecided {
	return &undecided{read: map[requestKey]waitingRequest{}, by: map[fact]map[requestKey]bool{}}
}

// now returns the number of the next change.
func (u *undecided) now() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.next
}

// wait says what the last decision about a request has read. One of which something
// has changed since the decision began is woken.
func (u *undecided) wait(key requestKey, request waitingRequest, began int) {
	u.set(key, request)
	if u.changedSince(request.read, began) {
		u.woken.Tell([]requestKey{key})
	}
}

func (u *undecided) changedSince(read []fact, began int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.next-began > keptChanges {
		return true
	}
	for n := began; n < u.next; n++ {
		if slices.Contains(read, u.changes[n%keptChanges]) {
			return true
		}
	}
	return false
}

// set says what the last decision about a request has read; nothing if the
// request does not wait.
func (u *undecided) set(key requestKey, request waitingRequest) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.remove(key)
	for _, f := range request.read {
		if u.by[f] == nil {
			u.by[f] = map[requestKey]bool{}
		}
		u.by[f][key] = true
	}
	if len(request.read) > 0 {
		u.read[key] = request
	}
}

// remove has mu locked.
func (u *undecided) remove(key requestKey) {
	for _, f := range u.read[key].read {
		delete(u.by[f], key)
		if len(u.by[f]) == 0 {
			delete(u.by, f)
		}
	}
	delete(u.read, key)
}

// keep forgets the requests that policies do not concern any more: nobody says when
// they end.
func (u *undecided) keep(concern func(kind v1alpha1.RequestKind, signer string) bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, request := range u.read {
		if !concern(key.kind, request.signer) {
			u.remove(key)
		}
	}
}

// changed wakes the requests that have read a fact.
func (u *undecided) changed(f fact) {
	u.mu.Lock()
	u.changes[u.next%keptChanges] = f
	u.next++
	var keys []requestKey
	for key := range u.by[f] {
		keys = append(keys, key)
	}
	u.mu.Unlock()
	if len(keys) > 0 {
		u.woken.Tell(keys)
	}
}

// factsOf returns what a decision has read that can change.
func factsOf(d *Decision) []fact {
	r, needs := &d.Input.Request, d.needs
	if d.ruling != nil {
		needs.Namespace = true
	}
	var read []fact
	if name := certpolicy.NamespaceOf(r); needs.Namespace && name != "" {
		read = append(read, namespaceFact(name))
	}
	if name := certpolicy.NodeOf(r); needs.Node && name != "" {
		read = append(read, nodeFact(name))
	}
	if (needs.Owner || needs.Origin) && r.Owner != nil {
		read = append(read, ownerFact(r.Namespace, r.Owner.Name))
	}
	if d.readsAccess() {
		read = append(read, accessFact)
	}
	return read
}

// readsAccess reports whether a decision depends on what users may do.
func (d *Decision) readsAccess() bool {
	return d.ruling != nil || d.needs.BuiltIn || len(d.needs.Access) > 0
}

// Wake queues undecided requests of a kind after something has changed that decisions
// about them have read: a Namespace, a Node, their owner, or what users may do. It
// ends with ctx. Changes of policies are told by Subscribe.
func (p *Policies) Wake(ctx context.Context, kind v1alpha1.RequestKind, queue worker.Queue) {
	context.AfterFunc(ctx, p.undecided.woken.Subscribe(func(keys []requestKey) {
		for _, key := range keys {
			if key.kind == kind {
				queue.Add(reconcile.Request{NamespacedName: key.NamespacedName})
			}
		}
	}))
}
