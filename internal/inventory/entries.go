package inventory

import (
	"context"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/revocation"
)

// keepEntries is how long revocations are kept after the end of the last certificate of an act.
const keepEntries = 30 * secondsPerDay * time.Second

// keepUnfinished is how long parts of an act are kept that was never stored.
const keepUnfinished = 24 * time.Hour

// Revoked returns the index of all revoked certificates, which Run keeps up to date.
func (i *Inventory) Revoked() *revocation.Index { return i.index }

// WriteEntries returns the write that stores the entries of an act. It never changes and
// exists until all certificates have ended.
func (i *Inventory) WriteEntries(act revocation.Act, entries []revocation.Entry) (clientv3.Op, error) {
	data, err := revocation.Encode(act, entries)
	if err != nil {
		return clientv3.Op{}, err
	}
	return clientv3.OpPut(i.entries+string(act.UID), string(data)), nil
}

// applyEntries takes the entries of an act into account. Entries that cannot be read must not
// keep the others from being read.
func applyEntries(index *revocation.Index, kind mvccpb.Event_EventType, uid string, kv *mvccpb.KeyValue) {
	if kind == mvccpb.DELETE {
		index.Remove(types.UID(uid))
		return
	}
	act, entries, err := revocation.Decode(kv.Value)
	if err != nil {
		index.Damaged(fmt.Errorf("reading %s: %w", kv.Key, err))
		act, entries = revocation.Act{}, nil // it can have parts
	}
	act.UID, act.Revision = types.UID(uid), kv.CreateRevision
	index.Add(act, entries)
}

// DropParts removes the parts of an act that will not be stored.
func DropParts(ctx context.Context, i *Inventory, of types.UID) error {
	if _, err := i.Store.Delete(ctx, i.entries+string(of)+"-", clientv3.WithPrefix()); err != nil {
		return fmt.Errorf("deleting parts of a revocation that is not stored: %w", err)
	}
	return nil
}

// cleanEntries removes the entries of acts whose certificates ended long ago, and parts of acts
// that were never stored.
func cleanEntries(ctx context.Context, i *Inventory, now time.Time) error {
	for _, uid := range append(i.index.Ended(now.Add(-keepEntries)), i.index.Unfinished(now.Add(-keepUnfinished))...) {
		if _, err := i.Store.Delete(ctx, i.entries+string(uid)); err != nil {
			return fmt.Errorf("deleting revocations that are not needed: %w", err)
		}
	}
	return nil
}
