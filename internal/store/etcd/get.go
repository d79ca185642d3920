package etcd

import (
	"context"
	"errors"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/pkg/v3/traceutil"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
)

// errStopped is the answer of a store that was stopped or cannot continue.
var errStopped = errors.New("the store has stopped")

// Get is ReadKey without the revision of the store.
func (s *Server) Get(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	found, _, err := s.ReadKey(ctx, key)
	return found, err
}

// ReadKey returns the value of a key, nil if the key does not exist, and the revision of the
// store. The answer includes every write that was acknowledged, and every event that a watch
// delivered, before the call.
//
// A linearizable read of a client gives the same guarantee, but waits for raft, which syncs
// its log to disk at the same time. A serializable read can be older than an event that a
// watch has delivered: the store notifies its watches of a write before it completes the
// write.
func (s *Server) ReadKey(ctx context.Context, key string) (*mvccpb.KeyValue, int64, error) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.stopped || s.HasFailed() {
		return nil, 0, errStopped
	}
	s.awaitWrite()
	tx := s.member.Server.KV().Read(mvcc.ConcurrentReadTxMode, traceutil.TODO())
	defer tx.End()
	found, err := tx.Range(ctx, []byte(key), nil, mvcc.RangeOptions{})
	switch {
	case err != nil:
		return nil, 0, err
	case len(found.KVs) == 0:
		return nil, found.Rev, nil
	}
	return found.KVs[0], found.Rev, nil
}

// awaitWrite returns when the write that is under way, if there is one, can be read.
// Every write holds this lock until then, also while it tells watches.
func (s *Server) awaitWrite() {
	tx := s.member.Server.Backend().BatchTx()
	tx.LockOutsideApply()
	tx.Unlock()
}

// endReading returns when all reads have ended, and lets later reads fail.
func (s *Server) endReading() {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.stopped = true
}
