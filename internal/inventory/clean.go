package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keepApprovals is how long the approval of a request that gets no certificate is kept.
const keepApprovals = 30 * secondsPerDay * time.Second

// Clean deletes the records of certificates that have ended, Keep after that, and the packs
// whose records are all older than Longest.
func (i *Inventory) Clean(ctx context.Context) error {
	now := i.Now()
	if err := i.cleanOld(ctx, now.Add(-i.Longest).Unix()); err != nil {
		return err
	}
	i.mu.RLock()
	var ended []int64
	for number := range i.days {
		if number < dayOf(now.Add(-i.Keep)) {
			ended = append(ended, number)
		}
	}
	i.mu.RUnlock()
	for _, number := range ended {
		err := i.packWhile(ctx, number, func(d *day) bool { return len(d.fresh) > 0 })
		if err != nil {
			return err
		}
		if _, err := i.Store.Delete(ctx, i.packs+dayText(number)+"/", clientv3.WithPrefix()); err != nil {
			return fmt.Errorf("deleting the records of ended certificates: %w", err)
		}
	}
	if err := cleanRevocations(ctx, i, dayOf(now.Add(-i.Keep))); err != nil {
		return err
	}
	if err := cleanEntries(ctx, i, now); err != nil {
		return err
	}
	return i.cleanApprovals(ctx, now)
}

// packWhile packs records of a day while a condition holds: watches learn of deleted records
// from the packs.
func (i *Inventory) packWhile(ctx context.Context, number int64, holds func(*day) bool) error {
	for {
		i.mu.RLock()
		d := i.days[number]
		more := d != nil && holds(d)
		i.mu.RUnlock()
		if !more {
			return nil
		}
		if err := i.packSome(ctx, number); err != nil {
			return err
		}
	}
}

// cleanOld deletes the packs whose records were all issued before a time, in seconds since
// 1970, if there is a bound.
func (i *Inventory) cleanOld(ctx context.Context, before int64) error {
	if i.Longest == 0 {
		return nil
	}
	isOld := func(f *freshRecord) bool { return f.record.CreationTimestamp.Unix() < before }
	i.mu.RLock()
	var days []int64
	var old []*packInfo
	for number, d := range i.days {
		for _, f := range d.fresh {
			if isOld(f) {
				days = append(days, number)
				break
			}
		}
		for _, p := range d.packs {
			if p.newest > 0 && p.newest < before {
				old = append(old, p)
			}
		}
	}
	i.mu.RUnlock()
	for _, number := range days { // the next time they are in packs
		err := i.packWhile(ctx, number, func(d *day) bool { return slices.ContainsFunc(slices.Collect(maps.Values(d.fresh)), isOld) })
		if err != nil {
			return err
		}
	}
	for _, p := range old {
		unchanged := clientv3.Compare(clientv3.ModRevision(p.key), "=", p.revision)
		if _, err := i.Store.Txn(ctx).If(unchanged).Then(clientv3.OpDelete(p.key)).Commit(); err != nil {
			return fmt.Errorf("deleting the oldest records: %w", err)
		}
	}
	return nil
}

// cleanApprovals removes approvals of requests that got no certificate.
func (i *Inventory) cleanApprovals(ctx context.Context, now time.Time) error {
	answer, err := i.Store.Get(ctx, i.approved, clientv3.WithPrefix())
	if err != nil {
		return fmt.Errorf("reading the approvals: %w", err)
	}
	for _, kv := range answer.Kvs {
		var approval Approval
		if json.Unmarshal(kv.Value, &approval) == nil && now.Sub(approval.Time.Time) < keepApprovals {
			continue
		}
		if _, err := i.Store.Delete(ctx, string(kv.Key)); err != nil {
			return fmt.Errorf("deleting the approval: %w", err)
		}
	}
	return nil
}
