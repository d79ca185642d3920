// Package inventory records every certificate that the API has answered a request with,
// until after the certificate has ended, and every denial of a request.
//
// The records are in the store of the API, next to its objects:
//
//	PREFIX/inventory.certplane.dev/issuedcertificates/DAY/NAME   one record, as JSON
//	PREFIX/inventory.certplane.dev/packs/DAY/NUMBER              a pack of records
//	PREFIX/inventory.certplane.dev/approvals/UID                 the approval of a request that has no certificate yet
//	PREFIX/inventory.certplane.dev/revocations/NAME              how an ACME client revoked a record's certificate
//	PREFIX/inventory.certplane.dev/revoked/UID                   the certificates that a Revocation revokes; large ones have parts UID-NUMBER
//	PREFIX/inventory.certplane.dev/lists/ID                      the revocation list that a CA has signed last
//
// DAY is the day on which the certificates end or a request was denied. So certificates that
// end soon are stored together, and those that have ended are deleted together. A record is
// written in the transaction that stores the certificate in its request: neither exists
// without the other. Backup, restore, disk encryption and failover cover both.
//
// etcd needs some hundred bytes of memory for each key. So the server moves records into
// packs. In memory it keeps the filters of the packs, which exclude packs that cannot
// contain a record, and the few records that are not in a pack yet. Several servers of one
// store may do so at once, because each move is a transaction.
package inventory

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/process/steadyclock"
	"github.com/certplane/certplane/internal/revocation"
)

// Config configures an Inventory.
type Config struct {
	// Store is the etcd of the API, and Prefix the root of its keys.
	Store  *clientv3.Client
	Prefix string
	// Get returns the value of a key, at least as new as the call; nil if the key does not
	// exist.
	Get func(ctx context.Context, key string) (*mvccpb.KeyValue, error)
	// Keep is how long a record is kept after the end of its certificate, to the next day.
	Keep time.Duration
	// Longest is how long a record is kept at most, from when it was made: requesters choose
	// when certificates end. 0 is no bound.
	Longest time.Duration
	// Now is the present time.
	Now func() time.Time
	// Metrics is where metrics are registered; it can be nil.
	Metrics prometheus.Registerer
}

// Inventory reads the records, and keeps them in order. It is safe for concurrent use.
type Inventory struct {
	Config
	*Index
	*freshness
	metrics *metrics

	root, packs, fresh, approved, revoked, entries string // prefixes of keys, with a slash at the end
	index                                          *revocation.Index
	// Lists are the revocation lists.
	Lists *ListStore

	// revocations are those that are recorded, by the name of the certificate's record.
	revocations revocationNotes
	// changed is closed and replaced with each change.
	changed chan struct{}
	// written is the revision of the last record of this process.
	written int64
	// told is the revision up to which the store has reported all changes. ask makes askProgress
	// ask at once.
	told int64
	ask  chan struct{}
	// revokedTo is the revision up to which index is complete.
	revokedTo int64
	// freshCount and freshBytes are about all days.
	freshCount, freshBytes int
}

func newFresh(kv *mvccpb.KeyValue) (*freshRecord, error) {
	record, err := decodeRecord(kv.Value)
	if err != nil {
		return nil, err
	}
	record.ResourceVersion = strconv.FormatInt(kv.ModRevision, 10)
	return &freshRecord{key: string(kv.Key), record: record, size: len(kv.Value), revision: kv.ModRevision}, nil
}

// New returns an empty inventory, which Run fills.
func New(cfg Config) (*Inventory, error) {
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, err
	}
	fresh := newFreshness(cfg.Now)
	cfg.Now = steadyclock.Of(cfg.Now).Now // deletions cannot be undone
	root, index := path.Join(cfg.Prefix, inventoryv1alpha1.GroupName), revocation.NewIndex()
	i := &Inventory{
		Config: cfg, freshness: fresh, metrics: metrics, root: root + "/", packs: root + "/packs/", fresh: root + "/issuedcertificates/", approved: root + "/approvals/",
		revoked: root + "/revocations/", entries: root + "/revoked/", index: index, Lists: &ListStore{Lists: revocation.NewLists(index), store: cfg.Store, prefix: root + "/lists/"},
		revocations: revocationNotes{}, changed: make(chan struct{}), ask: make(chan struct{}, 1),
	}
	i.Index = &Index{
		now: cfg.Now, keep: cfg.Keep, awaitRead: i.AwaitRead, readPack: i.read, revocationOf: i.RevocationOf, revokedDays: i.revokedDays, metrics: metrics.recordMetrics,
		days: map[int64]*day{},
	}
	return i, i.Lists.show(cfg.Metrics)
}

// dayOf returns the day of a time, counted from 1970 in UTC.
func dayOf(t time.Time) int64 { return t.Unix() / secondsPerDay }

const secondsPerDay = 24 * 60 * 60

func dayText(day int64) string { return fmt.Sprintf("%06d", day) }

// parseKey returns the day and the rest of a key below one of the prefixes.
func parseKey(key, prefix string) (day int64, rest string, ok bool) {
	text, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return 0, "", false
	}
	text, rest, ok = strings.Cut(text, "/")
	if !ok {
		return 0, "", false
	}
	day, err := strconv.ParseInt(text, 10, 64)
	return day, rest, err == nil
}

// Write returns the write that adds a record to the store. It is for a transaction, and
// Wrote is to be called after that.
func (i *Inventory) Write(record *inventoryv1alpha1.IssuedCertificate) (clientv3.Op, error) {
	data, err := json.Marshal(record)
	if err != nil {
		return clientv3.Op{}, fmt.Errorf("encoding the record of a certificate: %w", err)
	}
	return clientv3.OpPut(i.fresh+dayText(dayOfRecord(record))+"/"+record.Name, string(data)), nil
}

// dayOfRecord returns the day of a record: when its certificate ends, or a request was denied.
func dayOfRecord(record *inventoryv1alpha1.IssuedCertificate) int64 {
	if record.Denial != nil {
		return dayOf(record.Denial.Time.Time)
	}
	return dayOf(record.Certificate.NotAfter.Time)
}

// Wrote notes that this process has written a record at a revision: lists that begin
// after that have it.
func (i *Inventory) Wrote(revision int64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.written = max(i.written, revision)
}

// Approve returns the write that stores the approval of a request.
func (i *Inventory) Approve(request types.UID, approval Approval) (clientv3.Op, error) {
	data, err := json.Marshal(approval)
	if err != nil {
		return clientv3.Op{}, fmt.Errorf("encoding the approval: %w", err)
	}
	return clientv3.OpPut(i.approved+string(request), string(data)), nil
}

// Approval returns the approval of a request, nil if none is stored.
func (i *Inventory) Approval(ctx context.Context, request types.UID) (*Approval, error) {
	stored, err := i.Get(ctx, i.approved+string(request))
	if err != nil {
		return nil, fmt.Errorf("reading the approval: %w", err)
	}
	if stored == nil {
		return nil, nil
	}
	approval := &Approval{}
	if err := json.Unmarshal(stored.Value, approval); err != nil {
		return nil, fmt.Errorf("reading the approval: %w", err)
	}
	return approval, nil
}

// Forget returns the write that removes what Approve has written.
func (i *Inventory) Forget(request types.UID) clientv3.Op {
	return clientv3.OpDelete(i.approved + string(request))
}

// apply takes a change of the store into account. i.mu is held.
func (i *Inventory) apply(kind mvccpb.Event_EventType, kv *mvccpb.KeyValue) error {
	key := string(kv.Key)
	if number, name, ok := parseKey(key, i.fresh); ok {
		return i.applyFresh(kind, number, name, kv)
	}
	if name, ok := strings.CutPrefix(key, i.revoked); ok {
		return i.revocations.apply(kind, name, kv)
	}
	if uid, ok := strings.CutPrefix(key, i.entries); ok {
		i.revokedTo = max(i.revokedTo, kv.ModRevision)
		applyEntries(i.index, kind, uid, kv)
		return nil
	}
	if id, ok := strings.CutPrefix(key, i.Lists.prefix); ok {
		i.Lists.apply(kind, id, kv)
		return nil
	}
	number, text, ok := parseKey(key, i.packs)
	if !ok {
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return fmt.Errorf("the key %q is none of the inventory", key)
	}
	d := i.day(number)
	if old, ok := d.packs[n]; ok {
		d.packed, d.denials = d.packed-old.count, d.denials-old.denials
		delete(d.packs, n)
	}
	if kind == mvccpb.DELETE {
		i.tidy(number)
		return nil
	}
	count, f, _, err := decodeHeader(kv.Value)
	if err != nil {
		return fmt.Errorf("reading %s: %w", key, err)
	}
	bill := billOf(kv.Value)
	d.packs[n], d.packed = &packInfo{number: n, key: key, revision: kv.ModRevision, count: count, filter: slices.Clone(f), newest: bill.Newest, omits: bill.Omits, terms: bill.Terms, denials: bill.Denials}, d.packed+count
	d.denials += bill.Denials
	return nil
}

func (i *Inventory) applyFresh(kind mvccpb.Event_EventType, number int64, name string, kv *mvccpb.KeyValue) error {
	d := i.day(number)
	if old, ok := d.fresh[name]; ok {
		i.freshCount, i.freshBytes = i.freshCount-1, i.freshBytes-old.size
		if old.record.Denial != nil {
			d.denials--
		}
		delete(d.fresh, name)
	}
	if kind == mvccpb.DELETE {
		i.tidy(number)
		return nil
	}
	added, err := newFresh(kv)
	if err != nil {
		return fmt.Errorf("reading %s: %w", kv.Key, err)
	}
	d.fresh[name] = added
	if added.record.Denial != nil {
		d.denials++
	}
	i.freshCount, i.freshBytes = i.freshCount+1, i.freshBytes+added.size
	return nil
}

// completeTo notes that days is complete up to a revision. i.mu is held.
func (i *Inventory) completeTo(revision int64) {
	i.seen = max(i.seen, revision)
	i.Lists.revokedTo.Store(i.revokedTo)
	i.toldTo(revision)
}

// toldTo notes that the store has reported all changes up to a revision. i.mu is held.
func (i *Inventory) toldTo(revision int64) {
	i.told = max(i.told, revision)
	close(i.changed)
	i.changed = make(chan struct{})
}

// AwaitRead returns when everything was read once, and the state in memory includes the
// earlier writes of this process.
func (i *Inventory) AwaitRead(ctx context.Context) error {
	i.mu.RLock()
	wanted := max(i.written, 1) // at least something was read
	i.mu.RUnlock()
	return i.awaitRevision(ctx, wanted)
}

// tellTimeout bounds the time in which the store has to tell that a watch has all changes. Then
// the server is not ready either.
const tellTimeout = 10 * time.Second

// AwaitStored returns when everything that any process stored before the call is known. It
// returns an error if the store does not tell that within tellTimeout.
func (i *Inventory) AwaitStored(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	answer, err := i.Store.Get(ctx, i.root, clientv3.WithCountOnly()) // no key: only the revision
	if err != nil {
		return fmt.Errorf("reading the revision of the store: %w", err)
	}
	select {
	case i.ask <- struct{}{}:
	default: // askProgress has yet to ask
	}
	return i.awaitUntil(ctx, func() bool { return i.told >= answer.Header.Revision })
}

// awaitRevision returns when the changes up to a revision of the inventory are known.
func (i *Inventory) awaitRevision(ctx context.Context, revision int64) error {
	return i.awaitUntil(ctx, func() bool { return i.seen >= revision })
}

// awaitUntil returns when something holds. holds is called with i.mu held, after each
// change.
func (i *Inventory) awaitUntil(ctx context.Context, holds func() bool) error {
	for {
		i.mu.RLock()
		held, changed := holds(), i.changed
		i.mu.RUnlock()
		if held {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the inventory to be read: %w", ctx.Err())
		case <-changed:
		}
	}
}

func decodeRecord(data []byte) (*inventoryv1alpha1.IssuedCertificate, error) {
	record := &inventoryv1alpha1.IssuedCertificate{}
	if err := json.Unmarshal(data, record); err != nil {
		return nil, fmt.Errorf("reading the record of a certificate: %w", err)
	}
	if record.Name == "" {
		Complete(record)
	}
	return record, nil
}
