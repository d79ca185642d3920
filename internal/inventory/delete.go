package inventory

import (
	"context"
	"fmt"
	"maps"
	"slices"

	clientv3 "go.etcd.io/etcd/client/v3"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
)

// Delete deletes records that Find has found. It returns how many there still were, once
// the searches of this process do not find them any more.
func (i *Inventory) Delete(ctx context.Context, records []inventoryv1alpha1.IssuedCertificate) (deleted int, err error) {
	of := map[int64]map[string]bool{}
	for n := range records {
		number := dayOfRecord(&records[n])
		if of[number] == nil {
			of[number] = map[string]bool{}
		}
		of[number][records[n].Name] = true
	}
	for _, number := range slices.Sorted(maps.Keys(of)) {
		n, err := i.deleteOn(ctx, number, of[number])
		if deleted += n; err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

// deleteOn deletes the records of a day that have one of the names.
func (i *Inventory) deleteOn(ctx context.Context, number int64, names map[string]bool) (deleted int, err error) {
	err = i.packWhile(ctx, number, func(d *day) bool {
		return slices.ContainsFunc(slices.Collect(maps.Keys(d.fresh)), func(name string) bool { return names[name] })
	})
	if err != nil {
		return 0, err
	}
	i.mu.RLock()
	var packs []*packInfo
	if d := i.days[number]; d != nil {
		packs = slices.SortedFunc(maps.Values(d.packs), byNumber)
	}
	i.mu.RUnlock()
	for _, info := range packs {
		if !mayHaveOne(info.filter, names) {
			continue
		}
		n, err := i.deleteFrom(ctx, info.key, names)
		if deleted += n; err != nil {
			return deleted, err
		}
	}
	return deleted, nil
}

func mayHaveOne(f filter, names map[string]bool) bool {
	for name := range names {
		if f.has(newTerm(inventory.NameOfRecord, name)) {
			return true
		}
	}
	return false
}

// deleteFrom rewrites a pack without the records of the given names. It tries again if
// another server changes the pack at the same time.
func (i *Inventory) deleteFrom(ctx context.Context, key string, names map[string]bool) (deleted int, err error) {
	for ctx.Err() == nil {
		stored, err := i.Get(ctx, key)
		if err != nil {
			return 0, fmt.Errorf("reading a pack of the inventory: %w", err)
		}
		if stored == nil {
			return 0, nil
		}
		kept, deleted, err := without(stored.Value, names)
		if err != nil {
			return 0, fmt.Errorf("reading %s: %w", key, err)
		}
		if deleted == 0 {
			return 0, nil
		}
		write := clientv3.OpDelete(key)
		if len(kept.records) > 0 {
			value, err := kept.encode(packVersion)
			if err != nil {
				return 0, fmt.Errorf("packing records: %w", err)
			}
			write = clientv3.OpPut(key, string(value))
		}
		answer, err := i.Store.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", stored.ModRevision)).Then(write).Commit()
		if err != nil {
			return 0, fmt.Errorf("deleting records: %w", err)
		}
		if answer.Succeeded {
			return deleted, i.awaitRevision(ctx, answer.Header.Revision)
		}
		pause(ctx, conflictPause)
	}
	return 0, fmt.Errorf("deleting records: %w", ctx.Err())
}

// without returns the rest of a pack after removing the records of the given names.
func without(value []byte, names map[string]bool) (kept *pack, deleted int, err error) {
	stored, err := decodePack(value)
	if err != nil {
		return nil, 0, err
	}
	p := &packing{terms: map[term]struct{}{}}
	if err := p.addAll(stored, names); err != nil {
		return nil, 0, err
	}
	return p.pack(), len(stored.records) - len(p.records), nil
}
