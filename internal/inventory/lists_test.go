package inventory

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"math/big"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// sign signs a list that covers everything of which i knows.
func (w *world) sign(i *Inventory, ca *pki.Authority, number int64) (id string, list *revocation.StoredList, der []byte) {
	w.Helper()
	list = &revocation.StoredList{
		Chain: [][]byte{ca.Certificate().Raw}, Number: number, ThisUpdate: start, NextUpdate: start.AddDate(0, 0, 7), Covers: i.Lists.RevokedTo(), EndedBefore: start,
	}
	linted, err := list.Lint(ca.Lists(), i.Revoked(), 0)
	if err != nil {
		w.Fatal(err)
	}
	der, err = linted.Sign(w.Context(), rand.Reader, func(context.Context, pki.SignedList) error { return nil })
	if err != nil {
		w.Fatal(err)
	}
	if err := list.Seal(der, false); err != nil {
		w.Fatal(err)
	}
	return revocation.ListID(ca.Certificate()), list, der
}

func (w *world) revoke(uid types.UID, ca *pki.Authority, serial int64) {
	w.Helper()
	act, err := w.WriteEntries(revocation.Act{UID: uid}, []revocation.Entry{{
		Authority: ca.Certificate().SubjectKeyId, Serial: big.NewInt(serial).Bytes(), NotAfter: start.AddDate(1, 0, 0), Time: start,
	}})
	if err != nil {
		w.Fatal(err)
	}
	answer, err := w.Store.Txn(w.Context()).Then(act).Commit()
	if err != nil {
		w.Fatal(err)
	}
	for _, i := range []*Inventory{w.Inventory, w.other} {
		w.until(func() bool { return i.Lists.RevokedTo() >= answer.Header.Revision })
	}
}

// Those who watch are told of the certificates of an act when it has effect: its parts, which
// are stored before, have none.
func TestWatchParts(t *testing.T) {
	w := newWorld(t)
	page, err := w.Find(t.Context(), &Query{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	entries := func(n byte) []revocation.Entry {
		return []revocation.Entry{{
			Authority: []byte("authority"), Serial: []byte{n}, Fingerprints: [2]revocation.Digest{{n}}, NotAfter: start.AddDate(1, 0, 0), Time: start,
		}}
	}
	for _, part := range []struct {
		act   revocation.Act
		entry byte
	}{{revocation.Act{UID: "act-1", Of: "act"}, 1}, {revocation.Act{UID: "other-1", Of: "other"}, 2}, {revocation.Act{UID: "act"}, 3}} {
		write, err := w.WriteEntries(part.act, entries(part.entry))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Store.Txn(t.Context()).Then(write).Commit(); err != nil {
			t.Fatal(err)
		}
	}
	var told []string
	err = w.other.Watch(t.Context(), page.Revision, func(e Event) bool {
		told = append(told, e.Record.Name[:2])
		if err := w.other.AwaitRead(t.Context()); err != nil || w.other.RevocationOf(e.Record.Name) == nil {
			t.Errorf("%s is not revoked, %v", e.Record.Name, err)
		}
		return len(told) < 2
	})
	if err != nil || !slices.Equal(told, []string{"03", "01"}) {
		t.Errorf("told of %v, %v", told, err)
	}
}

func (w *world) until(holds func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatal("it did not happen")
		}
	}
}

// A list is signed once: the other server, and one that starts later, build its bytes. Of two
// servers that sign at once, one fails.
func TestLists(t *testing.T) {
	w := newWorld(t)
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "CA", key, 10*365*24*time.Hour, start.AddDate(0, -1, 0))
	if err != nil {
		t.Fatal(err)
	}
	w.revoke("first", ca, 1)
	w.revoke("second", ca, 2)
	id, list, der := w.sign(w.Inventory, ca, 10)
	if err := w.Lists.Put(t.Context(), id, list, der, 0); err != nil {
		t.Fatal(err)
	}
	_, late, lateDER := w.sign(w.other, ca, 10)
	if err := w.other.Lists.Put(t.Context(), id, late, lateDER, 0); !errors.Is(err, ErrListConflict) {
		t.Errorf("a second list of the same number: %v", err)
	}
	serves := func(i *Inventory, want []byte) {
		t.Helper()
		w.until(func() bool {
			got := i.Lists.Get(id)
			return got != nil && bytes.Equal(got.DER, want)
		})
	}
	serves(w.Inventory, der)
	serves(w.other, der)
	w.revoke("third", ca, 3) // that the list does not cover
	restarted := w.open()
	serves(restarted, der)

	_, next, nextDER := w.sign(restarted, ca, 11)
	if next.Entries != 3 {
		t.Errorf("the next list has %d entries", next.Entries)
	}
	if err := restarted.Lists.Put(t.Context(), id, next, nextDER, restarted.Lists.Get(id).Revision); err != nil {
		t.Fatal(err)
	}
	serves(w.Inventory, nextDER)
	if err := w.Lists.Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	w.until(func() bool { return w.other.Lists.Get(id) == nil })

	// A month after the end of all certificates, nothing is left of them.
	left := func(days int) int64 {
		t.Helper()
		w.mu.Lock()
		w.now = start.AddDate(1, 0, days)
		w.mu.Unlock()
		if err := w.Clean(t.Context()); err != nil {
			t.Fatal(err)
		}
		answer, err := w.Store.Get(t.Context(), w.entries, clientv3.WithPrefix(), clientv3.WithCountOnly())
		if err != nil {
			t.Fatal(err)
		}
		return answer.Count
	}
	if n := left(30); n != 3 {
		t.Errorf("%d acts are left after 30 days", n)
	}
	if n := left(31); n != 0 {
		t.Errorf("%d acts are left after 31 days", n)
	}
	w.until(func() bool { return w.Revoked().Len() == 0 && w.other.Revoked().Len() == 0 })
}
