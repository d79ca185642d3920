package revocation

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/internal/pki"
)

var noon = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

func entry(serial byte, reason pki.Reason, at time.Time) Entry {
	return Entry{
		Authority: []byte("authority"), Serial: []byte{serial, 1}, Fingerprints: [2]Digest{{serial, 1}, {serial, 2}}, Key: Digest{serial, 3},
		NotAfter: noon.Add(time.Hour), Time: at, Reason: reason,
	}
}

func TestEncoding(t *testing.T) {
	act := Act{UID: "uid", Name: "laptop", User: "alice"}
	entries := []Entry{entry(1, pki.ReasonKeyCompromise, noon), entry(2, pki.ReasonUnspecified, noon)}
	data, err := Encode(act, entries)
	if err != nil {
		t.Fatal(err)
	}
	gotAct, got, err := Decode(data)
	if err != nil || gotAct != act || !reflect.DeepEqual(got, entries) {
		t.Errorf("decoded %+v, %+v, %v", gotAct, got, err)
	}
	// A damaged value is an error, or has fewer entries, but is never misread or a panic.
	for n := range data {
		if _, got, err := Decode(data[:n]); err == nil && len(got) == len(entries) {
			t.Errorf("the first %d of %d bytes were accepted", n, len(data))
		}
	}
}

func FuzzDecode(f *testing.F) {
	data, _ := Encode(Act{UID: "uid"}, []Entry{entry(1, pki.ReasonSuperseded, noon)})
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		act, entries, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Encode(act, entries)
		if err != nil {
			t.Fatal(err)
		}
		if _, got, err := Decode(again); err != nil || !reflect.DeepEqual(got, entries) {
			t.Errorf("encoded again, it is %+v, %v", got, err)
		}
	})
}

// An act in parts has effect when its first part is known, as a whole and at one revision,
// whatever the order in which a server learns of the parts.
func TestParts(t *testing.T) {
	head := Act{UID: "a", Name: "leak", Revision: 9}
	parts := []Act{head, {UID: "a-1", Of: "a", Name: "leak", Revision: 5}, {UID: "a-2", Of: "a", Name: "leak", Revision: 7}}
	for _, order := range [][]int{{1, 2, 0}, {0, 1, 2}, {2, 0, 1}} {
		i, begun := NewIndex(), false
		for n, part := range order {
			e := entry(byte(part), pki.ReasonSuperseded, noon)
			e.NotAfter = noon.Add(time.Duration(part+1) * time.Hour)
			i.Add(parts[part], []Entry{e})
			i.Add(parts[part], []Entry{e})
			if begun = begun || part == 0; !begun && i.Len() > 0 {
				t.Errorf("order %v: %d certificates are revoked after %d parts", order, i.Len(), n+1)
			}
			if uids := i.Unfinished(noon.Add(time.Hour)); begun == (len(uids) > 0) || len(i.Unfinished(noon)) > 0 {
				t.Errorf("order %v: after %d parts, %v have no act", order, n+1, uids)
			}
		}
		if before, all := i.List([][]byte{[]byte("authority")}, 8, noon, Digest{}), i.List([][]byte{[]byte("authority")}, 9, noon, Digest{}); len(before) > 0 || len(all) != 3 {
			t.Errorf("order %v: lists have %v, %v", order, before, all)
		}
		if n := i.EntriesOf("a"); n != 3 || len(i.Ended(noon.Add(90*time.Minute))) > 0 {
			t.Errorf("order %v: the act has %d entries, and ends before its parts: %v", order, n, i.Ended(noon.Add(90*time.Minute)))
		}
	}
	// Parts that are removed before their act comes are not revoked by it.
	i := NewIndex()
	i.Add(parts[1], []Entry{entry(1, pki.ReasonSuperseded, noon)})
	i.Remove("a-1")
	i.Add(head, []Entry{entry(0, pki.ReasonSuperseded, noon)})
	if i.Len() != 1 {
		t.Errorf("%d certificates are revoked", i.Len())
	}
	// The first part cannot be read: its parts count, and it is kept.
	i = NewIndex()
	i.Add(parts[1], []Entry{entry(1, pki.ReasonSuperseded, noon)})
	i.Add(head, nil)
	if _, _, ok := i.Act("a"); ok || i.Len() != 1 || slices.Contains(i.Ended(noon.Add(time.Hour*9)), "a") {
		t.Errorf("an act that cannot be read: %d certificates are revoked, ended are %v", i.Len(), i.Ended(noon.Add(time.Hour*9)))
	}
}

func TestIndex(t *testing.T) {
	acts := []struct {
		act     Act
		entries []Entry
	}{
		{Act{UID: "a", User: "alice", Revision: 5}, []Entry{entry(1, pki.ReasonSuperseded, noon), entry(2, pki.ReasonUnspecified, noon)}},
		{Act{UID: "b", User: "bob", Revision: 7}, []Entry{entry(2, pki.ReasonKeyCompromise, noon.Add(time.Minute)), entry(3, pki.ReasonUnspecified, noon.Add(time.Minute))}},
		{Act{UID: "c", User: "carol", Revision: 9}, []Entry{entry(2, pki.ReasonPrivilegeWithdrawn, noon.Add(time.Hour))}},
	}
	// Whatever the order in which a server learns of them, the meaning is the same.
	for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}} {
		i := NewIndex()
		for _, n := range order {
			i.Add(acts[n].act, acts[n].entries)
			i.Add(acts[n].act, acts[n].entries) // a second time changes nothing
		}
		e := entry(2, 0, noon)
		want := Revoked{Time: noon, NotAfter: e.NotAfter, Reason: pki.ReasonPrivilegeWithdrawn, By: acts[0].act}
		byEntry, _ := i.Entry(&e)
		own, _ := i.Fingerprint(e.Fingerprints[0])
		other, _ := i.Fingerprint(e.Fingerprints[1])
		for _, got := range []Revoked{byEntry, own, other} {
			if got != want {
				t.Errorf("order %v: got %+v, want %+v", order, got, want)
			}
		}
		if _, ok := i.Fingerprint(Digest{9}); ok || i.Len() != 3 {
			t.Errorf("order %v: %d certificates", order, i.Len())
		}
		list := i.List([][]byte{[]byte("authority")}, 7, noon, Digest{})
		wantList := []pki.ListEntry{
			{Serial: []byte{1, 1}, Time: noon, Reason: pki.ReasonSuperseded},
			{Serial: []byte{2, 1}, Time: noon, Reason: pki.ReasonKeyCompromise},
			{Serial: []byte{3, 1}, Time: noon.Add(time.Minute), Reason: pki.ReasonUnspecified},
		}
		if !reflect.DeepEqual(list, wantList) {
			t.Errorf("order %v: listed %+v", order, list)
		}
		if since, some := i.Uncovered([][]byte{[]byte("authority")}, 7); !some || !since.Equal(noon.Add(time.Hour)) {
			t.Errorf("order %v: uncovered since %v, %v", order, since, some)
		}
		if _, some := i.Uncovered([][]byte{[]byte("authority")}, 9); some {
			t.Errorf("order %v: something is uncovered", order)
		}
		i.Remove("a")
		if e := entry(1, 0, noon); i.Len() == 3 {
			t.Errorf("order %v: %v is left", order, e)
		}
	}
}

// A list is about one CA.
func TestOtherAuthority(t *testing.T) {
	i := NewIndex()
	e := entry(1, pki.ReasonUnspecified, noon)
	i.Add(Act{UID: "a", Revision: 1}, []Entry{e})
	e.Authority = []byte("another")
	if _, ok := i.Entry(&e); ok {
		t.Error("the same serial number of another CA is revoked")
	}
	if list := i.List([][]byte{e.Authority}, 1, noon, Digest{}); len(list) > 0 {
		t.Errorf("the other CA lists %v", list)
	}
	if _, some := i.Uncovered([][]byte{e.Authority}, 0); some {
		t.Error("an entry waits for the list of the other CA")
	}
}

func BenchmarkIndex(b *testing.B) {
	i := NewIndex()
	r := rand.New(rand.NewPCG(1, 2))
	const certificates = 500_000
	for part := range certificates / 4000 {
		entries := make([]Entry, 4000)
		for n := range entries {
			serial := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, r.Uint64()), r.Uint64())
			own, other := sha256.Sum256(serial), sha256.Sum256(serial[1:])
			entries[n] = Entry{Authority: make([]byte, 20), Serial: serial, Fingerprints: [2]Digest{Digest(own[:16]), Digest(other[:16])}, NotAfter: noon, Time: noon}
		}
		i.Add(Act{UID: types.UID(time.Duration(part).String()), Revision: int64(part)}, entries)
	}
	e := entry(1, 0, noon)
	b.ReportAllocs()
	for b.Loop() {
		i.Entry(&e)
		i.Fingerprint(e.Fingerprints[0])
	}
}
