package publishlists

import (
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"time"

	"github.com/certplane/certplane/internal/revocation"
)

// Settings are when lists are signed, and how long they are valid.
type Settings struct {
	// Period is the time between two lists of a CA without new entries, Validity how long a
	// list is valid.
	Period, Validity time.Duration
}

// DefaultSettings returns the defaults: signing may fail for six days before a list ends.
func DefaultSettings() Settings {
	return Settings{Period: 24 * time.Hour, Validity: 7 * 24 * time.Hour}
}

// coalesce is how long an entry waits for others that belong on the same list.
const coalesce = time.Second

// facts are what decides whether a list is due. All of it is stored, so that a stopped server,
// an upgrade and a new leader decide alike.
type facts struct {
	now  time.Time
	ca   *x509.Certificate
	list *revocation.List // nil if none is stored
	// waits is set if an entry waits for a list, since then.
	waits bool
	since time.Time
	// ends is when the last certificate of a former CA ends; zero for others.
	ends time.Time
	// once is set for a CA whose key is there at its creation only: its lists live as long as
	// it does.
	once bool
}

// due returns why a list must be signed; empty if none is due.
func (s Settings) due(f facts) string {
	switch list := f.list; {
	case !f.now.Before(f.ca.NotAfter) || f.now.Before(f.ca.NotBefore):
		return "" // no list would be valid
	case !f.ends.IsZero() && !f.now.Before(f.ends):
		return "" // there is nothing to revoke
	case list == nil || list.Last == nil:
		return "the CA has no list"
	case list.Err != nil:
		return "the last list cannot be built again"
	case f.ca.NotBefore.After(list.CA.NotBefore):
		return "the CA was renewed"
	case list.Last.ThisUpdate.After(f.now):
		return "the last list is not valid yet: the clock was ahead"
	case !f.once && list.Last.NextUpdate.After(f.now.Add(s.Validity)):
		return "the last list was final, and the CA is back"
	case !f.now.Before(list.Last.NextUpdate):
		return "the last list has ended"
	case f.waits && (f.now.Sub(f.since) >= coalesce || f.since.After(f.now)):
		return "certificates were revoked"
	case !f.once && s.round(list.ID, f.now) > s.round(list.ID, list.Last.ThisUpdate.Add(revocation.Backdate)):
		return "the period has passed"
	}
	return ""
}

// round counts periods. Those of different CAs begin at different times, so that lists without
// new entries are spread over the period.
func (s Settings) round(id string, t time.Time) int64 {
	offset := int64(0)
	if digest, err := hex.DecodeString(id); err == nil && len(digest) >= 8 {
		offset = int64(binary.BigEndian.Uint64(digest) % uint64(s.Period))
	}
	return (t.Unix()*int64(time.Second) - offset) / int64(s.Period)
}

// next returns the list to sign, without entries.
func (s Settings) next(f facts, covers int64) *revocation.StoredList {
	begins := f.now.Add(-revocation.Backdate)
	if begins.Before(f.ca.NotBefore) {
		begins = f.ca.NotBefore
	}
	begins = begins.UTC().Truncate(time.Second)
	list := &revocation.StoredList{
		Number: f.now.UnixMilli(), ThisUpdate: begins, NextUpdate: begins.Add(s.Validity), Covers: covers,
		EndedBefore: begins.Add(-max(revocation.UnlistedAfter, 2*s.Period)),
	}
	list.RenewBy = begins.Add(revocation.Backdate + s.Period)
	if f.once || list.NextUpdate.After(f.ca.NotAfter) {
		list.NextUpdate = f.ca.NotAfter.UTC()
	}
	if f.once || list.RenewBy.After(list.NextUpdate) {
		list.RenewBy = list.NextUpdate
	}
	if f.list != nil && f.list.Last != nil {
		list.Number = max(list.Number, f.list.Last.Number+1)
	}
	return list
}
