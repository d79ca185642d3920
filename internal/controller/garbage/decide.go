// Package garbage deletes objects whose owners were deleted, and applies the deletion
// policy to their dependents.
package garbage

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ownerState is the state of an object's owner.
type ownerState int

const (
	// present owners keep their dependents.
	present ownerState = iota
	// absent owners were deleted, or never existed.
	absent
	// waiting owners are being deleted in the foreground: they are deleted
	// after their dependents.
	waiting
	// unknown owners are of a kind that is not served, or cannot own the
	// object. They keep their dependents: leaving some garbage is safer.
	unknown
)

// facts are everything that a decision about an object depends on.
type facts struct {
	// owners are the states of its owners.
	owners map[types.UID]ownerState
	// deleting objects have a deletion timestamp.
	deleting bool
	// foreground and orphan report the finalizers with which the deleting client chose how
	// dependents are handled.
	foreground, orphan bool
	// dependents are the objects that name it as an owner.
	dependents []dependent
}

// dependent is an object from the point of view of one of its owners.
type dependent struct {
	uid types.UID
	// blocks means that the owner must not be deleted before it.
	blocks bool
	// foreground dependents wait for their own dependents.
	foreground bool
}

// action is the action for an object.
type action int

const (
	// keep it.
	keep action = iota
	// orphanDependents removes it from its dependents' owners, then releases
	// it.
	orphanDependents
	// deleteDependents decides about its dependents, for which it waits.
	deleteDependents
	// finish releases it: the dependents that it waited for were deleted.
	finish
	// detach removes owners that it has lost.
	detach
	// collect deletes it.
	collect
)

// verdict is a decision.
type verdict struct {
	action action
	// lost are the owners to remove (detach).
	lost []types.UID
	// dependents are the dependents to decide about (deleteDependents,
	// orphanDependents).
	dependents []types.UID
	// policy is how to delete (collect).
	policy v1.DeletionPropagation
	// unblock first removes its right to block its owners (collect): its own
	// dependents wait for theirs, which may include it.
	unblock bool
}

// decide returns what to do with an object.
func decide(f facts) verdict {
	switch {
	case f.deleting && f.orphan:
		return verdict{action: orphanDependents, dependents: uidsOf(f.dependents)}
	case f.deleting && f.foreground:
		return decideForeground(f)
	case f.deleting:
		return verdict{action: keep} // it waits for other finalizers
	}
	return decideOwned(f)
}

// decideForeground decides about an object that waits for its dependents.
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

// decideOwned decides about an object that is not being deleted yet.
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
		// An owner that waits for it waits for its dependents too.
		return verdict{action: collect, policy: v1.DeletePropagationForeground, unblock: anyForeground(f.dependents)}
	}
	return verdict{action: collect, policy: policyOf(f)}
}

// policyOf returns the deletion policy that an object's finalizers ask for.
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
