package crash

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// The checks of TestChaos detect the errors that they are for.
func TestVerdicts(t *testing.T) {
	certificate := func() []byte {
		root, err := pki.NewRoot(pki.UnrecordedSigning, "verdicts", apitest.NewKey(t), pki.DefaultRootLifetime, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return pki.EncodeCertificates(root.Certificate())
	}
	one, other := certificate(), certificate()
	for _, test := range []struct {
		reason string
		// happens fills in the record of a key, and acks are the answers to clients.
		happens    func(*testing.T, *history, string)
		acks       []ack
		want, told string
	}{
		{"a write is stored", func(_ *testing.T, h *history, key string) { h.of(key).revisions[7] = true }, []ack{{"/a", 7}}, "", ""},
		{"a write is not stored", func(*testing.T, *history, string) {}, []ack{{"/a", 7}}, "lost", "revision 7 was never stored"},
		{"a write is taken back", func(_ *testing.T, h *history, key string) { h.of(key).revisions[6] = true }, []ack{{"/a", 7}}, "lost", "revision 7 was never stored"},
		{"a deletion is taken back", func(_ *testing.T, h *history, key string) { h.of(key).deleting = true }, []ack{{"/a", 0}}, "lost", "is there"},
		{"a request goes by itself", func(_ *testing.T, h *history, key string) {
			h.of(key).revisions[7], h.of(key).deleted = true, true
		}, []ack{{"/a", 7}}, "lost", "nobody asked"},
		{"a request has one certificate, twice told", issues(one, one), nil, "", ""},
		{"a request has two certificates", issues(one, other), nil, "two", "/a"},
		{"a serial number is used twice", func(t *testing.T, h *history, key string) {
			issues(one)(t, h, key)
			issues(one)(t, h, "/b")
		}, nil, "twins", "serial number"},
		{"a request fails", func(_ *testing.T, h *history, key string) { h.of(key).failed = "no reason" }, nil, "failed", "no reason"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			h := &history{records: map[string]*record{}, serials: map[string]string{}}
			test.happens(t, h, "/a")
			lost, two, failed := h.verdicts(test.acks)
			for what, which := range map[string][]string{"lost": lost, "two": two, "twins": h.twins, "failed": failed} {
				if text := strings.Join(which, "\n"); (text != "") != (what == test.want) || text != "" && !strings.Contains(text, test.told) {
					t.Errorf("%s: %q, want %q among %q", what, text, test.told, test.want)
				}
			}
		})
	}
	h := &history{records: map[string]*record{"/a": {due: true, certificates: map[[sha256.Size]byte]string{}}}}
	if waiting := h.unanswered(); len(waiting) != 1 {
		t.Errorf("waiting for a certificate are %q, want one", waiting)
	}
}

// Stored entries of revocations do not change, and no number is that of two lists.
func TestVerdictsOnRevocations(t *testing.T) {
	list := func(number int64, digest string) string {
		data, err := json.Marshal(revocation.StoredList{Number: number, SHA256: []byte(digest)})
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, test := range []struct {
		reason, key, value string
		version            int64
		want               string
	}{
		{"entries are stored", entryKeys + "uid", "", 1, ""},
		{"entries are stored again", entryKeys + "uid", "", 2, "written again"},
		{"entries are deleted", entryKeys + "uid", "", 0, "deleted"},
		{"a list", listKeys + "ca", list(8, "a"), 2, ""},
		{"a list with other signers", listKeys + "ca", list(7, "a"), 2, ""},
		{"a list with a lower number", listKeys + "ca", list(6, "b"), 2, "the list 6 follows 7"},
		{"a list with the same number", listKeys + "ca", list(7, "b"), 2, "two lists have the number 7"},
	} {
		h := &history{last: map[string]*revocation.StoredList{listKeys + "ca": {Number: 7, SHA256: []byte("a")}}}
		err := h.noteRevoked(test.key, &mvccpb.KeyValue{Value: []byte(test.value), Version: test.version})
		if text := fmt.Sprint(err); (err != nil) != (test.want != "") || !strings.Contains(text, test.want) {
			t.Errorf("%s: %v, want %q", test.reason, err, test.want)
		}
	}
}

func issues(certificates ...[]byte) func(*testing.T, *history, string) {
	return func(t *testing.T, h *history, key string) {
		t.Helper()
		for _, certificate := range certificates {
			if err := h.issued(key, certificate); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What a failed round prints is the same round when it is run again.
func TestPlanIsParsed(t *testing.T) {
	var plan []strike
	for _, what := range steps {
		plan = append(plan, strike{moment{what, before}, 0}, strike{moment{what, unanswered}, 0}, strike{moment{what, answered}, 12345678})
	}
	if got, err := parsePlan(planText(plan)); err != nil || !slices.Equal(got, plan) {
		t.Errorf("%q is parsed as %v, %v", planText(plan), got, err)
	}
	for _, test := range []struct{ reason, text string }{
		{"it has no moments", ""},
		{"there is no such step", "teatime not done"},
		{"the delay has no unit", "finalize done and answered + 5"},
	} {
		if got, err := parsePlan(test.text); err == nil {
			t.Errorf("%s: %q is parsed as %v", test.reason, test.text, got)
		}
	}
}
