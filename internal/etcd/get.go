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

// Get returns the value of a key, nil if there is no such key. The answer is never older
// than a write that was acknowledged, or than an event that a watch has delivered, before
// the call.
//
// A linearizable read of a client gives the same, but waits for raft, which syncs its
// log to disk meanwhile. A serializable one can be older than what a watch has
// delivered: the store tells its watches of a write before it ends it.
func (s *Server) Get(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.stopped || s.HasFailed() {
		return nil, errStopped
	}
	s.awaitWrite()
	tx := s.member.Server.KV().Read(mvcc.ConcurrentReadTxMode, traceutil.TODO())
	defer tx.End()
	found, err := tx.Range(ctx, []byte(key), nil, mvcc.RangeOptions{})
	if err != nil || len(found.KVs) == 0 {
		return nil, err
	}
	return found.KVs[0], nil
}

// awaitWrite returns when the write that is under way, if there is one, can be read.
// Every write holds this lock until then, also while it tells watches.
func (s *Server) awaitWrite() {
	tx := s.member.Server.Backend().BatchTx()
	tx.LockOutsideApply()
	tx.Unlock()
}

// endReading returns when nobody reads, and lets nobody read after that.
func (s *Server) endReading() {
	s.reading.Lock()
	defer s.reading.Unlock()
	s.stopped = true
}
