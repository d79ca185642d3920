package garbage

import (
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	things = &kind{resource: schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "things"}, name: "Thing", namespaced: true, watched: true}
	worlds = &kind{resource: schema.GroupVersionResource{Group: "g", Version: "v1", Resource: "worlds"}, name: "World", watched: true}
)

// told is a graph and the objects that it has reported.
type told struct {
	*graph
	uids map[types.UID]bool
}

func newTold() told {
	uids := map[types.UID]bool{}
	return told{newGraph(func(uid types.UID) { uids[uid] = true }), uids}
}

// check compares the objects that the graph has reported since the last check.
func (g told) check(t *testing.T, when, want string) {
	t.Helper()
	var got []string
	for _, uid := range slices.Sorted(maps.Keys(g.uids)) {
		got = append(got, string(uid))
	}
	clear(g.uids)
	if strings.Join(got, " ") != want {
		t.Errorf("%s: told about %q, want %q", when, strings.Join(got, " "), want)
	}
}

// thing returns an object. It blocks the owners whose names end in "!".
func thing(uid string, owners ...string) *metav1.PartialObjectMetadata {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Namespace: "n"}}
	for _, o := range owners {
		uid, blocks := strings.CutSuffix(o, "!")
		obj.OwnerReferences = append(obj.OwnerReferences, metav1.OwnerReference{UID: types.UID(uid), BlockOwnerDeletion: &blocks})
	}
	return obj
}

func deleting(obj *metav1.PartialObjectMetadata, finalizer string) *metav1.PartialObjectMetadata {
	obj.DeletionTimestamp, obj.Finalizers = &metav1.Time{}, []string{finalizer}
	now := metav1.Unix(1, 0)
	obj.DeletionTimestamp = &now
	return obj
}

func TestGraphTells(t *testing.T) {
	g := newTold()
	g.observe(things, thing("owner"))
	g.check(t, "an object that nobody owns", "")
	g.observe(things, thing("child", "owner!"))
	g.check(t, "a dependent of an owner that is there", "")
	g.observe(things, thing("early", "late"))
	g.check(t, "a dependent of an owner that is not there", "early")
	g.observe(things, deleting(thing("owner"), metav1.FinalizerDeleteDependents))
	g.check(t, "an owner that begins to wait", "child owner")
	g.observe(things, thing("child"))
	g.check(t, "a dependent that is none any more", "owner")
	g.observe(things, thing("child", "owner!"))
	g.check(t, "a new dependent of an owner that waits", "child")
	g.forget("child")
	g.check(t, "a dependent that is gone", "owner")
	g.observe(things, thing("second", "owner"))
	g.check(t, "another dependent", "second")
	g.forget("owner")
	g.check(t, "an owner that is gone", "second")
	g.observe(things, deleting(thing("leaver"), metav1.FinalizerOrphanDependents))
	g.check(t, "an owner that leaves its dependents", "leaver")
	g.observe(worlds, thing("world"))
	g.observe(things, thing("citizen", "world"))
	g.check(t, "a dependent of an owner in no namespace", "")
	abroad := thing("abroad", "second")
	abroad.Namespace = "m"
	g.observe(things, abroad)
	g.check(t, "a dependent of an owner in another namespace", "abroad")
	g.observe(things, deleting(thing("stranger"), "somebody/else"))
	g.check(t, "an object that waits for others", "")
}

func TestGraphForgetsWhatWasNotListed(t *testing.T) {
	g := newTold()
	g.observe(things, thing("owner"))
	g.observe(worlds, thing("world"))
	g.observe(things, thing("child", "owner", "world"))
	g.keepOnly(things, map[types.UID]struct{}{"child": {}})
	g.check(t, "an owner that was not listed", "child")
	if _, known := g.stateOf("world", worlds, "n"); !known {
		t.Error("an object of another kind was forgotten")
	}
	g.keepOnly(things, nil)
	if len(g.nodes) != 0 || len(g.dependents) != 0 || len(g.there) != 1 {
		t.Errorf("left: %v %v %v", g.nodes, g.dependents, g.there)
	}
}

func TestGraphStates(t *testing.T) {
	g := newTold()
	g.observe(things, thing("owner"))
	g.observe(things, deleting(thing("waiter"), metav1.FinalizerDeleteDependents))
	for _, test := range []struct {
		reason, uid, namespace string
		kind                   *kind
		want                   ownerState
		known                  bool
	}{
		{"it is there", "owner", "n", things, present, true},
		{"it waits", "waiter", "n", things, waiting, true},
		{"it was not seen", "nobody", "n", things, absent, false},
		{"it is in another namespace", "owner", "m", things, absent, false},
		{"it is of another kind", "owner", "n", worlds, absent, false},
	} {
		if got, known := g.stateOf(types.UID(test.uid), test.kind, test.namespace); got != test.want || known != test.known {
			t.Errorf("%s: %v, %v", test.reason, got, known)
		}
	}
}

func TestGraphDependents(t *testing.T) {
	g := newTold()
	g.observe(things, thing("a", "owner!"))
	g.observe(things, deleting(thing("b", "owner", "other!"), metav1.FinalizerDeleteDependents))
	got := map[types.UID]dependent{}
	for _, d := range g.dependentsOf("owner") {
		got[d.uid] = d
	}
	if a, b := got["a"], got["b"]; len(got) != 2 || !a.blocks || a.foreground || b.blocks || !b.foreground {
		t.Errorf("dependents = %+v", got)
	}
}

func TestOwnerPlace(t *testing.T) {
	all := kinds{things.group(): things, worlds.group(): worlds}
	for _, test := range []struct {
		reason, apiVersion, kind, namespace string
		want                                *kind
		wantNamespace                       string
	}{
		{"in the same namespace", "g/v1", "Thing", "n", things, "n"},
		{"in another version", "g/v2", "Thing", "n", things, "n"},
		{"in no namespace", "g/v1", "World", "n", worlds, ""},
		{"of no namespace, in one", "g/v1", "Thing", "", nil, ""},
		{"of a kind that is not served", "g/v1", "Dream", "n", nil, ""},
		{"of no version at all", "a/b/c", "Thing", "n", nil, ""},
	} {
		ref := metav1.OwnerReference{APIVersion: test.apiVersion, Kind: test.kind}
		if got, namespace, ok := all.ownerPlace(ref, test.namespace); got != test.want || ok != (test.want != nil) || namespace != test.wantNamespace {
			t.Errorf("%s: %v in %q, %v", test.reason, got, namespace, ok)
		}
	}
}
