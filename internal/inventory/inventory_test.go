package inventory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/store/etcd"
)

var start = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

// world has a store and the inventories of two servers.
type world struct {
	*testing.T
	store *etcd.Server
	*Inventory
	other *Inventory

	mu  sync.Mutex
	now time.Time
}

func newWorld(t *testing.T) *world {
	store, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	w := &world{T: t, store: store, now: start}
	w.Inventory, w.other = w.open(), w.open()
	return w
}

// open returns the inventory of another server.
func (w *world) open() *Inventory { return w.openWith(func(*clientv3.Client) {}) }

// openWith is open with changes of the server's client.
func (w *world) openWith(change func(*clientv3.Client)) *Inventory {
	client := w.store.Connect()
	change(client)
	ctx, cancel := context.WithCancel(context.Background())
	i, err := New(Config{
		Store: client, Prefix: "/registry", Keep: 48 * time.Hour,
		Now: func() time.Time {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.now
		},
		Get: w.store.Get,
	})
	if err != nil {
		w.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		i.Run(ctx)
	}()
	w.Cleanup(func() {
		cancel()
		<-ended
		client.Close()
	})
	return i
}

// record returns the n-th record, of a certificate that ends some days after start.
func record(n, days int) *inventoryv1alpha1.IssuedCertificate {
	digest := sha256.Sum256(fmt.Append(nil, n))
	r := &inventoryv1alpha1.IssuedCertificate{
		SignerName: "example.com/hosts",
		Certificate: inventoryv1alpha1.CertificateFacts{
			SerialNumber: fmt.Sprintf("abc%x", n), Fingerprint: hex.EncodeToString(digest[:]), DNSNames: []string{fmt.Sprintf("Host-%d.example.com", n)},
			NotBefore: metav1.NewTime(start), NotAfter: metav1.NewTime(start.AddDate(0, 0, days)),
		},
		Request: inventoryv1alpha1.RequestFacts{Kind: "CertificateSigningRequest", Name: fmt.Sprint("request-", n), Requester: "alice"},
	}
	r.Labels = map[string]string{"team": fmt.Sprint("team-", n%7)}
	Complete(r)
	return r
}

func (w *world) write(records ...*inventoryv1alpha1.IssuedCertificate) {
	w.Helper()
	for _, r := range records {
		op, err := w.Write(r)
		if err != nil {
			w.Fatal(err)
		}
		answer, err := w.Store.Txn(w.Context()).Then(op).Commit()
		if err != nil {
			w.Fatal(err)
		}
		w.Wrote(answer.Header.Revision)
	}
}

func find(t *testing.T, i *Inventory, q Query) []string {
	t.Helper()
	var names []string
	if q.Limit == 0 {
		q.Limit = 1000
	}
	for {
		page, err := i.Find(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) > q.Limit {
			t.Errorf("a page has %d records, more than %d", len(page.Items), q.Limit)
		}
		for _, item := range page.Items {
			names = append(names, item.Request.Name)
		}
		if q.Continue = page.Continue; q.Continue == "" {
			return names
		}
	}
}

func byField(field, value string) Query {
	return Query{Fields: fields.OneTermEqualSelector(field, value)}
}

// packed returns how many records are in packs and outside of them.
func (w *world) packed(i *Inventory) (packed, fresh int) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for _, d := range i.days {
		fresh += len(d.fresh)
		for _, p := range d.packs {
			packed += p.count
		}
	}
	return packed, fresh
}

// until waits for changes of an inventory until ok.
func until(t *testing.T, i *Inventory, what string, ok func() bool) {
	t.Helper()
	limit := time.After(30 * time.Second)
	for {
		i.mu.RLock()
		changed := i.changed
		i.mu.RUnlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("timed out: %s", what)
		}
	}
}

// All records are found once, at any time, by both servers, while they move them.
func TestFindsAllWhilePacking(t *testing.T) {
	w := newWorld(t)
	const count = 6 * packRecords
	for n := range count {
		w.write(record(n, 1+n%3))
		if n%100 == 0 {
			if got := find(t, w.Inventory, Query{Limit: 7}); len(got) != n+1 || len(slices.Compact(slices.Sorted(slices.Values(got)))) != n+1 {
				t.Fatalf("found %d of %d records", len(got), n+1)
			}
		}
	}
	until(t, w.Inventory, "all are packed", func() bool {
		packed, _ := w.packed(w.Inventory)
		return packed >= count-3*packRecords
	})
	for name, i := range map[string]*Inventory{"the first": w.Inventory, "the other": w.other, "a new one": w.open()} {
		until(t, i, name+" knows all", func() bool {
			packed, fresh := w.packed(i)
			return packed+fresh == count
		})
		got := find(t, i, Query{Limit: 50})
		if slices.Sort(got); len(slices.Compact(got)) != count {
			t.Errorf("%s finds %d of %d", name, len(got), count)
		}
		for _, tc := range []struct {
			reason string
			query  Query
			want   int
		}{
			{"a serial number", byField(inventoryv1alpha1.SerialField, "abc11"), 1},
			{"a fingerprint", byField(inventoryv1alpha1.FingerprintField, record(5, 1).Certificate.Fingerprint), 1},
			{"a name", byField(inventoryv1alpha1.NameField, "host-300.example.com"), 1},
			{"a name of nobody", byField(inventoryv1alpha1.NameField, "host-300000.example.com"), 0},
			{"all of a requester", byField(inventoryv1alpha1.RequesterField, "alice"), count},
			{"not of a requester", Query{Fields: fields.OneTermNotEqualSelector(inventoryv1alpha1.RequesterField, "alice")}, 0},
			{"a label", Query{Labels: selector(t, "team=team-3")}, (count + 3) / 7},
			{"those that end soon", Query{Labels: selector(t, fmt.Sprintf("%s<%d", inventoryv1alpha1.NotAfterLabel, start.AddDate(0, 0, 1).Unix()+1))}, count / 3},
			{"those that end late", Query{Labels: selector(t, fmt.Sprintf("%s>%d", inventoryv1alpha1.NotAfterLabel, start.AddDate(0, 0, 2).Unix()))}, count / 3},
		} {
			if got := find(t, i, tc.query); len(got) != tc.want {
				t.Errorf("%s finds %d of %s, want %d", name, len(got), tc.reason, tc.want)
			}
		}
	}
	if got := find(t, w.Inventory, Query{}); !slices.IsSortedFunc(got, func(a, b string) int { return dayIn(a) - dayIn(b) }) {
		t.Error("those that end first are not in front")
	}
}

func dayIn(request string) int {
	n := 0
	fmt.Sscanf(request, "request-%d", &n)
	return n % 3
}

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A certificate that is recorded again after it was packed is found once.
func TestRecordedTwice(t *testing.T) {
	w := newWorld(t)
	const half = 2 * packRecords
	issued := func(n int) *inventoryv1alpha1.IssuedCertificate {
		r := record(n, 1)
		r.CreationTimestamp = metav1.NewTime(start)
		return r
	}
	for n := range half {
		w.write(issued(n))
	}
	until(t, w.Inventory, "the first are packed", func() bool { packed, _ := w.packed(w.Inventory); return packed == half })
	w.write(issued(5))
	for n := range half {
		w.write(issued(half + n))
	}
	until(t, w.Inventory, "the second record has gone", func() bool {
		packed, fresh := w.packed(w.Inventory)
		return packed+fresh == 2*half
	})
	if got := find(t, w.Inventory, byField(inventoryv1alpha1.SerialField, "abc5")); len(got) != 1 {
		t.Errorf("found %d times", len(got))
	}
}

// A record is looked up only in packs that may have another one of its certificate.
func TestMayRepeat(t *testing.T) {
	of := func(newest time.Time) *packInfo { return &packInfo{newest: newest.Unix()} }
	unknown, before, during, after := &packInfo{}, of(start.Add(-2*time.Hour)), of(start.Add(-time.Minute)), of(start.Add(time.Hour))
	got := mayRepeat([]*packInfo{unknown, before, during, after}, []*freshRecord{{record: record(1, 1)}, {record: &inventoryv1alpha1.IssuedCertificate{Denial: &inventoryv1alpha1.DenialFacts{}}}})
	if !slices.Equal(got, []*packInfo{unknown, during, after}) {
		t.Errorf("%d packs", len(got))
	}
}

// Those who watch are told of each record once, and of its end.
func TestWatchAndClean(t *testing.T) {
	w := newWorld(t)
	const count = 2*packRecords + 10
	page, err := w.Find(t.Context(), &Query{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	added, deleted := map[string]int{}, map[string]int{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() {
		done <- w.other.Watch(ctx, page.Revision, func(e Event) bool {
			if e.Deleted {
				deleted[e.Record.Name]++
			} else {
				added[e.Record.Name]++
			}
			return len(deleted) < count
		})
	}()
	for n := range count {
		w.write(record(n, 1))
	}
	w.write(record(count, 30))
	if err := w.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := find(t, w.Inventory, Query{}); len(got) != count+1 {
		t.Errorf("%d are left before any has ended, want %d", len(got), count+1)
	}
	w.mu.Lock()
	w.now = start.AddDate(0, 0, 4)
	w.mu.Unlock()
	if err := w.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the watch was not told of all")
	}
	if len(added) != count+1 || len(deleted) != count {
		t.Errorf("told of %d new and %d deleted records, want %d and %d", len(added), len(deleted), count+1, count)
	}
	until(t, w.Inventory, "one is left", func() bool { packed, fresh := w.packed(w.Inventory); return packed+fresh == 1 })
	w.count()
	for span, want := range map[string]float64{"ended": 0, "1d": 0, "7d": 0, "30d": 1, "later": 0} {
		if got := testutil.ToFloat64(w.metrics.certificates.WithLabelValues(span)); got != want {
			t.Errorf("%v certificates end within %s, want %v", got, span, want)
		}
	}
}

// Approvals are kept until the certificate is issued, at most for a while.
func TestApprovals(t *testing.T) {
	w := newWorld(t)
	op, err := w.Approve("uid", Approval{Approver: "bob", Time: metav1.NewTime(start)})
	if err != nil {
		t.Fatal(err)
	}
	commit := func(op clientv3.Op) {
		t.Helper()
		if _, err := w.Store.Txn(t.Context()).Then(op).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	commit(op)
	want := func(known bool) {
		t.Helper()
		got, err := w.Approval(t.Context(), "uid")
		if err != nil || (got != nil) != known || known && got.Approver != "bob" {
			t.Errorf("the approval is %v, %v", got, err)
		}
	}
	want(true)
	if err := w.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(true)
	commit(w.Forget("uid"))
	want(false)
	commit(op)
	w.mu.Lock()
	w.now = start.AddDate(0, 2, 0)
	w.mu.Unlock()
	if err := w.Clean(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(false)
}

// A list begins only when what this server has written before is known.
func TestFindAwaitsOwnRecords(t *testing.T) {
	w := newWorld(t)
	i, err := New(w.Config) // it does not follow changes
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.readAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Find(ended, &Query{Limit: 1}); err != nil {
		t.Errorf("nothing was written: %v", err)
	}
	w.write(record(1, 1))
	i.Wrote(w.written)
	if _, err := i.Find(ended, &Query{Limit: 1}); !errors.Is(err, context.Canceled) {
		t.Errorf("the list did not wait for its record: %v", err)
	}
}

// Names in packs are found as they are compared: without case, whatever is in them.
func TestFindsNamesInPacks(t *testing.T) {
	w := newWorld(t)
	names := []string{"Mixed.Example.COM", "ümlaut.example", "<b>&\\\"quoted\\\"", "spiffe://example.org/Web+1", "\u212Aelvin.example"}
	for n := range packRecords {
		r := record(n, 1)
		if n < len(names) {
			r.Certificate.CommonName = names[n]
		}
		w.write(r)
	}
	until(t, w.Inventory, "all are packed", func() bool { packed, _ := w.packed(w.Inventory); return packed == packRecords })
	for n, name := range names {
		if got := find(t, w.Inventory, byField(inventoryv1alpha1.NameField, strings.ToLower(name))); !slices.Equal(got, []string{record(n, 1).Request.Name}) {
			t.Errorf("%s: found %v", name, got)
		}
	}
}

// A record that is packed while a list is made is in the list once.
func TestPackedMeanwhile(t *testing.T) {
	w := newWorld(t)
	for n := range packRecords {
		w.write(record(n, 1))
	}
	until(t, w.Inventory, "all are packed", func() bool { packed, _ := w.packed(w.Inventory); return packed == packRecords })
	packs := w.days[dayOf(start.AddDate(0, 0, 1))].packs
	if len(packs) != 1 {
		t.Fatalf("there are %d packs", len(packs))
	}
	before := record(5, 1)
	fresh := map[string]*inventoryv1alpha1.IssuedCertificate{before.Name: before}
	s := &scan{Query: &Query{Limit: 1000}, at: position{Pack: -1}, budget: maxRead}
	if err := w.scanPack(t.Context(), s, packs[0], fresh); err != nil {
		t.Fatal(err)
	}
	if len(s.items) != packRecords || len(fresh) != 0 {
		t.Errorf("%d records were found in the pack, and %d besides", len(s.items), len(fresh))
	}
}

// A pack is decoded once while it is in use, and again when it has changed.
func TestReadAgain(t *testing.T) {
	w := newWorld(t)
	for n := range packRecords {
		w.write(record(n, 1))
	}
	until(t, w.Inventory, "all are packed", func() bool { packed, _ := w.packed(w.Inventory); return packed == packRecords })
	info := w.days[dayOf(start.AddDate(0, 0, 1))].packs[0]
	read := func() *pack {
		p, err := w.read(t.Context(), info)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := read()
	if read() != first {
		t.Error("an unchanged pack was decoded twice")
	}
	w.repack(map[term]struct{}{anyName: {}}, bill{Bytes: 1})
	if read() == first {
		t.Error("the former pack was returned after a change")
	}
	runtime.KeepAlive(first)
}

func TestContinueOfOthers(t *testing.T) {
	w := newWorld(t)
	if _, err := w.Find(t.Context(), &Query{Limit: 1, Continue: "?"}); !errors.Is(err, ErrContinue) {
		t.Errorf("error %v", err)
	}
}

func FuzzDecodePack(f *testing.F) {
	records := [][]byte{[]byte(`{"a":1}`), []byte(`{}`)}
	for _, version := range []byte{packVersion, shortVersion} {
		valid, err := (&pack{records: records, filter: filter{1, 2}}).encode(version)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(valid)
		f.Add(valid[:len(valid)-3])
	}
	f.Add([]byte{packVersion, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := decodePack(data)
		if err != nil {
			return
		}
		again, err := p.encode(packVersion)
		if err != nil {
			t.Fatal(err)
		}
		if q, err := decodePack(again); err != nil || len(q.records) != len(p.records) {
			t.Errorf("%v: %d records, want %d", err, len(q.records), len(p.records))
		}
	})
}
