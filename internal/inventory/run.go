package inventory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/controller-runtime/pkg/log"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
)

const (
	// readPage is how many packs are read at once at a start.
	readPage = 64
	// maxFresh and maxFreshBytes are how much is outside of packs, and in memory.
	maxFresh      = 2048
	maxFreshBytes = 8 << 20
	// moved is how many records are moved at once: etcd takes 128 operations in a
	// transaction.
	moved = 120
	// retryAfter is the pause after an error.
	retryAfter = time.Second
	// conflictPause is the pause after another server has moved the same records.
	conflictPause = 50 * time.Millisecond
	// cleanEvery is how often ended records are looked for.
	cleanEvery = 10 * time.Minute
	// keepApprovals is how long it is kept who approved a request that gets no certificate.
	keepApprovals = 30 * secondsPerDay * time.Second
)

// Run reads the records, follows their changes, moves them into packs and deletes those
// that have ended, until ctx ends.
func (i *Inventory) Run(ctx context.Context) {
	logger := log.FromContext(ctx).WithName("inventory")
	go i.keepTidy(ctx)
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
	for answer := range i.Store.Watch(clientv3.WithRequireLeader(ctx), i.root, clientv3.WithPrefix(), clientv3.WithRev(revision+1)) {
		if err := answer.Err(); err != nil {
			return fmt.Errorf("watching the inventory: %w", err)
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

// readAll replaces what is known by what is in the store at one revision.
func (i *Inventory) readAll(ctx context.Context) (revision int64, err error) {
	read := &Inventory{packs: i.packs, fresh: i.fresh, days: map[int64]*day{}}
	for _, prefix := range []string{i.fresh, i.packs} {
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
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.days, i.freshCount, i.freshBytes = read.days, read.freshCount, read.freshBytes
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

// packAll packs until what is outside of packs is within its bounds.
func (i *Inventory) packAll(ctx context.Context) error {
	for {
		number, ok := i.fullest()
		if !ok {
			return nil
		}
		if err := i.packSome(ctx, number); err != nil {
			return err
		}
	}
}

// AwaitPacked returns when no records have to be packed.
func (i *Inventory) AwaitPacked(ctx context.Context) error {
	if err := i.await(ctx); err != nil {
		return err
	}
	for {
		i.mu.RLock()
		changed := i.changed
		i.mu.RUnlock()
		if _, more := i.fullest(); !more {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

// fullest returns the day of which records are to be packed, if there is one: one that
// fills a pack, or the one with the most records if there are too many together.
func (i *Inventory) fullest() (number int64, ok bool) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	most := 0
	for n, d := range i.days {
		if len(d.fresh) > most {
			number, most = n, len(d.fresh)
		}
	}
	return number, most >= packRecords || most > 0 && (i.freshCount > maxFresh || i.freshBytes > maxFreshBytes)
}

// packSome moves records of a day into its last pack, or a new one, and returns when
// that is known.
func (i *Inventory) packSome(ctx context.Context, number int64) error {
	p, batch, last, next, err := i.plan(ctx, number)
	if err != nil || len(batch) == 0 {
		return err
	}
	key := i.packs + dayText(number) + "/" + fmt.Sprintf("%08d", next)
	compare := clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	if last != nil {
		key, compare = last.key, clientv3.Compare(clientv3.ModRevision(last.key), "=", last.revision)
	}
	if p.filter, err = filterOf(p.records); err != nil {
		return err
	}
	value, err := p.encode()
	if err != nil {
		return fmt.Errorf("packing records: %w", err)
	}
	compares, ops := []clientv3.Cmp{compare}, []clientv3.Op{clientv3.OpPut(key, string(value))}
	for _, record := range batch {
		compares = append(compares, clientv3.Compare(clientv3.ModRevision(record.key), "=", record.revision))
		ops = append(ops, clientv3.OpDelete(record.key))
	}
	answer, err := i.Store.Txn(ctx).If(compares...).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("packing records: %w", err)
	}
	if !answer.Succeeded {
		pause(ctx, conflictPause) // another server came before: its change is known soon
		return nil
	}
	return i.awaitRevision(ctx, answer.Header.Revision)
}

// filterOf returns the filter of records.
func filterOf(records [][]byte) (filter, error) {
	terms := map[term]struct{}{}
	for _, data := range records {
		record, err := decodeRecord(data)
		if err != nil {
			return nil, err
		}
		for _, t := range termsOf(record) {
			terms[t] = struct{}{}
		}
	}
	return newFilter(terms), nil
}

// plan returns the pack with some more records of a day, which those are, and where the
// pack is: last, or a new one with the number next.
func (i *Inventory) plan(ctx context.Context, number int64) (p *pack, batch []*freshRecord, last *packInfo, next int64, err error) {
	i.mu.RLock()
	d := i.days[number]
	if d == nil {
		i.mu.RUnlock()
		return nil, nil, nil, 0, nil
	}
	for _, n := range slices.Sorted(maps.Keys(d.packs)) {
		next, last = n+1, d.packs[n]
	}
	known := slices.Collect(maps.Values(d.packs))
	records := slices.Collect(maps.Values(d.fresh))
	i.mu.RUnlock()

	slices.SortFunc(records, func(a, b *freshRecord) int { return int(a.revision - b.revision) })
	p = &pack{}
	if last != nil && last.count < packRecords && len(records) > 0 {
		if p, err = i.read(ctx, last); err != nil {
			return nil, nil, nil, 0, err
		}
	}
	if len(p.records) == 0 || p.bytes()+records[0].size > packBytes {
		p, last = &pack{}, nil
	}
	size := p.bytes()
	for _, record := range records {
		if size += record.size; len(batch) == moved || len(p.records) == packRecords || size > packBytes && len(p.records) > 0 {
			break
		}
		batch = append(batch, record)
		twice, err := i.isPacked(ctx, known, record)
		if err != nil {
			return nil, nil, nil, 0, err
		}
		if twice { // the certificate was put into two requests
			continue
		}
		data, err := json.Marshal(record.record)
		if err != nil {
			return nil, nil, nil, 0, fmt.Errorf("packing records: %w", err)
		}
		p.records = append(p.records, data)
	}
	return p, batch, last, next, nil
}

// isPacked reports whether a record is in one of the packs already.
func (i *Inventory) isPacked(ctx context.Context, packs []*packInfo, record *freshRecord) (bool, error) {
	name := record.record.Name
	for _, info := range packs {
		if !info.filter.has(newTerm(inventory.NameOfRecord, name)) {
			continue
		}
		p, err := i.read(ctx, info)
		if err != nil {
			return false, err
		}
		// Decoding all of them takes milliseconds. No value can have these quotes.
		if slices.ContainsFunc(p.records, func(data []byte) bool { return bytes.Contains(data, []byte(`"metadata":{"name":"`+name+`"`)) }) {
			return true, nil
		}
	}
	return false, nil
}

func decodeRecord(data []byte) (*inventoryv1alpha1.IssuedCertificate, error) {
	record := &inventoryv1alpha1.IssuedCertificate{}
	if err := json.Unmarshal(data, record); err != nil {
		return nil, fmt.Errorf("reading the record of a certificate: %w", err)
	}
	return record, nil
}

// read returns a pack, which may have changed since info was made.
func (i *Inventory) read(ctx context.Context, info *packInfo) (*pack, error) {
	data, err := i.Get(ctx, info.key)
	if err != nil {
		return nil, fmt.Errorf("reading a pack of the inventory: %w", err)
	}
	if data == nil {
		return &pack{}, nil // it was deleted meanwhile
	}
	p, err := decodePack(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", info.key, err)
	}
	return p, nil
}

// awaitRevision returns when the changes up to a revision of the inventory are known.
func (i *Inventory) awaitRevision(ctx context.Context, revision int64) error {
	for {
		i.mu.RLock()
		seen, changed := i.seen, i.changed
		i.mu.RUnlock()
		if seen >= revision {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the inventory to be read: %w", ctx.Err())
		case <-changed:
		}
	}
}

// Clean deletes the records of certificates that have ended, Keep after that.
func (i *Inventory) Clean(ctx context.Context) error {
	now := i.Now()
	i.mu.RLock()
	var ended []int64
	for number, d := range i.days {
		if number < dayOf(now.Add(-i.Keep)) && len(d.fresh)+len(d.packs) > 0 {
			ended = append(ended, number)
		}
	}
	i.mu.RUnlock()
	for _, number := range ended {
		for { // those who watch are told by the packs
			i.mu.RLock()
			left := 0
			if d := i.days[number]; d != nil {
				left = len(d.fresh)
			}
			i.mu.RUnlock()
			if left == 0 {
				break
			}
			if err := i.packSome(ctx, number); err != nil {
				return err
			}
		}
		if _, err := i.Store.Delete(ctx, i.packs+dayText(number)+"/", clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("deleting the records of ended certificates: %w", err)
		}
	}
	return i.cleanApprovals(ctx, now)
}

// cleanApprovals removes who approved requests that got no certificate.
func (i *Inventory) cleanApprovals(ctx context.Context, now time.Time) error {
	answer, err := i.Store.Get(ctx, i.approved, clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("reading who approved: %w", err)
	}
	for _, kv := range answer.Kvs {
		var approval Approval
		if json.Unmarshal(kv.Value, &approval) == nil && now.Sub(approval.Time.Time) < keepApprovals {
			continue
		}
		if _, err := i.Store.Delete(ctx, string(kv.Key)); err != nil {
			return fmt.Errorf("deleting who approved: %w", err)
		}
	}
	return nil
}
