package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/server/v3/lease/leasepb"
	"go.etcd.io/etcd/server/v3/storage/backend"
	etcddir "go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.uber.org/zap"
	"google.golang.org/protobuf/proto"
)

// Content is the content of a new store.
type Content struct {
	// Revision is the revision of the new store. It must be at least that of every key.
	// Earlier revisions count as compacted, so that clients of the former store list again.
	Revision int64
	// Leases are the leases of the keys, by ID, with their lifetime in seconds.
	Leases map[int64]int64
	// Keys calls put for each key, with the revisions that the key is to have.
	Keys func(put func(*mvccpb.KeyValue) error) error
}

// Make creates a store in dir, which must not contain one, as if the keys had
// been written to it. The store does not run afterwards.
func Make(ctx context.Context, dir string, content Content) error {
	if _, err := os.Stat(filepath.Join(dir, "member")); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("making a store in %s: there is one", dir)
	}
	// A member needs a log and its own entry: its first start makes both.
	first, err := Start(ctx, Config{Dir: dir})
	if err != nil {
		return err
	}
	first.Stop()
	if err := fill(etcddir.ToBackendFileName(dir), content); err != nil {
		return fmt.Errorf("making a store in %s: %w", dir, err)
	}
	return nil
}

// commitBytes is about how much is written in one transaction, which is in memory.
const commitBytes = 8 << 20

// fill writes keys into the database of a store that has none.
func fill(file string, content Content) (err error) {
	config := backend.DefaultBackendConfig(zap.NewNop())
	config.Path = file
	db := backend.New(config)
	defer func() { err = errors.Join(err, db.Close()) }()
	tx := db.BatchTx()
	put := func(write func()) {
		tx.LockOutsideApply() // which commits the pending writes
		defer tx.Unlock()
		write()
	}
	for id, seconds := range content.Leases {
		put(func() { schema.MustUnsafePutLease(tx, &leasepb.Lease{ID: id, TTL: seconds}) })
	}
	subs, pending := map[int64]int64{}, 0
	err = content.Keys(func(kv *mvccpb.KeyValue) error {
		if kv.ModRevision > content.Revision || kv.CreateRevision > kv.ModRevision || kv.CreateRevision < 1 {
			return fmt.Errorf("key %q has the revisions %d and %d, which is not possible", kv.Key, kv.CreateRevision, kv.ModRevision)
		}
		data, err := proto.Marshal(kv)
		if err != nil {
			return fmt.Errorf("encoding key %q: %w", kv.Key, err)
		}
		// Keys that were written together share a revision, in some order.
		revision := mvcc.Revision{Main: kv.ModRevision, Sub: subs[kv.ModRevision]}
		subs[kv.ModRevision]++
		put(func() { tx.UnsafePut(schema.Key, mvcc.RevToBytes(revision, mvcc.NewRevBytes()), data) })
		if pending += len(data); pending > commitBytes {
			db.ForceCommit()
			pending = 0
		}
		return nil
	})
	if err != nil {
		return err
	}
	put(func() {
		mvcc.UnsafeSetScheduledCompact(tx, content.Revision)
		mvcc.UnsafeSetFinishedCompact(tx, content.Revision)
	})
	db.ForceCommit()
	return nil
}
