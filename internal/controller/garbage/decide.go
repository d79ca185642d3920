// Package garbage deletes objects whose owners are gone, and carries out what
// a deletion says about dependents.
package garbage

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownerState is how an owner of an object is.
type ownerState int

const (
	// present owners keep their dependents.
	present ownerState = iota
	// absent owners are gone, or were never there.
	absent
	// waiting owners are being deleted in the foreground: they go after their
	// dependents.
	waiting
	// unknown owners are of a kind that is not served, or cannot own the
	// object. They keep their dependents: to be sure is worth some garbage.
	unknown
)

// facts are all that a decision about an object rests on.
type facts struct {
	// owners are how its owners are.
	owners map[types.UID]ownerState
	// deleting objects have a deletion timestamp.
	deleting bool
	// foreground and orphan are the finalizers by which somebody who deletes
	// it says what shall become of its dependents.
	foreground, orphan bool
	// dependents are the objects that name it as an owner.
	dependents []dependent
}

// dependent is an object from the view of one of its owners.
type dependent struct {
	uid types.UID
	// blocks says that the owner must not go before it.
	blocks bool
	// foreground dependents wait for dependents of their own.
	foreground bool
}

// action is what to do with an object.
type action int

const (
	// keep it.
	keep action = iota
	// orphanDependents takes it out of its dependents' owners, then lets it go.
	orphanDependents
	// look after its dependents, for which it waits.
	deleteDependents
	// finish lets it go: the dependents that it waited for are gone.
	finish
	// detach takes owners away that it has lost.
	detach
	// collect deletes it.
	collect
)

// verdict is a decision.
type verdict struct {
	action action
	// lost are the owners to take away (detach).
	lost []types.UID
	// dependents are those that are to be looked after (deleteDependents,
	// orphanDependents).
	dependents []types.UID
	// policy is how to delete (collect).
	policy v1.DeletionPropagation
	// unblock takes the right to block its owners from it first (collect): its
	// own dependents wait for theirs, which may be it.
	unblock bool
}

// decide says what to do with an object.
func decide(f facts) verdict {
	switch {
	case f.deleting && f.orphan:
		return verdict{action: orphanDependents, dependents: uidsOf(f.dependents)}
	case f.deleting && f.foreground:
		return decideForeground(f)
	case f.deleting:
		return verdict{action: keep} // it waits for finalizers of others
	}
	return decideOwned(f)
}

// decideForeground is about an object that waits for its dependents.
func decideForeground(f facts) verdict {
	var blocking []dependent
	for _, d := range f.dependents {
		if d.blocks {
			blocking = append(blocking, d)
		}
	}
	if len(blocking) == 0 {
		return verdict{action: finish}
	}
	return verdict{action: deleteDependents, dependents: uidsOf(blocking)}
}

// decideOwned is about an object that nobody has deleted yet.
func decideOwned(f facts) verdict {
	var lost []types.UID
	kept, waited := 0, 0
	for uid, state := range f.owners {
		switch state {
		case present, unknown:
			kept++
		case waiting:
			waited++
			lost = append(lost, uid)
		case absent:
			lost = append(lost, uid)
		}
	}
	switch {
	case len(lost) == 0:
		return verdict{action: keep}
	case kept > 0:
		return verdict{action: detach, lost: lost}
	case waited > 0 && len(f.dependents) > 0:
		// Who waits for it waits for its dependents too.
		return verdict{action: collect, policy: v1.DeletePropagationForeground, unblock: anyForeground(f.dependents)}
	}
	return verdict{action: collect, policy: policyOf(f)}
}

// policyOf keeps what the finalizers of an object say.
func policyOf(f facts) v1.DeletionPropagation {
	switch {
	case f.orphan:
		return v1.DeletePropagationOrphan
	case f.foreground:
		return v1.DeletePropagationForeground
	}
	return v1.DeletePropagationBackground
}

func anyForeground(dependents []dependent) bool {
	for _, d := range dependents {
		if d.foreground {
			return true
		}
	}
	return false
}

func uidsOf(dependents []dependent) []types.UID {
	var uids []types.UID
	for _, d := range dependents {
		uids = append(uids, d.uid)
	}
	return uids
}
