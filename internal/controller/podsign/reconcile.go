package podsign

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/policies"
)

// reconciler answers requests of one version of the API.
type reconciler struct {
	*controller
	version certificates.PodRequestVersion
	objects client.Reader // the cache, and the request that is being created
}

// signerOf returns the signer that a request is for, or nil.
func (r *reconciler) signerOf(req *podRequest) *declared.Signer {
	signer := r.Signers.Find(req.Spec.SignerName)
	if signer == nil || !signer.Serves(v1alpha1.PodCertificateRequests) {
		return nil
	}
	return signer
}

// Reconcile answers one request, if it is pending.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	object := r.version.New()
	if err := r.objects.Get(ctx, key.NamespacedName, object); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	req := certificates.PodRequestFrom(object)
	by := r.signerOf(req)
	if by == nil || !pending(req) {
		return reconcile.Result{}, nil
	}
	start := r.Clock.Now()
	o := decide(r.sign(ctx, req, by, start))
	report := r.reportOn(req, start)
	if o.State == outcome.Waiting && issueoncreate.Is(ctx) {
		return reconcile.Result{}, nil
	}
	if o.State == outcome.Waiting {
		if by.Unready != nil {
			o.After = lastPause // a change of the signer's state triggers the requests again
		}
		if !r.warnings.TryAccept() {
			report.Recorder = nil
		}
		report.Delayed(ctx, o)
		return outcome.Again(o)
	}
	if issueoncreate.Is(ctx) && o.AsRequested() {
		report.Recorder = nil // an Event would be another write
	}
	return r.requests().Put(ctx, req, o, report)
}

// requests returns how requests are read and answered.
func (r *reconciler) requests() outcome.Kind[*podRequest] {
	return outcome.Kind[*podRequest]{
		Read: func(ctx context.Context, key client.ObjectKey) (*podRequest, error) {
			object := r.version.New()
			err := r.Client.Get(ctx, key, object)
			return certificates.PodRequestFrom(object), err
		},
		Write: func(ctx context.Context, req *podRequest, o outcome.Outcome) error {
			return r.Client.Status().Update(ctx, r.version.From(apply(req, o, r.Clock.Now())))
		},
		Shows: shows, Waits: pending, Records: r.Records, OnlyFinal: true,
	}
}

func (r *reconciler) sign(ctx context.Context, req *podRequest, by *declared.Signer, now time.Time) (*signer.Issued, error) {
	if by.Unready != nil {
		return by.Sign(ctx, noFacts, signer.Permission{}, now)
	}
	facts, err := r.facts(ctx, req, by)
	if err != nil {
		return nil, err
	}
	return r.Policies.Guard(r.Records.Sign(by.Sign), policies.Approved{})(ctx, facts, now)
}
