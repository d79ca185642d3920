package policies

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"fmt"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies/stored"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/renewable"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// Renewals finds what requests may renew, for the server and for its tools.
type Renewals struct {
	// Load reads a stored request. It returns nil if no request has the UID.
	Load func(context.Context, v1alpha1.StoredRequest) (client.Object, error)
	// Open opens the approvals of people.
	Open quorum.OpenFunc
	// Authorities returns the CAs of the signer of a request; none if they are not
	// known.
	Authorities func(context.Context, *request.Request) ([]*x509.Certificate, error)
}

// Of returns the requests of an owner that a request may renew. The fact is not known
// if one of them, or the keys that verify it, cannot be read: then it returns an error.
func (f Renewals) Of(ctx context.Context, r *request.Request, of []v1alpha1.StoredRequest) (certpolicy.Fact[v1alpha1.EarlierRequests], error) {
	var all v1alpha1.EarlierRequests
	for _, one := range of {
		first, err := f.candidate(ctx, r, one)
		var unread *unreadError
		switch {
		case errors.As(err, &unread):
			return certpolicy.Fact[v1alpha1.EarlierRequests]{}, fmt.Errorf("finding out whether the request %s renews %s: %w", r.Name, one.Name, err)
		case err != nil:
			klog.FromContext(ctx).V(2).Info("A request does not renew an earlier one", "name", r.Name, "earlier", one.Name, "because", err.Error())
		case first != nil:
			all.Requests = append(all.Requests, first.EarlierRequest)
		}
	}
	return certpolicy.Known(&all), nil
}

// unreadError is the error of an object that could not be read.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

// candidate returns an earlier request if r may renew it; nil if it no longer exists.
func (f Renewals) candidate(ctx context.Context, r *request.Request, one v1alpha1.StoredRequest) (*renewable.Candidate, error) {
	object, err := f.Load(ctx, one)
	if err != nil {
		return nil, &unreadError{err}
	}
	before := storedOf(object)
	if before == nil {
		return nil, nil
	}
	first, err := renewable.Earlier(r, before, f.Open)
	if err != nil {
		return nil, err
	}
	authorities, err := f.Authorities(ctx, &before.Request)
	if err != nil {
		return nil, &unreadError{err}
	}
	return first, first.CheckSignature(authorities)
}

// PublishedRenewals finds the requests of an owner that a request may renew, with the
// facts that the server publishes, for programs outside of the server. The CAs of
// issuers of cert-manager.io are not published.
func PublishedRenewals(ctx context.Context, api client.Reader, keys []ed25519.PublicKey, r *request.Request, of []v1alpha1.StoredRequest) (certpolicy.Fact[v1alpha1.EarlierRequests], error) {
	return Renewals{
		Load: func(ctx context.Context, one v1alpha1.StoredRequest) (client.Object, error) {
			return stored.Get(ctx, api, one)
		},
		Open: VerifiedBy(keys),
		Authorities: func(ctx context.Context, r *request.Request) ([]*x509.Certificate, error) {
			if r.Issuer != nil {
				return nil, errIssuersCA
			}
			roots, err := BundledRoots(ctx, api, r.SignerName)
			if err == nil && len(roots) == 0 {
				err = errNoBundle
			}
			return roots, err
		},
	}.Of(ctx, r, of)
}

// Facts that programs outside of the server cannot read.
var (
	errIssuersCA = errors.New("only the server knows the CAs of issuers")
	errNoBundle  = errors.New("no trust bundle holds the roots of the signer")
)

// storedOf returns a request with its conditions and certificate; nil if it cannot be
// renewed.
func storedOf(object client.Object) *renewable.Stored {
	k := requestkind.Of(object)
	if k == nil || k.Decision == nil {
		return nil
	}
	return &renewable.Stored{Request: k.View(object), Conditions: k.Conditions(object), Certificate: k.Certificate(object)}
}
