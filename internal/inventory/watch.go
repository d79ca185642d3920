package inventory

import (
	"context"
	"fmt"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// Event is a change of the inventory.
type Event struct {
	Record *inventoryv1alpha1.IssuedCertificate
	// Deleted is true for a record that was deleted, false for a new one.
	Deleted bool
	// Revision is the revision of the change.
	Revision int64
}

// Watch calls found for each change after a revision, until ctx ends or found returns false.
// It returns rpctypes.ErrCompacted if the store has compacted that revision.
func (i *Inventory) Watch(ctx context.Context, revision int64, found func(Event) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	changes := i.Store.Watch(clientv3.WithRequireLeader(ctx), i.root, clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithRev(revision+1))
	for answer := range changes {
		if err := answer.Err(); err != nil {
			return err
		}
		for _, change := range answer.Events {
			if more, err := i.tell(change, found); err != nil || !more {
				return err
			}
		}
	}
	return ctx.Err()
}

// tell calls found for the meaning of a change of a key: a record is new when it is written,
// and deleted when its pack is deleted or rewritten without it. Moving a record into a pack
// changes nothing.
func (i *Inventory) tell(change *clientv3.Event, found func(Event) bool) (more bool, err error) {
	key, revision := string(change.Kv.Key), change.Kv.ModRevision
	if _, _, ok := parseKey(key, i.fresh); ok && change.Type == mvccpb.PUT {
		added, err := newFresh(change.Kv)
		if err != nil {
			return false, err
		}
		return found(Event{Record: added.record, Revision: revision}), nil
	}
	if _, _, ok := parseKey(key, i.packs); !ok || change.PrevKv == nil {
		return true, nil
	}
	gone, err := goneFrom(change)
	if err != nil {
		return false, err
	}
	for _, record := range gone {
		record.ResourceVersion = fmt.Sprint(revision)
		if !found(Event{Record: record, Deleted: true, Revision: revision}) {
			return false, nil
		}
	}
	return true, nil
}

// goneFrom returns the records that were in a pack before a change, and are not any more.
func goneFrom(change *clientv3.Event) ([]*inventoryv1alpha1.IssuedCertificate, error) {
	left := map[string]bool{}
	if change.Type == mvccpb.PUT {
		before, _, _, err := decodeHeader(change.PrevKv.Value)
		if err != nil {
			return nil, err
		}
		if after, _, _, err := decodeHeader(change.Kv.Value); err != nil || after >= before {
			return nil, err // records were added
		}
		p, err := decodePack(change.Kv.Value)
		if err != nil {
			return nil, err
		}
		for _, data := range p.records {
			left[string(data)] = true
		}
	}
	p, err := decodePack(change.PrevKv.Value)
	if err != nil {
		return nil, err
	}
	var gone []*inventoryv1alpha1.IssuedCertificate
	for _, data := range p.records {
		if left[string(data)] {
			continue
		}
		record, err := decodeRecord(data)
		if err != nil {
			return nil, err
		}
		gone = append(gone, record)
	}
	return gone, nil
}
