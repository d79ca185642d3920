package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keepApprovals is how long it is kept who approved a request that gets no certificate.
const keepApprovals = 30 * secondsPerDay * time.Second

// Clean deletes the records of certificates that have ended, Keep after that.
func (i *Inventory) Clean(ctx context.Context) error {
	now := i.Now()
	i.mu.RLock()
	var ended []int64
	for number := range i.days {
		if number < dayOf(now.Add(-i.Keep)) {
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
