package inventory

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
)

// paidBy returns a record for which a tenant pays.
func paidBy(n, days int, payer string) *inventoryv1alpha1.IssuedCertificate {
	r := record(n, days)
	r.CreationTimestamp = metav1.NewTime(start)
	Charge(r, payer)
	return r
}

// payers returns what is paid for in the store, and the size of all that is stored.
func (w *world) payers() (paid map[string]int64, size int64) {
	w.Helper()
	answer, err := w.Store.Get(w.Context(), w.root, clientv3.WithPrefix())
	if err != nil {
		w.Fatal(err)
	}
	paid = map[string]int64{}
	for _, kv := range answer.Kvs {
		size += int64(len(kv.Value))
		for payer, bytes := range Payers(kv.Value) {
			paid[payer] += bytes
		}
	}
	return paid, size
}

// Who pays for a record pays for its part of the pack that it moves into.
func TestPayersOfPacks(t *testing.T) {
	w := newWorld(t)
	var records []*inventoryv1alpha1.IssuedCertificate
	for n := range packRecords {
		records = append(records, paidBy(n, 30, []string{"namespace/a", "namespace/a", "user/bob", ""}[n%4]))
	}
	w.write(records[:4]...)
	paid, size := w.payers()
	if alone := paid["namespace/a"] + paid["user/bob"]; len(paid) != 2 || alone < size/2 || alone > size*7/8 {
		t.Errorf("in no pack: %v pay for %d bytes", paid, size)
	}
	w.write(records[4:]...)
	if err := w.AwaitPacked(t.Context()); err != nil {
		t.Fatal(err)
	}
	paid, size = w.payers()
	if len(paid) != 2 || paid["namespace/a"] < size*4/10 || paid["namespace/a"] > size*6/10 || paid["user/bob"] < size/5 || paid["user/bob"] > size*3/10 {
		t.Errorf("in a pack: %v pay for %d bytes, want a half and a quarter of them", paid, size)
	}
}

// A pack of a version without bills can be read, and nobody pays for it.
func TestPacksWithoutBills(t *testing.T) {
	p := &packing{terms: map[term]struct{}{}}
	p.add(record(1, 1), []byte(`{"metadata":{"name":"a"}}`))
	whole, err := p.pack().encode(packVersion)
	if err != nil {
		t.Fatal(err)
	}
	bill, err := p.bill.encode()
	if err != nil {
		t.Fatal(err)
	}
	for reason, data := range map[string][]byte{"with": whole, "without": whole[:len(whole)-len(bill)]} {
		read, err := decodePack(data)
		if err != nil || len(read.records) != 1 || len(Payers(data)) != 0 {
			t.Errorf("%s a bill: %v, %v", reason, read, err)
		}
	}
}

// Labels say who pays, if the name fits.
func TestPayerLabels(t *testing.T) {
	for payer, want := range map[string]string{
		"namespace/shop": "namespace.shop", "user/alice": "user.alice", "node/system:node:edge-1": "node.system_node_edge-1", "user/al ice": "", "": "",
	} {
		r := record(1, 1)
		if Charge(r, payer); r.Labels[inventoryv1alpha1.ChargedLabel] != want || payerOf(r) != payer {
			t.Errorf("%q pays: label %q, annotation %q", payer, r.Labels[inventoryv1alpha1.ChargedLabel], payerOf(r))
		}
	}
}

// Deleted records are not found any more, in packs and outside of them, on all servers, and
// who watches is told. All others stay.
func TestDelete(t *testing.T) {
	w := newWorld(t)
	for n := range packRecords + 20 {
		w.write(paidBy(n, 30+n%2, []string{"namespace/a", "namespace/b"}[n%2]))
	}
	w.write(paidBy(1000, 40, "namespace/a"))
	all := find(t, w.Inventory, Query{})
	page, err := w.Find(t.Context(), &Query{Limit: 1000, Labels: labels.SelectorFromSet(labels.Set{inventoryv1alpha1.ChargedLabel: "namespace.a"})})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan []string, 1)
	ready := page.Revision
	go func() {
		var names []string
		_ = w.other.Watch(t.Context(), ready, func(e Event) bool {
			if e.Deleted {
				names = append(names, e.Record.Request.Name)
			}
			return len(names) < len(page.Items)
		})
		told <- names
	}()
	deleted, err := w.Delete(t.Context(), page.Items)
	if want := packRecords/2 + 11; err != nil || deleted != want {
		t.Fatalf("%d are deleted, want %d: %v", deleted, want, err)
	}
	left := find(t, w.Inventory, Query{})
	if len(left) != len(all)-deleted || len(find(t, w.Inventory, Query{Fields: fields.OneTermEqualSelector("metadata.name", page.Items[0].Name)})) != 0 {
		t.Errorf("%d of %d records are left", len(left), len(all))
	}
	names := <-told
	for _, item := range page.Items {
		if !slices.Contains(names, item.Request.Name) || slices.Contains(left, item.Request.Name) {
			t.Errorf("%s: told %v", item.Request.Name, names)
		}
	}
	if deleted, err := w.Delete(t.Context(), page.Items); err != nil || deleted != 0 {
		t.Errorf("%d are deleted again: %v", deleted, err)
	}
	if paid, _ := w.payers(); paid["namespace/a"] != 0 || paid["namespace/b"] == 0 {
		t.Errorf("%v pay", paid)
	}
	if diff := cmp.Diff(left, find(t, w.open(), Query{})); diff != "" {
		t.Errorf("after a start (-before +after):\n%s", diff)
	}
}

// A requester does not choose how long a record is kept: however late its certificate ends,
// it is deleted some years after it was made.
func TestLongest(t *testing.T) {
	w := newWorld(t)
	w.Longest = 10 * 365 * 24 * time.Hour
	for n := range 3 {
		w.write(paidBy(n, 100*365+n%2, "namespace/a"))
	}
	later := paidBy(3, 100*365, "namespace/a")
	later.CreationTimestamp = metav1.NewTime(start.AddDate(5, 0, 0))
	w.write(later)
	find(t, w.Inventory, Query{})
	for _, tt := range []struct{ years, want int }{{9, 4}, {11, 3}, {16, 0}} { // later is in a pack with two others
		w.mu.Lock()
		w.now = start.AddDate(tt.years, 0, 0)
		w.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		for range 2 { // the first time, records are put into packs
			if err := w.Clean(ctx); err != nil {
				t.Fatal(err)
			}
		}
		err := w.awaitUntil(ctx, func() bool {
			left := 0
			for _, d := range w.days {
				left += len(d.fresh) + d.packed
			}
			return left == tt.want
		})
		if cancel(); err != nil {
			t.Errorf("after %d years there are not %d records: %v, %v", tt.years, tt.want, find(t, w.Inventory, Query{}), err)
		}
	}
}
