package venafi

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/venafi/internal/signer/venafi"
)

// messageRequested is the message of a request whose certificate was just ordered.
const messageRequested = "certificate is requested"

// attempt is one attempt to answer a request.
type attempt struct {
	*backend
	words
	req    issuing.Request
	issuer venafi.Issuer
	order  venafi.Order
	csr    *x509.CertificateRequest
	now    time.Time
}

// Sign orders the certificate for a request, or retrieves it if it is ordered.
func (b *backend) Sign(ctx context.Context, by cmv1.GenericIssuer, req issuing.Request, now time.Time) (*signer.Issued, error) {
	a, err := b.newAttempt(by, req, now)
	var issued *signer.Issued
	if err == nil {
		issued, err = a.answer(ctx)
	}
	if err == nil || errors.As(err, new(*signer.PermanentError)) {
		b.turns.leave(req.UID)
		b.pickups.forget(req.UID)
	}
	return issued, err
}

func (b *backend) newAttempt(by cmv1.GenericIssuer, req issuing.Request, now time.Time) (*attempt, error) {
	say := wordsFor(req)
	csr, err := req.ParseVerbatim()
	if err == nil {
		err = req.CheckDuration()
	}
	if err != nil {
		return nil, issuing.Permanent(say.request, say.requestText, err)
	}
	if problem := problemOf(by.GetSpec().Venafi); problem != "" {
		return nil, issuing.Pending(say.init, say.initText+": "+problem, nil) // a newer spec than the one that was ready
	}
	fields, err := fieldsFor(by, req, say)
	if err != nil {
		return nil, signer.Permanent(say.customFields, err)
	}
	return &attempt{
		backend: b, words: say, req: req, issuer: b.issuerOf(by), csr: csr, now: now,
		order: venafi.Order{ID: req.UID, PEM: req.PEM, CSR: csr, Duration: req.Lifetime().Max, Fields: fields},
	}, nil
}

// fieldsFor returns the custom fields of a request. CertificateSigningRequests do
// not have those of their issuer.
func fieldsFor(by cmv1.GenericIssuer, req issuing.Request, say words) ([]venafi.CustomField, error) {
	if req.Kind != request.CertificateRequests {
		fields, err := fieldsOf(say.fields, "", req.ObjectAnnotations)
		if err != nil {
			return nil, err
		}
		return orderFields(fields)
	}
	ofIssuer, err := fieldsOf(say.fields, by.GetName(), by.GetAnnotations())
	if err != nil {
		return nil, err
	}
	ofRequest, err := fieldsOf(say.fields, req.Name, req.ObjectAnnotations)
	if err != nil {
		return nil, err
	}
	ordered, err := orderFields(mergeFields(ofIssuer, ofRequest))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, err) // the form that clients expect
	}
	return ordered, nil
}

func (a *attempt) answer(ctx context.Context) (*signer.Issued, error) {
	id := a.req.ObjectAnnotations[a.pickup]
	place, exclusive := a.issuer.PlaceOf(a.order)
	if exclusive && !a.turns.take(place, a.req.UID, a.now) && id == "" {
		return nil, &signer.PendingError{
			Reason: ReasonPending, Message: fmt.Sprintf("waiting for another request for the object %q in the zone %q", place.Name, a.issuer.Zone),
			Err: errors.New("another request is under way"), RetryAfter: lastPoll, Paced: true,
		}
	}
	if id == "" {
		return nil, a.obtain(ctx)
	}
	return a.fetch(ctx, id)
}

// obtain orders the certificate and stores its identifier. It returns an error that makes
// the request wait, or the reason why the request does not wait.
func (a *attempt) obtain(ctx context.Context) error {
	on, err := a.current(ctx, a.req)
	if err != nil {
		return a.unstored(err)
	}
	id := a.pickups.unstored(a.req.UID)
	if id == "" && on.GetAnnotations()[a.pickup] == "" {
		if id, err = a.servers.Request(ctx, a.issuer, a.accessOf(a.issuer), a.order); err != nil {
			a.turns.leave(a.req.UID)
			return a.verdict(err, a.req, a.now, a.request, a.requestText)
		}
		a.pickups.put(a.req.UID, id, a.now)
	}
	stored, err := a.store(ctx, on, a.req, a.pickup, id)
	if err != nil {
		return a.unstored(err)
	}
	if id != "" && stored != id {
		klog.FromContext(ctx).Info("Two attempts have ordered a certificate for one request; the one that was stored first counts", "request", a.req.Name)
	}
	a.pickups.put(a.req.UID, "", a.now)
	return &signer.PendingError{
		Reason: ReasonPending, Message: messageRequested, Err: errors.New(messageRequested), RetryAfter: firstPoll, Paced: true,
	}
}

// unstored is the verdict if a request could not be read, or its identifier not be
// stored.
func (a *attempt) unstored(err error) error {
	if errors.Is(err, errGone) {
		a.turns.leave(a.req.UID)
		a.pickups.forget(a.req.UID)
	}
	return signer.Unavailable(err)
}

// fetch retrieves the certificate, without waiting for it.
func (a *attempt) fetch(ctx context.Context, id string) (*signer.Issued, error) {
	if wait, why := a.pickups.due(a.req.UID, a.now); wait > 0 {
		return nil, a.pending(why, wait)
	}
	chain, err := a.servers.Retrieve(ctx, a.issuer, a.accessOf(a.issuer), id, a.order)
	var pending *venafi.PendingError
	switch {
	case errors.As(err, &pending):
		text := a.pendingText
		if a.req.Kind == request.CertificateRequests {
			text += ": " + err.Error()
		}
		return nil, a.pending(text, a.pickups.later(a.req.UID, text, a.now))
	case err != nil:
		return nil, a.verdict(err, a.req, a.now, a.retrieve, a.retrieveText)
	}
	return a.accept(chain)
}

// pending is the verdict about a certificate that has not been issued yet.
func (a *attempt) pending(text string, wait time.Duration) error {
	return &signer.PendingError{Reason: ReasonPending, Message: text, Err: errors.New(text), RetryAfter: wait, Paced: true}
}
