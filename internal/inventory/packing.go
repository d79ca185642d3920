package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"weak"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/fields"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/inventory"
)

const (
	// maxFresh and maxFreshBytes are how much is outside of packs, and in memory.
	maxFresh      = 2048
	maxFreshBytes = 8 << 20
	// conflictPause is the pause after another server has moved the same records.
	conflictPause = 50 * time.Millisecond
)

// packAll packs records until those outside packs are within their bounds.
func (i *Inventory) packAll(ctx context.Context) error {
	for {
		i.mu.RLock()
		number, ok := i.fullest()
		i.mu.RUnlock()
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
	if err := i.AwaitRead(ctx); err != nil {
		return err
	}
	return i.awaitUntil(ctx, func() bool {
		_, more := i.fullest()
		return !more
	})
}

// fullest returns the day whose records are to be packed next, and whether there is one: a
// day whose records fill a pack, or, if there are too many records outside packs, the day
// with the most. The caller holds i.mu.
func (i *Inventory) fullest() (number int64, ok bool) {
	most := 0
	for n, d := range i.days {
		if len(d.fresh) > most {
			number, most = n, len(d.fresh)
		}
	}
	return number, most >= packRecords || most > 0 && (i.freshCount > maxFresh || i.freshBytes > maxFreshBytes)
}

// packing is a move of records into a pack.
type packing struct {
	key string
	// unchanged holds if the pack has not changed since the move was planned.
	unchanged clientv3.Cmp
	// batch are the records that the move takes into the pack.
	batch []*freshRecord
	// records and terms are the contents of the new pack, and size is the number of bytes of
	// its records.
	records [][]byte
	terms   map[term]struct{}
	size    int
	bill    bill
}

// add adds a record to the pack.
func (p *packing) add(record *inventoryv1alpha1.IssuedCertificate, data []byte) {
	p.records, p.size = append(p.records, data), p.size+len(data)
	p.bill.add(record, len(data))
	addTerms(p.terms, record)
}

// addAll adds the records of another pack, except those with some names.
func (p *packing) addAll(of *pack, without map[string]bool) error {
	for _, data := range of.records {
		record, err := decodeRecord(data)
		if err != nil {
			return err
		}
		if !without[record.Name] {
			p.add(record, data)
		}
	}
	return nil
}

// pack returns the pack afterwards.
func (p *packing) pack() *pack {
	return &pack{records: p.records, filter: newFilter(p.terms), bill: p.bill}
}

// hasRoom reports whether one more record fits into the pack.
func (p *packing) hasRoom(record *freshRecord) bool {
	return len(p.records) == 0 || len(p.records) < packRecords && p.size+record.size <= packBytes
}

// packSome moves records of a day into its last pack, or a new one, and returns when
// that is known.
func (i *Inventory) packSome(ctx context.Context, number int64) error {
	p, err := i.plan(ctx, number)
	if err != nil || len(p.batch) == 0 {
		return err
	}
	compares, ops := []clientv3.Cmp{p.unchanged}, []clientv3.Op{}
	if len(p.records) > 0 {
		value, err := p.pack().encode(packVersion)
		if err != nil {
			return fmt.Errorf("packing records: %w", err)
		}
		ops = append(ops, clientv3.OpPut(p.key, string(value)))
	}
	for _, record := range p.batch {
		compares = append(compares, clientv3.Compare(clientv3.ModRevision(record.key), "=", record.revision))
		ops = append(ops, clientv3.OpDelete(record.key))
	}
	answer, err := i.Store.Txn(ctx).If(compares...).Then(ops...).Commit()
	if err != nil {
		return fmt.Errorf("packing records: %w", err)
	}
	if !answer.Succeeded {
		pause(ctx, conflictPause) // another server was first: its change arrives soon
		return nil
	}
	return i.awaitRevision(ctx, answer.Header.Revision)
}

// plan returns the next move for packSome. It takes the oldest records first.
func (i *Inventory) plan(ctx context.Context, number int64) (*packing, error) {
	i.mu.RLock()
	var packs []*packInfo
	var fresh []*freshRecord
	if d := i.days[number]; d != nil {
		packs, fresh = slices.Collect(maps.Values(d.packs)), slices.Collect(maps.Values(d.fresh))
	}
	i.mu.RUnlock()
	if len(fresh) == 0 {
		return &packing{}, nil
	}
	slices.SortFunc(packs, byNumber)
	slices.SortFunc(fresh, func(a, b *freshRecord) int { return int(a.revision - b.revision) })
	p, err := i.open(ctx, number, packs, fresh[0])
	if err != nil {
		return nil, err
	}
	recent := mayRepeat(packs, fresh[:min(packRecords, len(fresh))])
	for _, record := range fresh {
		if len(p.batch) == packRecords || !p.hasRoom(record) {
			break
		}
		p.batch = append(p.batch, record)
		among := recent
		if record.record.Denial != nil { // it has no certificate
			among = packs
		}
		twice, err := i.isPacked(ctx, among, record)
		if err != nil {
			return nil, err
		}
		if twice { // the certificate was put into two requests
			continue
		}
		data, err := json.Marshal(record.record)
		if err != nil {
			return nil, fmt.Errorf("packing records: %w", err)
		}
		p.add(record.record, data)
	}
	return p, nil
}

// open returns a move into the last of the packs of a day, if that has room for a record,
// or into a new one.
func (i *Inventory) open(ctx context.Context, number int64, packs []*packInfo, first *freshRecord) (*packing, error) {
	next := int64(0)
	if len(packs) > 0 {
		last := packs[len(packs)-1]
		next = last.number + 1
		if last.count < packRecords {
			p := &packing{key: last.key, unchanged: clientv3.Compare(clientv3.ModRevision(last.key), "=", last.revision), terms: map[term]struct{}{}}
			stored, err := i.read(ctx, last)
			if err != nil {
				return nil, err
			}
			if err := p.addAll(stored, nil); err != nil {
				return nil, err
			}
			if p.hasRoom(first) {
				return p, nil
			}
		}
	}
	key := fmt.Sprintf("%s%s/%08d", i.packs, dayText(number), next)
	return &packing{key: key, unchanged: clientv3.Compare(clientv3.CreateRevision(key), "=", 0), terms: map[term]struct{}{}}, nil
}

// beginsEarly is how far in the future a certificate may begin when it is recorded, so that
// an earlier record of it is found.
const beginsEarly = time.Hour

// mayRepeat returns the packs that may have records of the same certificates: those with a
// record from after the first of these begins. A day can have thousands of packs, and each
// record is looked up in all that are returned.
func mayRepeat(packs []*packInfo, records []*freshRecord) []*packInfo {
	since := int64(1<<63 - 1)
	for _, f := range records {
		if f.record.Denial == nil {
			since = min(since, f.record.Certificate.NotBefore.Add(-beginsEarly).Unix())
		}
	}
	return slices.DeleteFunc(slices.Clone(packs), func(p *packInfo) bool { return p.newest > 0 && p.newest < since })
}

// isPacked reports whether a record is in one of the packs already.
func (i *Inventory) isPacked(ctx context.Context, packs []*packInfo, record *freshRecord) (bool, error) {
	facts := record.record.Certificate
	terms := (&Query{Fields: fields.AndSelectors(
		fields.OneTermEqualSelector(inventory.NameOfRecord, record.record.Name), fields.OneTermEqualSelector(inventoryv1alpha1.FingerprintField, facts.Fingerprint),
		fields.OneTermEqualSelector(inventoryv1alpha1.SerialField, facts.SerialNumber),
	)}).terms()
	for _, info := range packs {
		if !info.filter.hasAll(terms) {
			continue
		}
		p, err := i.read(ctx, info)
		if err != nil {
			return false, err
		}
		if p.has(record.record.Name) {
			return true, nil
		}
	}
	return false, nil
}

// read returns a pack, which may have changed since info was made. Callers must not change it:
// it is kept until the next garbage collection, because certificates that are looked up one by
// one are often in few packs.
func (i *Inventory) read(ctx context.Context, info *packInfo) (*pack, error) {
	stored, err := i.Get(ctx, info.key)
	if err != nil {
		return nil, fmt.Errorf("reading a pack of the inventory: %w", err)
	}
	if stored == nil {
		return &pack{}, nil // it was deleted in the meantime
	}
	if kept, ok := info.kept.Load().(weak.Pointer[pack]); ok {
		if p := kept.Value(); p != nil && p.revision == stored.ModRevision {
			return p, nil
		}
	}
	p, err := decodePack(stored.Value)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", info.key, err)
	}
	p.revision = stored.ModRevision
	info.kept.Store(weak.Make(p))
	return p, nil
}
