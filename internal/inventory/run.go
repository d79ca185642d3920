package inventory

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

const (
	// readPage is how many packs are read at once at a start.
	readPage = 64
	// retryAfter is the pause after an error.
	retryAfter = time.Second
	// cleanEvery is how often ended records are looked for.
	cleanEvery = 10 * time.Minute
)

// Run reads the records, follows their changes, moves them into packs and deletes those
// that have ended, until ctx ends.
func (i *Inventory) Run(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("inventory")
	var tidy sync.WaitGroup
	defer tidy.Wait()
	tidy.Go(func() { i.keepTidy(ctx) })
	tidy.Go(func() { i.keepUnrenewed(ctx) })
	tidy.Go(func() { i.Lists.run(ctx) })
	tidy.Go(func() { i.showRevoked(ctx, i.metrics, i.index) })
	for ctx.Err() == nil {
		err := i.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		logger.Error(err, "Reading the inventory failed, trying again")
		pause(ctx, retryAfter)
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// follow reads everything, then follows the changes until an error.
func (i *Inventory) follow(ctx context.Context) error {
	revision, err := i.readAll(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ctx = ownStream(clientv3.WithRequireLeader(ctx))
	// Not after the revision: etcd reports no progress before a watch's first revision exists.
	changes := i.Store.Watch(ctx, i.root, clientv3.WithPrefix(), clientv3.WithRev(revision))
	go askProgress(ctx, i.Store, i.ask)
	for answer := range changes {
		if err := answer.Err(); err != nil {
			return fmt.Errorf("watching the inventory: %w", err)
		}
		i.progressed()
		if answer.IsProgressNotify() {
			i.mu.Lock()
			i.toldTo(answer.Header.Revision)
			i.mu.Unlock()
			continue // not i.seen: etcd before 3.5.8 may send it before the events up to its revision
		}
		i.mu.Lock()
		for _, event := range answer.Events {
			if err = i.apply(event.Type, event.Kv); err != nil {
				break
			}
		}
		i.completeTo(answer.Header.Revision)
		i.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return errors.New("the watch of the inventory has ended")
}

// readAll replaces the state in memory with the contents of the store at one revision.
func (i *Inventory) readAll(ctx context.Context) (revision int64, err error) {
	read := &Inventory{packs: i.packs, fresh: i.fresh, revoked: i.revoked, entries: i.entries, index: i.index, Lists: i.Lists, Index: &Index{days: map[int64]*day{}}, revocations: revocationNotes{}}
	for _, prefix := range []string{i.entries, i.fresh, i.packs, i.revoked, i.Lists.prefix} {
		from, end := prefix, clientv3.GetPrefixRangeEnd(prefix)
		for {
			answer, err := i.Store.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(readPage), clientv3.WithRev(revision))
			if err != nil {
				return 0, fmt.Errorf("reading the inventory: %w", err)
			}
			if revision == 0 {
				revision = answer.Header.Revision
			}
			for _, kv := range answer.Kvs {
				if err := read.apply(mvccpb.PUT, kv); err != nil {
					return 0, err
				}
				from = string(kv.Key) + "\x00"
			}
			if !answer.More {
				break
			}
		}
		if prefix == i.entries { // other keys that cannot be read must not let revoked certificates in
			i.progressed()
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.days, i.revocations, i.freshCount, i.freshBytes = read.days, read.revocations, read.freshCount, read.freshBytes
	i.revokedTo = max(i.revokedTo, read.revokedTo)
	i.completeTo(revision)
	return revision, nil
}

// keepTidy packs and cleans until ctx ends.
func (i *Inventory) keepTidy(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("inventory")
	clean := time.NewTicker(cleanEvery)
	defer clean.Stop()
	for {
		i.mu.RLock()
		changed := i.changed
		i.mu.RUnlock()
		i.count()
		if err := i.packAll(ctx); err != nil && ctx.Err() == nil {
			logger.Error(err, "Packing the inventory failed, trying again")
			pause(ctx, retryAfter)
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-clean.C:
			if err := i.Clean(ctx); err != nil && ctx.Err() == nil {
				logger.Error(err, "Cleaning the inventory failed, trying again later")
			}
		}
	}
}
