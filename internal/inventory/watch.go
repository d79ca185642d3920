package inventory

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/revocation"
)

// Event is a change of the inventory.
type Event struct {
	Record *inventoryv1alpha1.IssuedCertificate
	// Deleted is true for a record that was deleted, Revoked for a certificate that was revoked:
	// then the record has only a name, which need not exist, and the end of the certificate if
	// that is known. Both are false for a new record.
	Deleted, Revoked bool
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
			if more, err := i.tell(ctx, change, found); err != nil || !more {
				return err
			}
		}
	}
	return ctx.Err()
}

// tell calls found for the meaning of a change of a key: a record is new when it is written,
// and deleted when its pack is deleted or rewritten without it. Moving a record into a pack
// changes nothing.
func (i *Inventory) tell(ctx context.Context, change *clientv3.Event, found func(Event) bool) (more bool, err error) {
	key, revision := string(change.Kv.Key), change.Kv.ModRevision
	if _, _, ok := parseKey(key, i.fresh); ok && change.Type == mvccpb.PUT {
		added, err := newFresh(change.Kv)
		if err != nil {
			return false, err
		}
		return found(Event{Record: added.record, Revision: revision}), nil
	}
	revoked, err := revokedBy(ctx, i, key, change)
	if err != nil {
		return false, err
	}
	if len(revoked) > 0 {
		i.Wrote(revision) // so that Find knows the revocation
		for _, record := range revoked {
			if !found(Event{Record: record, Revoked: true, Revision: revision}) {
				return false, nil
			}
		}
		return true, nil
	}
	if _, _, ok := parseKey(key, i.packs); !ok || change.PrevKv == nil {
		return true, nil
	}
	gone, err := goneFrom(change)
	if err != nil {
		return false, err
	}
	for _, record := range gone {
		record.ResourceVersion, record.Revocation = fmt.Sprint(revision), i.RevocationOf(record.Name)
		if !found(Event{Record: record, Deleted: true, Revision: revision}) {
			return false, nil
		}
	}
	return true, nil
}

// revokedBy returns what identifies the records that a change may revoke.
func revokedBy(ctx context.Context, i *Inventory, key string, change *clientv3.Event) (records []*inventoryv1alpha1.IssuedCertificate, err error) {
	add := func(name string, notAfter time.Time) {
		r := &inventoryv1alpha1.IssuedCertificate{ObjectMeta: metav1.ObjectMeta{Name: name}}
		r.Certificate.NotAfter = metav1.NewTime(notAfter)
		records = append(records, r)
	}
	switch name, isNote := strings.CutPrefix(key, i.revoked); {
	case change.Type != mvccpb.PUT:
	case isNote:
		add(name, time.Time{})
	case strings.HasPrefix(key, i.entries):
		act, entries, _ := revocation.Decode(change.Kv.Value) // applyEntries reports the error
		if act.Of != "" {
			return nil, nil // it has no effect before its act
		}
		parts, err := i.Store.Get(ctx, key+"-", clientv3.WithPrefix())
		if err != nil {
			return nil, fmt.Errorf("reading the parts of a revocation: %w", err)
		}
		for _, kv := range parts.Kvs {
			if part, more, _ := revocation.Decode(kv.Value); part.Of != "" {
				entries = append(entries, more...)
			}
		}
		for _, entry := range entries {
			for _, digest := range entry.Fingerprints {
				if digest != (revocation.Digest{}) {
					add(hex.EncodeToString(digest[:]), entry.NotAfter)
				}
			}
		}
	}
	return records, nil
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
