// Package signer returns a certificate chain or a verdict for an approved
// request and a CA.
//
// Its results depend only on its arguments: it reads no clock, file or API. A
// signer's requirements for its requests are its profile.
package signer

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// Issued is a certificate with its chain and related data.
type Issued struct {
	// Certificate is the new certificate.
	Certificate *x509.Certificate
	// PEM is the chain that the holder presents: the certificate first, then
	// the intermediate CAs, if they are to be included, without the root.
	PEM []byte
	// CA is the root, or the highest known CA, in PEM. Only Issuers set it.
	CA []byte
	// RefreshAt is when the holder should request the next one, in whole
	// seconds. Only declared signers set it.
	RefreshAt time.Time
	// ShortenedBy is by how much the certificate ends earlier than requested,
	// because its CA ends then.
	ShortenedBy time.Duration
	// Fetched means that the certificate was not signed for this attempt: another
	// attempt gets the same one.
	Fetched bool
	// Warnings report in what the certificate may differ from the requester's
	// expectations.
	Warnings []Warning
}

// Warning is the reason and the message of an Event.
type Warning struct{ Reason, Message string }

// Sign is one signer, with its key in any place. The request has been approved:
// a signer gets the requester for information, and does not check it. now is
// the current time. Its errors are *PermanentError or *PendingError. It is safe
// for concurrent use.
type Sign func(ctx context.Context, req request.Request, permitted Permission, now time.Time) (*Issued, error)

// Permission limits the certificates that a signer may sign for a request, according to
// policies. The zero value sets no limits.
type Permission struct {
	// Lifetime limits the lifetime, for signers of this program.
	Lifetime request.LifetimeLimits
	// Certificate, if not nil, is called with the certificate before it is signed. If it
	// fails, the certificate is not signed. Its errors are verdicts.
	Certificate func(*x509.Certificate) error
}

// Purpose returns the reason for signing a certificate for a request.
func (p Permission) Purpose(req request.Request) pki.Purpose {
	why := req.Purpose()
	why.Permit = p.Certificate
	return why
}

// Local returns a signer that follows profile, with a CA of this process. It
// calls ca for each request, so the CA can change. Verdicts on the request come
// before those on the CA: a bad request is refused even while the CA is down.
func Local(profile Profile, ca func() (*pki.Authority, error), by pki.Issuing) Sign {
	return func(ctx context.Context, req request.Request, permitted Permission, now time.Time) (*Issued, error) {
		approved, err := profile.examine(req)
		if err != nil {
			return nil, err
		}
		authority, err := ca()
		if err != nil {
			return nil, Unavailable(err)
		}
		approved.profile.Lifetime = approved.profile.Lifetime.Limited(permitted.Lifetime.Max)
		approved.duration, approved.purpose = permitted.Lifetime.Within(req.Duration), permitted.Purpose(req)
		return approved.issue(ctx, authority, now, by)
	}
}

// examined is a request that has passed the checks of its profile.
type examined struct {
	profile  Profile
	request  *pki.Request
	usages   pki.Usages
	duration *time.Duration
	purpose  pki.Purpose
}

func (e examined) issue(ctx context.Context, ca *pki.Authority, now time.Time, by pki.Issuing) (*Issued, error) {
	validity, err := e.profile.Lifetime.Validity(e.duration, ca.Validity(), now)
	if err != nil {
		return nil, Expired(err)
	}
	linted, err := e.lint(ca, validity, by)
	if err != nil {
		return nil, err
	}
	cert, err := linted.Sign(ctx, by, e.purpose)
	if err != nil {
		return nil, Unavailable(err)
	}
	chain := ca.Chain(cert)
	if e.profile.Alone {
		chain = chain[:1]
	}
	return &Issued{
		Certificate: cert,
		PEM:         pki.EncodeCertificates(chain...),
		ShortenedBy: e.profile.Lifetime.Unbounded(e.duration, now).NotAfter.Sub(validity.NotAfter),
	}, nil
}

// lint converts the linter's refusals to verdicts. Its other errors are not
// about the request.
func (e examined) lint(ca *pki.Authority, validity pki.Validity, by pki.Issuing) (*pki.Linted, error) {
	serial, err := pki.NewSerial(by.Rand)
	if err != nil {
		return nil, Unavailable(err)
	}
	policy := e.profile.Policy
	policy.Status = by.Status
	linted, err := ca.Lint(pki.RequestTemplate(e.request.CertificateRequest, e.usages, validity, serial), policy)
	var refused *pki.RefusedError
	switch {
	case errors.As(err, &refused):
		return nil, Permanent(ReasonRefused, err)
	case err != nil:
		return nil, Unavailable(err)
	}
	return linted, nil
}
