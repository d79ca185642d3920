package acmeorder

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
)

// The window of a certificate that is revoked is in the past, so that clients renew
// at once (RFC 9773 section 4.2).
const (
	revokedStart = 48 * time.Hour
	revokedEnd   = 24 * time.Hour
	// revokedRetry is when clients ask again about one.
	revokedRetry = time.Hour
)

// retryShare is by how much the time at which clients ask again differs, up and
// down: they come at different times.
const retryShare = 0.2

// Causes are the causes for renewing certificates early.
type Causes struct {
	// ReplacedBy is until when certificates of the CA that signed the certificate
	// are to be renewed, since another CA has taken its place; zero if none has.
	ReplacedBy time.Time
	// Since is when the cause became known: renewals are spread over the time from then,
	// or over the whole lifetime of the certificate if it is zero.
	Since time.Time
}

// Window is when a certificate should be renewed, and when to ask again.
type Window struct {
	rfc8555.RenewalInfo
	RetryIn time.Duration
}

// RenewalWindow returns when a certificate should be renewed (RFC 9773 section
// 4.2). The answer is the same at each time, unless something happens: where in the
// window of its endpoint a certificate is follows from its serial number.
func RenewalWindow(c *v1alpha1.AcmeCertificate, e *v1alpha1.AcmeEndpoint, causes Causes, now time.Time) Window {
	spec := &e.Spec.Renewal
	w := Window{RetryIn: scaled(spec.RetryAfter.Duration, share(c.Serial, "retry"))}
	start, end := c.NotBefore.Time, c.NotAfter.Time
	if c.Revoked != nil {
		w.Start, w.End = now.Add(-revokedStart).UTC().Truncate(time.Second), now.Add(-revokedEnd).UTC().Truncate(time.Second)
		w.ExplanationURL, w.RetryIn = spec.ExplanationURL, min(w.RetryIn, revokedRetry)
		w.RetryIn = max(w.RetryIn, time.Minute)
		return w
	}
	first, last := percent(start, end, windowAt(spec.WindowAt, 0, 60)), percent(start, end, windowAt(spec.WindowAt, 1, 80))
	w.Start, w.End = within(first, last, share(c.Serial, "window"))
	if by := renewBefore(e, causes); !by.IsZero() && by.Before(w.End) {
		w.Start, w.End = spread(pki.Later(start, causes.Since), by, share(c.Serial, "early"))
		w.ExplanationURL = spec.ExplanationURL
	}
	return w
}

// renewBefore returns until when all certificates are to be renewed, zero if that
// is not so.
func renewBefore(e *v1alpha1.AcmeEndpoint, causes Causes) time.Time {
	by := causes.ReplacedBy
	if announced, err := time.Parse(time.RFC3339, e.Annotations[v1alpha1.AcmeRenewBeforeAnnotation]); err == nil && (by.IsZero() || announced.Before(by)) {
		by = announced
	}
	return by
}

// spread returns a tenth of a period, so that the certificates of an endpoint are
// renewed one after the other. A period that has ended is the time of its end.
func spread(from, by time.Time, share float64) (start, end time.Time) {
	whole := max(by.Sub(from), 0)
	end = by.Add(-time.Duration(float64(whole) * 0.9 * (1 - share))).UTC().Truncate(time.Second)
	return end.Add(-max(whole/10, time.Second)).Truncate(time.Second), end
}

func windowAt(list []int32, i int, otherwise int32) int32 {
	if i < len(list) {
		return list[i]
	}
	return otherwise
}

func percent(start, end time.Time, p int32) time.Time {
	return start.Add(end.Sub(start) / 100 * time.Duration(p))
}

// within returns the part of a window in which one certificate is renewed: a
// quarter of it.
func within(first, last time.Time, share float64) (start, end time.Time) {
	whole := last.Sub(first)
	start = first.Add(time.Duration(float64(whole) * 0.75 * share)).UTC().Truncate(time.Second)
	end = start.Add(whole / 4).Truncate(time.Second)
	if !end.After(start) {
		end = start.Add(time.Second)
	}
	return start, end
}

// share returns a number from 0 to 1 that follows from a serial number.
func share(serial, of string) float64 {
	sum := sha256.Sum256([]byte(of + "/" + serial))
	return float64(binary.BigEndian.Uint32(sum[:4])) / (1 << 32)
}

func scaled(d time.Duration, share float64) time.Duration {
	return time.Duration(float64(d) * (1 - retryShare + 2*retryShare*share)).Truncate(time.Second)
}

// checkReplaces checks the certificate that an order replaces (RFC 9773 section 5).
// Clients try without it on any problem.
func checkReplaces(n NewOrder, account *v1alpha1.AcmeAccount, now time.Time) *rfc8555.Problem {
	old := n.Replaced
	if n.Replaces == "" {
		return nil
	}
	switch _, _, err := pki.ParseCertID(n.Replaces); {
	case err != nil || len(n.Replaces) > maxCertID:
		return rfc8555.NewProblem(400, rfc8555.ProblemMalformed, "replaces is not the identifier of a certificate: %s", rfc8555.Quote(n.Replaces))
	case old == nil || old.Status.Certificate == nil || old.Status.Certificate.CertID != n.Replaces:
		return rfc8555.NewProblem(404, rfc8555.ProblemMalformed, "replaces: there is no certificate %s", rfc8555.Quote(n.Replaces))
	case old.Spec.Account != account.Name:
		return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "replaces: the certificate %s is of another account", rfc8555.Quote(n.Replaces))
	case !slices.ContainsFunc(n.Identifiers, func(id rfc8555.Identifier) bool {
		return slices.Contains(old.Spec.Identifiers, v1alpha1.AcmeIdentifier(id))
	}):
		return rfc8555.NewProblem(400, rfc8555.ProblemMalformed, "replaces: the certificate %s has none of the ordered identifiers", rfc8555.Quote(n.Replaces))
	case IsReplaced(old, n.Replacement, now):
		return rfc8555.NewProblem(409, rfc8555.ProblemAlreadyReplaced, "replaces: the certificate %s is replaced by another order", rfc8555.Quote(n.Replaces))
	}
	return nil
}

// reservedFor is for how long the name of an order replaces a certificate before
// the order exists.
const reservedFor = time.Minute

// IsReplaced reports whether an order that is not invalid replaces the certificate of
// another. by is the order named in status.replacedBy, nil if it does not exist: it may be
// about to be made.
func IsReplaced(old, by *v1alpha1.AcmeOrder, now time.Time) bool {
	switch {
	case old.Status.ReplacedBy == "":
		return false
	case by == nil || by.Name != old.Status.ReplacedBy:
		return old.Status.ReplacedAt != nil && now.Before(old.Status.ReplacedAt.Add(reservedFor))
	}
	return OrderState(by, now) != rfc8555.StateInvalid
}

// Replace records, before an order is made, that it replaces the certificate of
// another.
func Replace(old *v1alpha1.AcmeOrder, by string, now time.Time) *v1alpha1.AcmeOrderStatus {
	s := old.Status.DeepCopy()
	s.ReplacedBy, s.ReplacedAt = by, whole(now)
	return s
}

// renewedEnd returns the end of the certificate of the account that an order
// replaces, zero if it replaces none.
func renewedEnd(n NewOrder, account *v1alpha1.AcmeAccount) time.Time {
	if n.Replaced == nil || n.Replaced.Status.Certificate == nil || n.Replaced.Spec.Account != account.Name {
		return time.Time{}
	}
	return n.Replaced.Status.Certificate.NotAfter.Time
}
