package requestsign

import (
	"context"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/engine"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
)

// remind returns the reminder about a request that waits for its approval or for another
// controller. Installations of issuers of other programs are often incomplete in this
// respect.
func remind(cr *cmv1.CertificateRequest, due requests.Step) engine.Reminder {
	since := cr.CreationTimestamp.Time
	if due == requests.Await {
		return engine.Reminder{Since: since, Reason: EventAwaits, Text: "Not signing CertificateRequest until it is Approved: " + decideByHand(cr)}
	}
	approved := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionApproved)
	if approved == nil {
		return engine.Reminder{Since: since, Reason: EventElsewhere, Text: "The request is not approved: " + decideByHand(cr)}
	}
	if approved.LastTransitionTime != nil {
		since = approved.LastTransitionTime.Time
	}
	return engine.Reminder{Since: since, Reason: EventElsewhere, Text: fmt.Sprintf(
		"The request is approved, but no controller has answered it: check that the controller for issuers of the group %s is running",
		certmanager.IssuerGroup(cr.Spec.IssuerRef))}
}

func decideByHand(cr *cmv1.CertificateRequest) string {
	return fmt.Sprintf("an approver decides with 'certplane approve -n %[1]s %[2]s' or 'certplane deny -n %[1]s %[2]s'", cr.Namespace, cr.Name)
}

// attempt is one attempt to answer a request.
type attempt struct {
	*reconciler
	cr     *cmv1.CertificateRequest
	report outcome.Report
	// found is the issuer, once it can sign; req is the request to it.
	found cmv1.GenericIssuer
	req   issuing.Request
}

func (r *reconciler) begin(cr *cmv1.CertificateRequest) engine.Attempt {
	by := certmanager.ReferredSigner(cr)
	return &attempt{reconciler: r, cr: cr, report: outcome.Report{
		Object: cr, Signer: by.String(), Facts: []any{"signer", by.String(), "uid", cr.UID, "requester", cr.Spec.Username},
		Metrics: r.metrics, Clock: r.Clock, Start: r.Clock.Now(),
	}}
}

// Checks implements engine.Attempt.
func (a *attempt) Checks() []engine.Check { return []engine.Check{a.findIssuer, a.readTerms} }

func (a *attempt) findIssuer(ctx context.Context) (*outcome.Outcome, error) {
	who := certmanager.ReferredSigner(a.cr)
	found, err := find(ctx, a.cache, who)
	if err != nil {
		return nil, err
	}
	if obstacle := requests.ObstacleOf(found, who, a.Issuers.Has); !obstacle.None() {
		return new(outcome.Wait(obstacle.Reason, "%s", obstacle.Message)), nil
	}
	a.found = found
	return nil, nil
}

func (a *attempt) readTerms(context.Context) (*outcome.Outcome, error) {
	var err error
	if a.req, err = issuing.RequestOf(request.FromCertificateRequest(a.cr)); err != nil {
		return new(decide(nil, err)), nil
	}
	return nil, nil
}

// Sign implements engine.Attempt.
func (a *attempt) Sign(ctx context.Context) outcome.Outcome {
	a.waiting.put(client.ObjectKeyFromObject(a.cr), a.Issuers.Needs(a.found, a.req))
	sign := a.Policies.Guard(a.Records.Sign(a.ask), policies.ApprovedBy(a.cr))
	issued, err := sign(ctx, a.req.Request, a.report.Start)
	return atPace(decide(issued, err), err)
}

// ask asks the issuer.
func (a *attempt) ask(ctx context.Context, req request.Request, permitted signer.Permission, now time.Time) (*signer.Issued, error) {
	asked := a.req
	asked.Request, asked.Permission = req, permitted
	return a.Issuers.Sign(ctx, a.found, asked, now)
}

// atPace schedules the next attempt of a request at the time that its issuer sets.
func atPace(o outcome.Outcome, err error) outcome.Outcome {
	if wait := new(signer.PendingError); errors.As(err, &wait) && wait.Paced {
		o.After = wait.RetryAfter
	}
	return o
}

// Put implements engine.Attempt: in the name of the component that answers for
// issuers of the type.
func (a *attempt) Put(ctx context.Context, o outcome.Outcome) (reconcile.Result, error) {
	by, component := certmanager.NoType, Component
	if a.found != nil {
		by = certmanager.TypeOf(a.found.GetSpec())
	}
	if t, ok := a.Issuers.Find(by); ok {
		component = t.Component
	}
	if a.report.Recorder = a.Events[by]; o.Class != "" && len(a.waiting.said.News(client.ObjectKeyFromObject(a.cr), cause{a.cr.UID, o.Class})) == 0 {
		a.report.Recorder = nil
	}
	a.report.OnlyWarnings = certmanager.OwnerCertificate(a.cr) != ""
	due := requests.Due(a.cr)
	kind := outcome.CertificateRequests(a.Client, outcome.UpdateRequest(a.Client, component), a.Clock, func(latest *cmv1.CertificateRequest) bool {
		return requests.Due(latest) == due
	})
	kind.Records = a.Records
	return kind.Put(ctx, a.cr, o, a.report)
}
