package revocation

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// The list of a new CA is awaited, but only once.
func TestURLOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		root, err := pki.NewRoot(pki.UnrecordedSigning, "CA", key, time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		ca := root.Certificate()
		data, err := json.Marshal(StoredList{Chain: [][]byte{ca.Raw}})
		if err != nil {
			t.Fatal(err)
		}
		set := func(l *Lists, after time.Duration) {
			time.Sleep(after)
			l.Set(ListID(ca), 1, []byte("damaged"), nil)
			l.Set(ListID(ca), 2, data, nil)
		}
		late, soon, nowhere := NewLists(NewIndex()), NewLists(NewIndex()), NewLists(NewIndex())
		late.Base, soon.Base = "http://crl.example.com/", "http://crl.example.com"
		go set(late, 7*time.Second)
		go set(soon, 2*time.Second)
		go set(nowhere, 0)
		url := "http://crl.example.com/" + ListID(ca) + ".crl"
		begun := time.Now()
		for _, tc := range []struct {
			reason string
			lists  *Lists
			want   string
			at     time.Duration
		}{
			{"no address", nowhere, "", 0},
			{"a list after a while", soon, url, 2 * time.Second},
			{"a list", soon, url, 2 * time.Second},
			{"no list in time", late, "", 7 * time.Second},
			{"a late list", late, url, 8 * time.Second},
		} {
			if tc.reason == "a late list" {
				time.Sleep(time.Second)
			}
			if got := tc.lists.URLOf(ca, time.Now()); got != tc.want || time.Since(begun) != tc.at {
				t.Errorf("%s: %q after %v, want %q after %v", tc.reason, got, time.Since(begun), tc.want, tc.at)
			}
		}
		other := NewLists(NewIndex())
		other.Base = "http://crl.example.com"
		begun = time.Now()
		for n := range 3 {
			if got := other.URLOf(ca, time.Now()); got != "" || time.Since(begun) != newCA {
				t.Errorf("call %d without a list: %q after %v", n, got, time.Since(begun))
			}
		}
	})
}
