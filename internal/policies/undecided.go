package policies

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/notify"
	"github.com/certplane/certplane/internal/process/worker"
)

// fact names something that a decision has read: "access", for all rights of users, or
// an object.
type fact string

const accessFact fact = "access"

func namespaceFact(name string) fact { return fact("namespace " + name) }

func nodeFact(name string) fact { return fact("node " + name) }

func ownerFact(namespace, name string) fact {
	return fact("certificate " + request.FullName(namespace, name))
}

// factIndex indexes the requests that wait for a decision by the facts that their last
// decision has read. It is safe for concurrent use.
type factIndex struct {
	// woken are called with the requests to decide again.
	woken notify.List[[]requestKey]

	mu   sync.Mutex // guards all below
	read map[requestKey]waitingRequest
	by   map[fact]map[requestKey]bool
	// changes are the latest changes, number n at n modulo their number; next is the
	// number of the next one.
	changes [keptChanges]fact
	next    int
}

// waitingRequest is the signer of a request, which selects its policies, and the facts
// that its last decision has read.
type waitingRequest struct {
	signer string
	read   []fact
}

// keptChanges is how many changes may come during one decision. With more, the request
// is decided again.
const keptChanges = 256

func newFactIndex() *factIndex {
	return &factIndex{read: map[requestKey]waitingRequest{}, by: map[fact]map[requestKey]bool{}}
}

// now returns the number of the next change.
func (x *factIndex) now() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.next
}

// wait notes the facts that the last decision about a request has read. It wakes the
// request if one of them has changed since the decision began.
func (x *factIndex) wait(key requestKey, request waitingRequest, began int) {
	x.set(key, request)
	if x.changedSince(request.read, began) {
		x.woken.Tell([]requestKey{key})
	}
}

func (x *factIndex) changedSince(read []fact, began int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.next-began > keptChanges {
		return true
	}
	for n := began; n < x.next; n++ {
		if slices.Contains(read, x.changes[n%keptChanges]) {
			return true
		}
	}
	return false
}

// set notes the facts that the last decision about a request has read; none if the
// request does not wait.
func (x *factIndex) set(key requestKey, request waitingRequest) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.remove(key)
	for _, f := range request.read {
		if x.by[f] == nil {
			x.by[f] = map[requestKey]bool{}
		}
		x.by[f][key] = true
	}
	if len(request.read) > 0 {
		x.read[key] = request
	}
}

// remove has mu locked.
func (x *factIndex) remove(key requestKey) {
	for _, f := range x.read[key].read {
		delete(x.by[f], key)
		if len(x.by[f]) == 0 {
			delete(x.by, f)
		}
	}
	delete(x.read, key)
}

// keep forgets the requests that policies no longer concern, because their end is not
// reported.
func (x *factIndex) keep(concern func(kind v1alpha1.RequestKind, signer string) bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key, request := range x.read {
		if !concern(key.kind, request.signer) {
			x.remove(key)
		}
	}
}

// changed wakes the requests that have read a fact.
func (x *factIndex) changed(f fact) {
	x.mu.Lock()
	x.changes[x.next%keptChanges] = f
	x.next++
	var keys []requestKey
	for key := range x.by[f] {
		keys = append(keys, key)
	}
	x.mu.Unlock()
	if len(keys) > 0 {
		x.woken.Tell(keys)
	}
}

// factsOf returns the facts that a decision has read and that can change.
func factsOf(d *Decision) []fact {
	r, needs := &d.Input.Request, d.needs
	if d.requestPolicies != nil {
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

// readsAccess reports whether a decision depends on rights of users.
func (d *Decision) readsAccess() bool {
	return d.requestPolicies != nil || d.needs.BuiltIn || len(d.needs.Access) > 0
}

// Undecided has the requests that wait for a decision: for people, or for facts. It is safe
// for concurrent use.
type Undecided struct {
	people *waiting
	facts  *factIndex
}

// Undecided returns the undecided requests that this process knows; nil without Policies.
func (p *Policies) Undecided() *Undecided {
	if p == nil {
		return nil
	}
	return p.undecided
}

// waits counts an undecided request if it waits for people, and notes the facts that
// wake it. began is the number of the first change that the decision may not have seen.
// Without a decision, nothing wakes it.
func (u *Undecided) waits(req *request.Request, d *Decision, began int) {
	key := requestKey{req.Kind, types.NamespacedName{Namespace: req.Namespace, Name: req.Name}}
	if d == nil {
		u.ended(key)
		return
	}
	var policies []string
	if d.Outcome == v1alpha1.OutcomeNeedPeople {
		for _, r := range d.People.Requirements {
			if len(r.Missing) > 0 {
				policies = append(policies, r.Policy)
			}
		}
	}
	u.people.set(key, policies)
	u.facts.wait(key, waitingRequest{certpolicy.SignerName(*req), factsOf(d)}, began)
}

// Ended notes that a request no longer waits for its approval: it is decided, or deleted.
// Without Undecided, it does nothing.
func (u *Undecided) Ended(kind v1alpha1.RequestKind, key types.NamespacedName) {
	if u != nil {
		u.ended(requestKey{kind, key})
	}
}

func (u *Undecided) ended(key requestKey) {
	u.people.set(key, nil)
	u.facts.set(key, waitingRequest{})
}

// Wake queues undecided requests of a kind after a change of a fact that their
// decisions have read: a Namespace, a Node, their owner, or rights of users. It ends
// with ctx. For changes of policies, use Subscribe.
func (u *Undecided) Wake(ctx context.Context, kind v1alpha1.RequestKind, queue worker.Queue) {
	context.AfterFunc(ctx, u.facts.woken.Subscribe(func(keys []requestKey) {
		for _, key := range keys {
			if key.kind == kind {
				queue.Add(reconcile.Request{NamespacedName: key.NamespacedName})
			}
		}
	}))
}
