package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// Record is a record of an issued certificate, PolicyFacts name a policy in one.
type (
	Record      = inventoryv1alpha1.IssuedCertificate
	PolicyFacts = inventoryv1alpha1.PolicyFacts
)

// Pack adds records to a pack, nil for a new one, until it is full, and returns the rest. It
// skips records that the pack has.
func Pack(value []byte, records []*Record) (packed []byte, rest []*Record, err error) {
	p := &packing{terms: map[term]struct{}{}}
	stored := &pack{}
	if len(value) > 0 {
		if stored, err = decodePack(value); err != nil {
			return nil, nil, err
		}
	}
	for _, data := range stored.records {
		record, err := decodeRecord(data)
		if err != nil {
			return nil, nil, err
		}
		p.add(record, data)
	}
	for n, record := range records {
		if stored.has(record.Name) {
			continue
		}
		data, err := json.Marshal(record)
		if err != nil {
			return nil, nil, fmt.Errorf("encoding the record of a certificate: %w", err)
		}
		if !p.hasRoom(&freshRecord{size: len(data)}) {
			rest = records[n:]
			break
		}
		p.add(record, data)
	}
	packed, err = p.pack().encode()
	return packed, rest, err
}

// Unpack returns the records of a pack.
func Unpack(value []byte) ([]*Record, error) {
	p, err := decodePack(value)
	if err != nil {
		return nil, err
	}
	records := make([]*Record, len(p.records))
	for n, data := range p.records {
		if records[n], err = decodeRecord(data); err != nil {
			return nil, err
		}
	}
	return records, nil
}

// Split divides a pack into its head, from which Index.SetPack tells what it cannot have, and
// its records. Join reverses that.
func Split(value []byte) (head, body []byte, err error) {
	_, _, rest, err := decodeHeader(value)
	if err != nil {
		return nil, nil, err
	}
	at, end := len(value)-len(rest), len(value)-billSize(value)
	return slices.Concat(value[:at], value[end:]), value[at:end], nil
}

// Join returns the pack of which Split has made two parts.
func Join(head, body []byte) ([]byte, error) {
	_, _, bill, err := decodeHeader(head)
	if err != nil {
		return nil, err
	}
	return slices.Concat(head[:len(head)-len(bill)], body, bill), nil
}

// IndexConfig configures an Index of packs that are stored in several places.
type IndexConfig struct {
	// Get returns a stored pack by its key; nil if it does not exist.
	Get func(ctx context.Context, key string) ([]byte, error)
	// AwaitRead returns once all packs were added; nil means that they are.
	AwaitRead func(context.Context) error
	// Keep is how long a record is kept after the end of its certificate.
	Keep time.Duration
	Now  func() time.Time
	// Tolerate returns the error about a pack that cannot be read, or nil: the pack then has no
	// records.
	Tolerate func(error) error
	Metrics  prometheus.Registerer // can be nil
}

// NewIndex returns an empty index, which the methods of this file fill.
func NewIndex(cfg IndexConfig) (*Index, error) {
	metrics, err := newRecordMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	if cfg.AwaitRead == nil {
		cfg.AwaitRead = func(context.Context) error { return nil }
	}
	return &Index{
		now: cfg.Now, keep: cfg.Keep, awaitRead: cfg.AwaitRead, metrics: metrics, days: map[int64]*day{},
		readPack: func(ctx context.Context, info *packInfo) (*pack, error) {
			if kept, ok := info.kept.Load().(weak.Pointer[pack]); ok && kept.Value() != nil {
				return kept.Value(), nil
			}
			value, err := cfg.Get(ctx, info.key)
			if err != nil || value == nil {
				return &pack{}, err
			}
			p, err := decodePack(value)
			if err != nil {
				return &pack{}, cfg.Tolerate(fmt.Errorf("reading %s: %w", info.key, err))
			}
			info.kept.Store(weak.Make(p))
			return p, nil
		},
		revocationOf: func(string) *inventoryv1alpha1.RevocationFacts { return nil },
		revokedDays:  func() map[int64]bool { return nil },
	}, nil
}

// SetPack adds a pack of a day, or replaces it, by its head.
func (x *Index) SetPack(key string, number, n int64, head []byte) error {
	count, f, _, err := decodeHeader(head)
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	bill := billOf(head)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removePack(number, n)
	d := x.day(number)
	d.packs[n] = &packInfo{number: n, key: key, count: count, filter: slices.Clone(f), newest: bill.Newest, omits: bill.Omits, terms: bill.Terms}
	d.packed += count
	return nil
}

// RemovePack removes a pack of a day.
func (x *Index) RemovePack(number, n int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.removePack(number, n)
	if x.days[number] != nil {
		x.tidy(number)
	}
}

func (x *Index) removePack(number, n int64) {
	if d := x.days[number]; d != nil && d.packs[n] != nil {
		d.packed -= d.packs[n].count
		delete(d.packs, n)
	}
}

// Add adds records outside packs.
func (x *Index) Add(records ...*Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, record := range records {
		x.seen++
		x.day(dayOfRecord(record)).fresh[record.Name] = &freshRecord{record: record, revision: x.seen}
	}
}

// Drop removes records outside packs.
func (x *Index) Drop(records ...*Record) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, record := range records {
		if number := DayOf(record); x.days[number] != nil {
			delete(x.days[number].fresh, record.Name)
			x.tidy(number)
		}
	}
}

// Mark returns a point in time for Take.
func (x *Index) Mark() int64 {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.seen
}

// Take replaces the content with that of another index, but keeps the records that were added
// after the mark. The other one must not be used any more.
func (x *Index) Take(other *Index, mark int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range other.days {
		for _, f := range d.fresh {
			f.revision = 0
		}
	}
	for number, d := range x.days {
		for name, f := range d.fresh {
			if f.revision > mark {
				other.day(number).fresh[name] = f
			}
		}
	}
	x.days = other.days
}

// DayOf returns the day of a record, counted from 1970 in UTC: when its certificate ends.
func DayOf(record *Record) int64 { return dayOfRecord(record) }

// Today returns the present day.
func (x *Index) Today() int64 { return dayOf(x.now()) }

// FirstKept returns the first day whose records are kept.
func (x *Index) FirstKept() int64 { return dayOf(x.now().Add(-x.keep)) }

// Outside returns how many records are outside packs, and the first of their days.
func (x *Index) Outside() (count int, first int64) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	first = 1<<63 - 1
	for number, d := range x.days {
		if len(d.fresh) > 0 {
			count, first = count+len(d.fresh), min(first, number)
		}
	}
	return count, first
}

// LastPack returns the key of the last pack of a day, and whether it has room.
func (x *Index) LastPack(number int64) (key string, room bool) {
	packs, _ := x.on(number)
	if len(packs) == 0 {
		return "", false
	}
	last := slices.MaxFunc(packs, byNumber)
	return last.key, last.count < packRecords
}

// WithoutPacked returns the records of a day that are in none of its packs.
func (x *Index) WithoutPacked(ctx context.Context, number int64, records []*Record) ([]*Record, error) {
	named := map[string]*Record{}
	for _, record := range records {
		named[record.Name] = record
	}
	packs, _ := x.on(number)
	if err := removePacked(ctx, x, packs, named); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(records), func(r *Record) bool { return named[r.Name] == nil }), nil
}

// ShowMetrics sets the metrics of the index until ctx ends; renewals are counted now and then.
func (x *Index) ShowMetrics(ctx context.Context) {
	go x.keepUnrenewed(ctx)
	for ctx.Err() == nil {
		x.count()
		pause(ctx, showEvery)
	}
}

// showEvery is the interval at which ShowMetrics counts records.
const showEvery = 10 * time.Second
