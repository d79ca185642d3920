package acmeorder_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

func TestRevoke(t *testing.T) {
	e := endpoint(t)
	o, cert, key := valid(t, e, dns("a.corp.example", "*.b.corp.example")...)
	proofs := proven(t, e, newOrder(t, e, dns("a.corp.example", "*.b.corp.example")...))
	proofs.Spec.Account = "bob"
	partial := proven(t, e, newOrder(t, e, dns("a.corp.example", "b.corp.example")...))
	partial.Spec.Account = "bob"
	revoked := func(reason int32) *v1alpha1.AcmeOrder {
		o := o.DeepCopy()
		o.Status.Certificate.Revoked = &v1alpha1.AcmeRevoked{Reason: reason}
		return o
	}
	other := o.DeepCopy()
	other.Status.Certificate.Digest = "00"
	refuse := func(e *v1alpha1.AcmeEndpoint) { e.Spec.Revocation = v1alpha1.AcmeRevocationRefuse }
	for _, tc := range []struct {
		reason   string
		request  acmeorder.Revocation
		endpoint func(*v1alpha1.AcmeEndpoint)
		at       time.Time
		kind     string
		status   int
		by       string
	}{
		{"by its account", acmeorder.Revocation{Order: o, Account: "alice"}, nil, now, "", 0, "alice"},
		{"by its key", acmeorder.Revocation{Order: o, Key: key.Public(), Reason: new(1)}, nil, now, "", 0, "certificate key"},
		{"by another key", acmeorder.Revocation{Order: o, Key: newKey(t).Public()}, nil, now, "unauthorized", 403, ""},
		{"by nobody", acmeorder.Revocation{Order: o}, nil, now, "unauthorized", 403, ""},
		{"by a stranger", acmeorder.Revocation{Order: o, Account: "bob"}, nil, now, "unauthorized", 403, ""},
		{"by who has proven all names", acmeorder.Revocation{Order: o, Account: "bob", Orders: []*v1alpha1.AcmeOrder{proofs}}, nil, now, "", 0, "bob"},
		{"by who has proven all names, for a compromised key", acmeorder.Revocation{Order: o, Account: "bob", Orders: []*v1alpha1.AcmeOrder{proofs}, Reason: new(1)}, nil, now, "", 0, "bob"},
		{"by its account, for a compromised key", acmeorder.Revocation{Order: o, Account: "alice", Reason: new(1)}, nil, now, "", 0, "alice"},
		{"by who has proven them long ago", acmeorder.Revocation{Order: o, Account: "bob", Orders: []*v1alpha1.AcmeOrder{proofs}}, nil, now.Add(48 * time.Hour), "unauthorized", 403, ""},
		{"by who has proven another name", acmeorder.Revocation{Order: o, Account: "bob", Orders: []*v1alpha1.AcmeOrder{partial}}, nil, now, "unauthorized", 403, ""},
		{"with a reason of CAs", acmeorder.Revocation{Order: o, Account: "alice", Reason: new(2)}, nil, now, "badRevocationReason", 400, ""},
		{"with reason 8", acmeorder.Revocation{Order: o, Account: "alice", Reason: new(8)}, nil, now, "badRevocationReason", 400, ""},
		{"not a certificate", acmeorder.Revocation{Order: o, Account: "alice", Certificate: []byte("x")}, nil, now, "malformed", 400, ""},
		{"too large", acmeorder.Revocation{Order: o, Account: "alice", Certificate: make([]byte, 24577)}, nil, now, "malformed", 400, ""},
		{"unknown", acmeorder.Revocation{Account: "alice"}, nil, now, "malformed", 404, ""},
		{"another one with its serial number", acmeorder.Revocation{Order: other, Account: "alice"}, nil, now, "malformed", 404, ""},
		{"again", acmeorder.Revocation{Order: revoked(0), Account: "alice", Reason: new(1)}, nil, now, "alreadyRevoked", 400, ""},
		{"again by its key, which is compromised", acmeorder.Revocation{Order: revoked(0), Key: key.Public(), Reason: new(1)}, nil, now, "", 0, "certificate key"},
		{"again by its key, which is known to be compromised", acmeorder.Revocation{Order: revoked(1), Key: key.Public(), Reason: new(1)}, nil, now, "alreadyRevoked", 400, ""},
		{"expired", acmeorder.Revocation{Order: o, Account: "alice"}, nil, now.Add(720 * time.Hour), "unauthorized", 403, ""},
		{"where nothing is revoked", acmeorder.Revocation{Order: o, Account: "alice"}, refuse, now, "unauthorized", 403, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			spec := endpointObject()
			if tc.endpoint != nil {
				spec = endpointObject(tc.endpoint)
			}
			if tc.request.Certificate == nil {
				tc.request.Certificate = cert.Raw
			}
			s, p := acmeorder.Revoke(tc.request, &spec.Spec, tc.at)
			assertProblem(t, p, tc.kind, "")
			if p != nil && p.Status != tc.status {
				t.Errorf("status %d, want %d", p.Status, tc.status)
			}
			if tc.by != "" && (s == nil || s.Certificate.Revoked.By != tc.by) {
				t.Errorf("%+v", s)
			}
			if s != nil && acmeorder.IsBlocked(s.Certificate) != (tc.request.Reason != nil && *tc.request.Reason == 1 && tc.by != "bob") {
				t.Errorf("blocked: %v", acmeorder.IsBlocked(s.Certificate))
			}
		})
	}
}

// A Revocation of somebody else is noted once, and only a compromise of the key changes that.
func TestNoteRevoked(t *testing.T) {
	o := &v1alpha1.AcmeOrder{}
	if s := acmeorder.NoteRevoked(o, pki.ReasonSuperseded, "alice", time.Now()); s != nil {
		t.Errorf("an order without a certificate: %+v", s)
	}
	o.Status.Certificate = &v1alpha1.AcmeCertificate{}
	at := time.Date(2026, 11, 30, 12, 0, 0, 1, time.UTC)
	o.Status = *acmeorder.NoteRevoked(o, pki.ReasonSuperseded, strings.Repeat("é", 200), at)
	if r := o.Status.Certificate.Revoked; r.Reason != 4 || len(r.By) != 252 || !utf8.ValidString(r.By) || r.Time.Nanosecond() != 0 {
		t.Errorf("the order says %+v", r)
	}
	if s := acmeorder.NoteRevoked(o, pki.ReasonPrivilegeWithdrawn, "bob", at); s != nil {
		t.Errorf("another reason is noted: %+v", s.Certificate.Revoked)
	}
	o.Status = *acmeorder.NoteRevoked(o, pki.ReasonKeyCompromise, "bob", at.Add(time.Hour))
	if r := o.Status.Certificate.Revoked; r.Reason != 1 || r.By == "bob" || r.Time.After(at) || !acmeorder.IsBlocked(o.Status.Certificate) {
		t.Errorf("the order says %+v", r)
	}
	if s := acmeorder.NoteRevoked(o, pki.ReasonKeyCompromise, "bob", at); s != nil {
		t.Errorf("it is noted again: %+v", s.Certificate.Revoked)
	}
}
