package acmeorders

import (
	"context"
	"crypto/x509"
	"encoding/base64"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

// Reasons of Events about orders.
const (
	eventWaiting = "WaitingForApproval"
	eventDenied  = "Denied"
	eventIssued  = "Issued"
	eventRefused = "Refused"
	eventWrong   = "IssuedSomethingElse"
	eventCarried = "ApprovalCarriedOver"
)

const (
	// quiet is how long a request may wait before the order and an Event report it: most
	// requests are answered at once, and need no further write.
	quiet = 5 * time.Second
	// lookAgain is the time between two checks of a waiting order without an event: a
	// change of its request may have been missed.
	lookAgain = time.Minute
)

// Reconcile takes the next step for one order.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	cached := &v1alpha1.AcmeOrder{}
	err := r.cache.Get(ctx, key.NamespacedName, cached, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return r.afterDeletion(ctx, key.NamespacedName)
	case err != nil:
		return reconcile.Result{}, err
	}
	if !isProcessing(cached) {
		return reconcile.Result{}, nil
	}
	// An outdated version of the order could cause a second request.
	o := &v1alpha1.AcmeOrder{}
	if err := r.Client.Get(ctx, key.NamespacedName, o); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !isProcessing(o) {
		return reconcile.Result{}, nil
	}
	p := &pass{reconciler: r, o: o}
	result, err := p.run(ctx)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: worker.ConflictPause}, nil
	}
	return result, err
}

// pass is one pass over an order.
type pass struct {
	*reconciler
	// o is the order, including changes that are not written yet.
	o       *v1alpha1.AcmeOrder
	changed bool
	// reports are called once the order is stored.
	reports []func()
}

// run takes all steps that need no wait, and stores their results with one write. The name
// of the request was already stored together with the certificate request.
func (p *pass) run(ctx context.Context) (reconcile.Result, error) {
	endpoint, err := p.facts.Endpoint(ctx, p.o.Spec.Endpoint)
	if apierrors.IsNotFound(err) {
		p.refuse(acmeorder.EndpointGone())
		return reconcile.Result{}, p.write(ctx)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	result, err := p.follow(ctx, endpoint)
	if err != nil {
		return reconcile.Result{}, err
	}
	return result, p.write(ctx)
}

// follow creates the request if it does not exist, and applies its answer.
func (p *pass) follow(ctx context.Context, endpoint *acmeorder.Endpoint) (reconcile.Result, error) {
	made, err := p.stored(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	uid := ""
	if made != nil {
		uid = made.view.UID
	}
	switch acmeorder.NextRequestStep(p.o, uid, p.Clock.Now()) {
	case acmeorder.RequestToMake:
		if err := p.nameAgain(ctx, made); err != nil {
			return reconcile.Result{}, err
		}
		if made, err = p.request(ctx, endpoint, made); made == nil || err != nil {
			return reconcile.Result{}, err
		}
		p.set(acmeorder.RecordRequest(p.o, made.object.GetUID(), p.Clock.Now()))
	case acmeorder.RequestMade:
	case acmeorder.RequestLost:
		p.refuse(acmeorder.LostRequest())
		return reconcile.Result{}, nil
	default:
		return reconcile.Result{}, nil
	}
	return p.judge(ctx, endpoint, made)
}

// judge applies the state of a request to the order.
func (p *pass) judge(ctx context.Context, endpoint *acmeorder.Endpoint, made *made) (reconcile.Result, error) {
	now := p.Clock.Now()
	verdict := acmeorder.Judge(made.standing, p.o.Name, endpoint.Spec().Approval.HideReasons)
	switch {
	case verdict.Denied:
		reason, message := made.standing.Denied.Reason, made.standing.Denied.Message
		if err := p.endCarrying(ctx, reason); err != nil {
			return reconcile.Result{}, err
		}
		p.end(acmeorder.Deny(p.o, verdict.Problem, reason, now), corev1.EventTypeWarning, eventDenied, "The request was denied: "+reason+": "+message)
		return reconcile.Result{}, nil
	case verdict.Problem != nil:
		text := verdict.Problem.Detail
		if failed := made.standing.Failed; failed != nil {
			text = failed.Reason + ": " + failed.Message
		}
		p.end(acmeorder.Fail(p.o, verdict.Problem, nil, now), corev1.EventTypeWarning, eventRefused, text)
		return reconcile.Result{}, nil
	}
	if verdict.Issued != nil {
		p.recordApproval(made)
		p.issue(ctx, endpoint, made, verdict.Issued)
		return reconcile.Result{}, nil
	}
	if verdict.WaitsFor == acmeorder.WaitsForApproval {
		if err := p.compareWithOthers(ctx, endpoint); err != nil {
			return reconcile.Result{}, err
		}
	}
	if p.o.Status.Finalized != nil && now.Before(p.o.Status.Finalized.Add(quiet)) {
		return reconcile.Result{RequeueAfter: p.o.Status.Finalized.Add(quiet).Sub(now)}, nil
	}
	if verdict.WaitsFor == acmeorder.WaitsForSigner {
		p.recordApproval(made)
	}
	if s := acmeorder.RecordWait(p.o, verdict, now); s != nil {
		p.set(s)
		if verdict.WaitsFor == acmeorder.WaitsForApproval {
			p.report(corev1.EventTypeNormal, eventWaiting, "The "+p.o.Status.Request.Kind+" "+p.o.Status.Request.Name+" waits for its approval")
		}
	}
	return reconcile.Result{RequeueAfter: lookAgain}, nil
}

// issue makes the order valid if the certificate matches it.
func (p *pass) issue(ctx context.Context, endpoint *acmeorder.Endpoint, made *made, chain []byte) {
	now := p.Clock.Now()
	issued := acmeorder.Issued{PEM: chain, Roots: func() []*x509.Certificate { return p.roots(ctx, made) }, SerialTaken: func(issuer []byte, serial string) bool { return p.serialTaken(ctx, issuer, serial) }}
	if d := made.view.Duration; d != nil {
		issued.Lifetime = *d
	}
	if profile := endpoint.Profile(p.o.Spec.Profile); profile != nil {
		issued.Prefer = acmeorder.PreferenceOf(endpoint.Object(), profile)
	}
	leaf, err := acmeorder.CheckLeaf(p.o, issued, now)
	if err != nil {
		log.FromContext(ctx).Error(err, "A signer issued a certificate that does not match the order", "request", p.o.Status.Request.Name)
		p.end(acmeorder.Fail(p.o, acmeorder.WrongLeafProblem(), acmeorder.WrongLeaf(chain, now), now), corev1.EventTypeWarning, eventWrong, err.Error())
		return
	}
	record := leaf.Record()
	p.end(acmeorder.Issue(p.o, leaf, now), corev1.EventTypeNormal, eventIssued, "The certificate "+record.Serial+" was issued, valid until "+record.NotAfter.UTC().Format(time.RFC3339))
}

// roots returns the published roots of the signer that answered the request. Without them,
// a chain may lack its root, which most clients do not need.
func (p *pass) roots(ctx context.Context, made *made) []*x509.Certificate {
	if made.view.Kind == v1alpha1.CertificateSigningRequests {
		return p.bundles.of(ctx, made.view.SignerName)
	}
	certs, err := pki.ParseBundle(requestkind.Of(made.object).CA(made.object))
	if err != nil {
		return nil
	}
	return certs
}

// serialTaken reports whether another order of the endpoint has a certificate with the same
// serial number and issuer.
func (p *pass) serialTaken(ctx context.Context, issuer []byte, serial string) bool {
	list := &v1alpha1.AcmeOrderList{}
	if err := p.cache.List(ctx, list, client.MatchingFields{bySerial: serial}, client.UnsafeDisableDeepCopy); err != nil {
		return false
	}
	of := base64.RawURLEncoding.EncodeToString(issuer) // the first part of a CertID
	for i := range list.Items {
		other := &list.Items[i]
		key, _, _ := strings.Cut(other.Status.Certificate.CertID, ".")
		if other.Spec.Endpoint == p.o.Spec.Endpoint && other.UID != p.o.UID && key == of {
			return true
		}
	}
	return false
}

// refuse ends the order with a problem that does not come from a request.
func (p *pass) refuse(problem *rfc8555.Problem) {
	p.end(acmeorder.Fail(p.o, problem, nil, p.Clock.Now()), corev1.EventTypeWarning, eventRefused, problem.Detail)
}

func (p *pass) end(s *v1alpha1.AcmeOrderStatus, kind, reason, text string) {
	if p.set(s) {
		p.report(kind, reason, text)
		p.reports = append(p.reports, p.measure)
	}
}

func (p *pass) measure() {
	p.metrics.count(p.o)
}

// set stores a changed status in the pass; nil means no change.
func (p *pass) set(s *v1alpha1.AcmeOrderStatus) bool {
	if s == nil {
		return false
	}
	p.o.Status, p.changed = *s, true
	return true
}

// write stores the status if it changed, and then calls the reports.
func (p *pass) write(ctx context.Context) error {
	if p.changed {
		if err := p.Client.Status().Update(ctx, p.o, client.FieldOwner(Name)); err != nil {
			return err
		}
		p.changed = false
	}
	p.tell()
	return nil
}

// tell calls the reports.
func (p *pass) tell() {
	for _, report := range p.reports {
		report()
	}
	p.reports = nil
}

func (p *pass) report(kind, reason, text string) {
	if p.Events != nil {
		p.reports = append(p.reports, func() { p.Events.Eventf(p.o, nil, kind, reason, "Order", "%s", eventtext.Fit(text)) })
	}
}
