package garbage

import (
	"maps"
	"slices"
	"sync"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// graph holds which objects exist and which own which. It stores little: for
// most objects, only that they exist.
type graph struct {
	// changed is called with the objects to decide about. It must not block.
	changed func(types.UID)

	mu    sync.Mutex
	there map[types.UID]place
	// nodes are the objects with owners, and those whose deletion waits for
	// something about their dependents.
	nodes map[types.UID]*node
	// dependents are the objects that name an owner, whether the owner exists
	// or not.
	dependents map[types.UID]map[types.UID]struct{}
}

// place is where an object is, without its name.
type place struct {
	kind      *kind
	namespace unique.Handle[string]
}

// node is an object that the controller can decide about.
type node struct {
	place
	name               string
	owners             []owner
	foreground, orphan bool
}

// owner is the part of an owner reference that the graph needs.
type owner struct {
	uid    types.UID
	blocks bool
}

func newGraph(changed func(types.UID)) *graph {
	return &graph{
		changed:    changed,
		there:      map[types.UID]place{},
		nodes:      map[types.UID]*node{},
		dependents: map[types.UID]map[types.UID]struct{}{},
	}
}

// observe records the current state of an object.
func (g *graph) observe(k *kind, obj *metav1.PartialObjectMetadata) {
	g.mu.Lock()
	defer g.mu.Unlock()
	uid := obj.UID
	at := place{kind: k, namespace: unique.Make(obj.Namespace)}
	g.there[uid] = at

	before, after := g.nodes[uid], newNode(at, obj)
	g.link(uid, before, after)
	if after == nil {
		delete(g.nodes, uid)
		return
	}
	g.nodes[uid] = after
	if after.waits() {
		g.changed(uid)
		if before == nil || !before.waits() {
			g.tell(g.dependents[uid])
		}
	}
	if g.needsLook(after) {
		g.changed(uid)
	}
}

// newNode returns nil for an object that needs no decision.
func newNode(at place, obj *metav1.PartialObjectMetadata) *node {
	deleting := !obj.DeletionTimestamp.IsZero()
	n := &node{
		place:      at,
		name:       obj.Name,
		foreground: deleting && slices.Contains(obj.Finalizers, metav1.FinalizerDeleteDependents),
		orphan:     deleting && slices.Contains(obj.Finalizers, metav1.FinalizerOrphanDependents),
	}
	for _, ref := range obj.OwnerReferences {
		n.owners = append(n.owners, owner{uid: ref.UID, blocks: ref.BlockOwnerDeletion != nil && *ref.BlockOwnerDeletion})
	}
	if len(n.owners) == 0 && !n.waits() {
		return nil
	}
	return n
}

// waits reports whether a deletion waits for this controller.
func (n *node) waits() bool { return n.foreground || n.orphan }

// link replaces the edges from an object to its owners. Waiting owners are checked again:
// they may not have to wait any more.
func (g *graph) link(uid types.UID, before, after *node) {
	if before != nil {
		for _, o := range before.owners {
			delete(g.dependents[o.uid], uid)
			if len(g.dependents[o.uid]) == 0 {
				delete(g.dependents, o.uid)
			}
			if n := g.nodes[o.uid]; n != nil && n.foreground {
				g.changed(o.uid)
			}
		}
	}
	if after == nil {
		return
	}
	for _, o := range after.owners {
		if g.dependents[o.uid] == nil {
			g.dependents[o.uid] = map[types.UID]struct{}{}
		}
		g.dependents[o.uid][uid] = struct{}{}
	}
}

// needsLook reports whether any owner of n is waiting, or is not where it can
// own n.
func (g *graph) needsLook(n *node) bool {
	return slices.ContainsFunc(n.owners, func(o owner) bool {
		at, there := g.there[o.uid]
		if !there || at.kind.namespaced && at.namespace != n.namespace {
			return true
		}
		waiter := g.nodes[o.uid]
		return waiter != nil && waiter.foreground
	})
}

// forget records that an object was deleted.
func (g *graph) forget(uid types.UID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(uid)
}

func (g *graph) remove(uid types.UID) {
	before := g.nodes[uid]
	delete(g.there, uid)
	delete(g.nodes, uid)
	g.link(uid, before, nil)
	g.tell(g.dependents[uid])
}

// keepOnly records that uids are all objects of a kind.
func (g *graph) keepOnly(k *kind, uids map[types.UID]struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, at := range g.there {
		if _, kept := uids[uid]; !kept && at.kind == k {
			g.remove(uid)
		}
	}
}

// lookAgain is called when more kinds of owners are known than before.
func (g *graph) lookAgain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for uid, n := range g.nodes {
		if n.waits() || g.needsLook(n) {
			g.changed(uid)
		}
	}
}

func (g *graph) tell(uids map[types.UID]struct{}) {
	for uid := range uids {
		g.changed(uid)
	}
}

// get returns a node, which must not be modified.
func (g *graph) get(uid types.UID) (*node, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, ok := g.nodes[uid]
	return n, ok
}

// dependentsOf returns the dependents of an owner.
func (g *graph) dependentsOf(uid types.UID) []dependent {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []dependent
	for d := range maps.Keys(g.dependents[uid]) {
		n := g.nodes[d]
		edge := dependent{uid: d, foreground: n.foreground}
		for _, o := range n.owners {
			edge.blocks = edge.blocks || o.uid == uid && o.blocks
		}
		out = append(out, edge)
	}
	return out
}

// stateOf returns the state of an owner according to the graph. If only the server can
// answer, ok is false.
func (g *graph) stateOf(uid types.UID, k *kind, namespace string) (state ownerState, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if at, there := g.there[uid]; !there || at.kind.group() != k.group() || at.namespace != unique.Make(namespace) {
		return absent, false
	}
	if n := g.nodes[uid]; n != nil && n.foreground {
		return waiting, true
	}
	return present, true
}
