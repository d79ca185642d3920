package inventory

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
)

// Records that are stored in few bytes are read as they were written, whatever requesters have put
// into them.
func FuzzShortened(f *testing.F) {
	digits := strings.Repeat("0123456789abcdef", 20)
	for _, text := range []string{
		"", "team", digits[:64], digits[:15], digits[:16], digits[:36], digits[:127], digits[:128], digits, `"`, `"fingerprint":"x`, "é" + digits[:33], "\x00\x01\x02\x03\x04\xff", strings.Repeat(`","`, 300),
		"3c1f2d80-5c0e-4d1a-9f58-5b7d0e2f9a11", "3c1f2d80-5c0e-4d1a-9f58-5b7d0e2f9a1", "3c1f2d805-c0e-4d1a-9f58-5b7d0e2f9a11", "a3c1f2d80-5c0e-4d1a-9f58-5b7d0e2f9a11", "3c1f2d80-5c0e-4d1a-9f58-5b7d0e2f9a1122",
	} {
		f.Add(text, "app")
		f.Add("fingerprint", text)
	}
	ends := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, one, other string) {
		var records [][]byte
		for n := range 6 {
			r := issued(n, ends)
			switch n {
			case 1, 2:
				r.Labels[one], r.Request.UID, r.Certificate.SerialNumber = other, one, other
			case 3:
				r.Certificate.Fingerprint, r.Approval = one, nil
			case 4:
				r.Certificate.DNSNames, r.Location.Name = []string{one, other, one + other}, other
			}
			data, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			records = append(records, data)
		}
		records = append(records, []byte("{}"), nil)
		before := slices.Clone(records)
		got, err := lengthened(shortened(records))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(before, got, cmp.Comparer(bytes.Equal)); diff != "" {
			t.Error(diff)
		}
	})
}

// Neither damaged text nor text that stands for much more than any pack has is read.
func TestNotLengthened(t *testing.T) {
	text, digits := shortened([][]byte{[]byte(`{"uid":"0123456789abcdef"}`)})
	for reason, of := range map[string][2][]byte{
		"digits are missing":            {text, digits[:4]},
		"the text ends within a token":  {text[:3], digits},
		"there is no record before":     {{sameMark, zero + 1}, nil},
		"a number is missing":           {{sameMark}, nil},
		"it stands for too many tokens": {slices.Concat(bytes.Repeat([]byte("a"), 1<<20), []byte{'"', endMark}, bytes.Repeat([]byte{sameMark, zero + 1, endMark}, 100)), nil},
	} {
		if _, err := lengthened(of[0], of[1]); err == nil {
			t.Errorf("%s: no error", reason)
		}
	}
	if got, err := lengthened(text, digits); err != nil || len(got) != 1 {
		t.Errorf("%q, %v", got, err)
	}
}

// Packs of earlier versions are read, and get other records.
func TestEarlierPack(t *testing.T) {
	api := newPacksAPI(t)
	ends := time.Now().AddDate(0, 0, 30).Truncate(24 * time.Hour)
	if err := newPacks(t, api).Write(t.Context(), issued(1, ends)); err != nil {
		t.Fatal(err)
	}
	stored := &recordsv1alpha1.CertificatePackList{}
	if err := api.List(t.Context(), stored); err != nil || len(stored.Items) != 1 {
		t.Fatalf("%d packs, %v", len(stored.Items), err)
	}
	object := &stored.Items[0]
	earlier := newPacks(t, api)
	_, content, err := earlier.open(t.Context(), object.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := earlier.write(t.Context(), object, content, dayOf(ends), packVersion); err != nil {
		t.Fatal(err)
	}
	p := newPacks(t, api)
	if err := p.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n, want := range []int{1, 1, 2} {
		if page, err := p.Find(t.Context(), &Query{Limit: 10}); err != nil || len(page.Items) != want || page.Items[0].Request.Name != "app-1-tls-1" {
			t.Fatalf("%d records, %v", len(page.Items), err)
		}
		if err := p.Write(t.Context(), issued(min(n+1, 2), ends)); err != nil { // the first is there already
			t.Fatal(err)
		}
	}
}
