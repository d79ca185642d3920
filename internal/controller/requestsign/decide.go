package requestsign

import (
	"context"
	"errors"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/engine"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer"
)

// refersTo reports whether a request refers to this issuer, provided that it
// is in a namespace from which it can refer to an Issuer.
func refersTo(cr *cmv1.CertificateRequest, to client.Object) bool {
	ref, kind := cr.Spec.IssuerRef, cmv1.IssuerKind
	if _, ok := to.(*cmv1.ClusterIssuer); ok {
		kind = cmv1.ClusterIssuerKind
	}
	return ref.Name == to.GetName() && certmanager.IssuerKind(ref) == kind && certmanager.IsBuiltIn(ref)
}

// The reasons of Events. Those of verdicts are in the packages of
// internal/issuing, those of issuers that cannot sign in
// internal/policy/requests.
const (
	EventIssued    = "CertificateIssued"
	EventAwaits    = "WaitingForApproval"
	EventAwaitsCSR = "WaitingApproval" // of CertificateSigningRequests
	EventElsewhere = "WaitingForIssuer"
)

// decide turns a signer's answer into an outcome. A waiting request is tried again after
// the back-off of the queue, unless the signer sets a time.
func decide(issued *signer.Issued, err error) outcome.Outcome {
	o := outcome.Decide(issued, err, EventIssued)
	switch o.Note = ""; {
	case o.Issued != nil:
		o.Message = outcome.MessageIssued
	case o.State == outcome.Waiting:
		var wait *signer.PendingError
		o.Routine = true
		if o.After > 0 { // such a wait has no back-off
			o.After = max(o.After, engine.FirstPause)
		}
		if !errors.As(err, &wait) {
			o.Message = "The issuer cannot sign at present; it keeps trying"
		} else if wait.Watched {
			o.Retry = nil
		}
	}
	return o
}

// find returns an issuer, or nil if it does not exist.
func find(ctx context.Context, cache client.Reader, who certmanager.Signer) (cmv1.GenericIssuer, error) {
	found, err := certmanager.NewIssuer(who.Kind)
	if err != nil {
		return nil, err
	}
	err = cache.Get(ctx, types.NamespacedName{Namespace: who.Namespace, Name: who.Name}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the %s %s: %w", who.Kind, who.Name, err)
	}
	return found, nil
}
