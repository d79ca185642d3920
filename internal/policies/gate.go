package policies

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Approved is how a request was approved.
type Approved struct {
	// ByPolicy: a policy approved it, according to its condition.
	ByPolicy bool
	// Conditions are the conditions of the request, with the approvals of people.
	Conditions []quorum.Condition
}

// Guarded signs a request that policies permit.
type Guarded func(ctx context.Context, req request.Request, now time.Time) (*signer.Issued, error)

// Guard returns sign behind the policies: the request is decided again before sign is
// called, and the certificate before it is signed. A certificate that another CA has
// signed is decided before it is used. Without Policies, nothing is decided. sign
// receives the request in the form for signers.
func (p *Policies) Guard(sign signer.Sign, approved Approved) Guarded {
	if p == nil {
		return func(ctx context.Context, req request.Request, now time.Time) (*signer.Issued, error) {
			return sign(ctx, req.ForSigner(), signer.Permission{}, now)
		}
	}
	return func(ctx context.Context, req request.Request, now time.Time) (*signer.Issued, error) {
		permitted, checked, err := gate{p, approved}.permit(ctx, req, now)
		if err != nil {
			return nil, err
		}
		issued, err := sign(ctx, req.ForSigner(), permitted, now)
		if err != nil || permitted.Certificate == nil || bytes.Equal(*checked, issued.Certificate.RawTBSCertificate) {
			return issued, err
		}
		if err := permitted.Certificate(issued.Certificate); err != nil {
			return nil, err
		}
		return issued, nil
	}
}

// gate gives the verdicts on requests that are approved in some way.
type gate struct {
	policies *Policies
	approved Approved
}

// permit returns what the policies leave to the signer. checked is the content of the
// certificate that was permitted last.
func (g gate) permit(ctx context.Context, req request.Request, now time.Time) (permitted signer.Permission, checked *[]byte, err error) {
	checked = new([]byte)
	in := certpolicy.Input{Stage: v1alpha1.StageSign, Request: req, Time: now}
	in.Votes = g.policies.seals.Votes(req, g.approved.Conditions)
	d, err := g.decide(ctx, in)
	switch {
	case err != nil:
		return permitted, nil, err
	case d == nil:
		return permitted, checked, nil
	}
	if req.Kind != v1alpha1.PodCertificateRequests {
		if d, err = g.count(ctx, d); err != nil {
			return permitted, nil, err
		}
	}
	if s := d.Input.Facts.Signer.Value; s != nil && s.Ours {
		limits := d.opinions.Lifetime()
		if renews := d.Renews; renews != nil && (limits.Max == nil || renews.Lifetime.Duration < *limits.Max) {
			limits.Max = &renews.Lifetime.Duration
		}
		permitted.Lifetime = limits
	}
	permitted.Certificate = func(cert *x509.Certificate) error {
		finished := d.About(cert)
		if req.Kind == v1alpha1.PodCertificateRequests { // no approver has counted it
			g.policies.recorder.counts.add(finished)
		}
		if err := g.verdict(finished); err != nil {
			return err
		}
		if req.Kind == v1alpha1.PodCertificateRequests {
			if _, err := g.count(ctx, finished); err != nil {
				return err
			}
		}
		*checked = cert.RawTBSCertificate
		issueoncreate.Note(ctx, permittedKey{}, finished)
		return nil
	}
	return permitted, checked, nil
}

// decide returns the decision that permits to sign a request; nil if no policy can apply to
// the request. Of requests with one key, one is first.
func (g gate) decide(ctx context.Context, in certpolicy.Input) (*Decision, error) {
	for range 2 {
		d, err := g.policies.Decide(ctx, in)
		if err != nil {
			return nil, unknown(err)
		}
		if d == nil {
			return nil, nil
		}
		if err := g.verdict(d); err != nil {
			return nil, err
		}
		if g.policies.keys.claim(d) {
			return d, nil
		}
	}
	return nil, unknown(errKeysChange)
}

// errKeysChange: the decision was about other stored requests than there are now.
var errKeysChange = errors.New("requests with the same key or of the same owner have just changed")

// permittedKey is the key of the note of the last decision that permitted a certificate
// for a request that is being created.
type permittedKey struct{}

// permittedBefore returns the decision that permitted a certificate with this content in
// the call that creates its request, as a decision of the stage Answer. It returns nil if
// there is none, or the policies have changed. Writes of stored requests are always
// decided: an account of a signer may be in other hands.
func permittedBefore(ctx context.Context, req request.Request, cert *x509.Certificate) *Decision {
	d, _ := issueoncreate.Noted(ctx, permittedKey{}).(*Decision)
	if d == nil || !d.InForce() || d.Input.Request.UID != req.UID || !bytes.Equal(d.Input.Certificate.RawTBSCertificate, cert.RawTBSCertificate) {
		return nil
	}
	in := d.Input
	in.Stage, in.Certificate = v1alpha1.StageAnswer, cert
	return d.with(in, d.opinions)
}

// DecideIssued decides about a certificate that a foreign signer has made for a request
// with conditions. It returns nil if no policy can apply to the request. verdict is nil
// if the requester may get the certificate, a *quorum.Refusal in a chain of errors if
// not, and another error if that is not known yet.
func (p *Policies) DecideIssued(ctx context.Context, req request.Request, conditions []quorum.Condition, cert *x509.Certificate) (d *Decision, verdict error) {
	if d := permittedBefore(ctx, req, cert); d != nil {
		return d, nil
	}
	d, err := p.Decide(ctx, certpolicy.Input{
		Stage: v1alpha1.StageAnswer, Request: req, Certificate: cert, Votes: p.seals.Votes(req, conditions),
	})
	switch {
	case err != nil:
		return nil, unknown(err)
	case d == nil:
		return nil, nil
	case d.Outcome == v1alpha1.OutcomeWait && d.Reason == certpolicy.ReasonFactMissing && req.Kind == v1alpha1.PodCertificateRequests:
		return d, nil
	}
	return d, gate{p, Approved{}}.judge(d)
}

// count counts a request that may get its certificate in the quotas of policies. An
// approved request was counted at its approval, unless the approval was written past
// admission; a pod's request has no approval. The error is why the request does not get its
// certificate.
func (g gate) count(ctx context.Context, d *Decision) (*Decision, error) {
	counted, err := g.policies.Count(ctx, d)
	switch {
	case err != nil:
		return d, unknown(err)
	case counted != d:
		return counted, g.verdict(counted)
	}
	return d, nil
}

// verdict returns nil if an approved request may get its certificate. It records the
// decision; without a certificate, only if it refuses the request.
func (g gate) verdict(d *Decision) error {
	err := g.judge(d)
	if err != nil || d.Input.Certificate != nil {
		g.policies.recorder.Record(d)
	}
	return err
}

func (g gate) judge(d *Decision) error {
	switch d.Outcome {
	case v1alpha1.OutcomeApprove, v1alpha1.OutcomeLeave:
		return nil
	case v1alpha1.OutcomeDeny:
		// The names of a pod's certificate come from its signer: what the request
		// asks for says nothing about them. The certificate is decided about.
		if d.Input.Certificate == nil && d.Input.Request.Kind == v1alpha1.PodCertificateRequests {
			return nil
		}
	case v1alpha1.OutcomeNeedPeople:
		if g.policies.seals.waits() { // no approval of people can be read
			return unknown(ErrNoSealKey)
		}
	case v1alpha1.OutcomeWait:
		return &signer.PendingError{Reason: d.Reason, Message: d.Message, Err: errors.New(d.Message), RetryAfter: openPause, Watched: true}
	}
	if wait := g.policies.Settled(); wait > 0 {
		const text = "the certificate policies have just changed; the request is decided again in a moment"
		return &signer.PendingError{Reason: certpolicy.ReasonUnavailable, Message: text, Err: errors.New(text), RetryAfter: wait}
	}
	reason, message := d.Reason, d.Message
	switch {
	case d.Outcome == v1alpha1.OutcomeNeedPeople:
		message = "approved past " + message + "; make another request"
	case g.approved.ByPolicy && d.Input.Certificate == nil && d.Reason != certpolicy.ReasonQuota:
		reason, message = certpolicy.ReasonChanged, "approved under a policy that has changed: "+message
	}
	return signer.Permanent(reason, &quorum.Refusal{Reason: reason, Message: message})
}

// openPause is when to decide again about a request for which facts are not
// known.
const openPause = time.Second

func unknown(err error) error {
	return &signer.PendingError{Reason: certpolicy.ReasonUnavailable, Message: err.Error(), Err: fmt.Errorf("deciding by policies: %w", err), RetryAfter: openPause}
}
