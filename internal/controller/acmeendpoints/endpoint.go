package acmeendpoints

import (
	"context"
	"fmt"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/process/worker"
)

// Conditions of endpoints other than v1alpha1.Ready.
const (
	// approvalEnforced reports whether requests really wait for approval.
	approvalEnforced = "ApprovalEnforced"
	// backendsReady reports whether the Signers of profiles can sign. Signers of other
	// programs and issuers are not checked.
	backendsReady = "BackendsReady"
	// requestsKept reports whether requests are kept for as long as their orders wait.
	requestsKept = "RequestsKept"
	// certificateWaits is set while the server's next certificate has to wait.
	certificateWaits = v1alpha1.AcmeCertificateWaits
	// clockSkew is set while the clock of a process of the server is off.
	clockSkew = "ClockSkew"
	// approvalsCarried is set if approval.carryOver is set.
	approvalsCarried = "ApprovalsCarried"
	// chainsPublished is set if profiles prefer chains to certain roots. It reports whether
	// such chains exist.
	chainsPublished = "ChainsPublished"
)

// Reasons of conditions.
const (
	reasonReady           = "Ready"
	reasonInvalid         = "Invalid"
	reasonNotServed       = "NotServed"
	reasonNoCertificate   = "NoCertificate"
	reasonTokenForbidden  = "TokenForbidden"
	reasonEverything      = "EverythingIsApproved"
	reasonSignerNotReady  = "SignerNotReady"
	reasonEnforced        = "Enforced"
	reasonCleanedEarly    = "CleanedTooEarly"
	reasonKept            = "Kept"
	reasonApproverUnknown = "ApproverUnknown"
	reasonClockOff        = "ClockOff"
	reasonSealed          = "ApprovalsAreSealed"
	reasonRootUnknown     = "RootUnknown"
	reasonPublished       = "Published"
)

// reconcileEndpoint writes the status of one endpoint.
func (r *reconciler) reconcileEndpoint(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	e := &v1alpha1.AcmeEndpoint{}
	if err := r.cache.Get(ctx, key.NamespacedName, e); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if e.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	was := e.Status.DeepCopy()
	accounts, err := r.count(ctx, byEndpoint, e.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	ready, err := r.readyEndpoint(ctx, e)
	if err != nil {
		return reconcile.Result{}, err
	}
	s, published := &e.Status, r.publishedBy(ctx, &e.Spec)
	s.Roots = published.since(&e.Spec, s.Roots, r.Clock.Now())
	s.ObservedGeneration, s.Accounts, s.Directory, s.Trust = e.Generation, int64(accounts), r.Server.directory(e.Name), nil
	if fingerprint, roots := r.Server.trust(); fingerprint != "" {
		s.Trust = &v1alpha1.AcmeTrust{Fingerprint: fingerprint}
		if s.Trust.Bundle, err = r.keepBundle(ctx, e, roots, published); err != nil {
			return reconcile.Result{}, err
		}
	}
	set := func(c metav1.Condition) {
		c.ObservedGeneration, c.LastTransitionTime = e.Generation, metav1.NewTime(r.Clock.Now())
		meta.SetStatusCondition(&s.Conditions, c)
	}
	set(ready)
	backends, err := r.backendsOf(ctx, &e.Spec)
	if err != nil {
		return reconcile.Result{}, err
	}
	set(backends)
	set(r.Server.approvalOf(&e.Spec))
	for _, only := range []struct { // conditions that are not always there
		kind string
		now  *metav1.Condition
	}{
		{approvalsCarried, r.Server.carriedOver(&e.Spec)},
		{chainsPublished, published.chainsOf(&e.Spec)},
		{requestsKept, r.Server.keptFor(&e.Spec)},
		{certificateWaits, r.Server.nextCertificate()},
		{clockSkew, r.Server.skewed()},
	} {
		if only.now != nil {
			set(*only.now)
		} else {
			meta.RemoveStatusCondition(&s.Conditions, only.kind)
		}
	}
	again := lookAgain
	if ready.Status != metav1.ConditionTrue {
		again = soonAfter(s.Conditions, r.Clock.Now())
	}
	if apiequality.Semantic.DeepEqual(was, s) {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return worker.Kept(again, r.Client.Status().Update(ctx, e, client.FieldOwner(Name)))
}

// readyEndpoint returns the condition Ready: whether an endpoint accepts orders.
func (r *reconciler) readyEndpoint(ctx context.Context, e *v1alpha1.AcmeEndpoint) (metav1.Condition, error) {
	if _, errs := acmeorder.Compile(e); len(errs) > 0 {
		return notReady(reasonInvalid, errs.ToAggregate().Error()), nil
	}
	if r.Server.ExternalURL == "" {
		return notReady(reasonNotServed, "no ACME server is configured: set acmeServer in the configuration"), nil
	}
	if r.Server.WaitsFor != nil {
		if reason := r.Server.WaitsFor(); reason != "" {
			return notReady(reasonNoCertificate, "the ACME server cannot answer clients: its certificate waits for "+reason), nil
		}
	}
	if of := e.Spec.Accounts.ServiceAccount; of != nil {
		why, err := r.mayActAs(ctx, *of)
		if err != nil || why != "" {
			return notReady(reasonTokenForbidden, why), err
		}
	}
	return metav1.Condition{Type: v1alpha1.Ready, Status: metav1.ConditionTrue, Reason: reasonReady, Message: "the server accepts orders at " + r.Server.directory(e.Name)}, nil
}

// backendsOf returns the condition BackendsReady: whether the Signers of an endpoint can
// sign.
func (r *reconciler) backendsOf(ctx context.Context, e *v1alpha1.AcmeEndpointSpec) (metav1.Condition, error) {
	list := &v1alpha1.SignerList{}
	if err := r.cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return metav1.Condition{}, fmt.Errorf("listing Signers: %w", err)
	}
	for i := range list.Items {
		signer := &list.Items[i]
		ready := meta.FindStatusCondition(signer.Status.Conditions, v1alpha1.Ready)
		for _, profile := range e.Profiles {
			if profile.Signer == nil || profile.Signer.Name != signer.Spec.SignerName || ready == nil || ready.Status != metav1.ConditionFalse {
				continue
			}
			return metav1.Condition{
				Type: backendsReady, Status: metav1.ConditionFalse, Reason: reasonSignerNotReady,
				Message: fmt.Sprintf("the Signer %s of the profile %s is not ready: %s", signer.Name, profile.Name, ready.Message),
			}, nil
		}
	}
	return metav1.Condition{Type: backendsReady, Status: metav1.ConditionTrue, Reason: reasonReady, Message: "no Signer of a profile reports that it cannot sign"}, nil
}

func notReady(reason, message string) metav1.Condition {
	return metav1.Condition{Type: v1alpha1.Ready, Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// soonAfter returns the time until the next check of an object that is not ready: the time
// for which it has not been ready, within bounds. Rights granted together with an endpoint
// are found at once, and long failures cause few checks.
func soonAfter(conditions []metav1.Condition, now time.Time) time.Duration {
	ready := meta.FindStatusCondition(conditions, v1alpha1.Ready)
	if ready == nil {
		return soonest
	}
	return min(max(now.Sub(ready.LastTransitionTime.Time), soonest), soon)
}

// mayActAs returns the reason why requests cannot be created as a ServiceAccount; empty if
// they can.
func (r *reconciler) mayActAs(ctx context.Context, of v1alpha1.AcmeServiceAccount) (why string, err error) {
	allowed, err := r.allows(ctx, r.Server.Requester, acmeorder.ActAs(of.Namespace, of.Name))
	if err != nil || allowed {
		return "", err
	}
	return fmt.Sprintf("%s may not act as the ServiceAccount %s/%s: 'certplane acme allow -n %s %s' prints the Role that permits it",
		r.Server.Requester, of.Namespace, of.Name, of.Namespace, of.Name), nil
}

// allows reports whether the API's authorization permits an action of a user.
func (r *reconciler) allows(ctx context.Context, user string, what authorizationv1.ResourceAttributes) (bool, error) {
	who := request.User(user)
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: who.Username, Groups: who.Groups, ResourceAttributes: &what}}
	if err := r.Client.Create(ctx, review); err != nil {
		return false, fmt.Errorf("checking the rights of %s: %w", user, err)
	}
	return review.Status.Allowed && !review.Status.Denied, nil
}

// directory returns the URL of an endpoint's directory; empty without a server.
func (s Server) directory(endpoint string) string {
	if s.ExternalURL == "" {
		return ""
	}
	return strings.TrimSuffix(s.ExternalURL, "/") + "/acme/" + endpoint + "/directory"
}

// trust returns the fingerprint of the root of the server's certificate, and all of its
// roots; nothing if they are not known.
func (s Server) trust() (fingerprint string, roots []byte) {
	if s.ExternalURL == "" || s.Trust == nil {
		return "", nil
	}
	return s.Trust()
}

// approvalOf returns the condition ApprovalEnforced: whether the requests of an endpoint
// really wait for approval.
func (s Server) approvalOf(e *v1alpha1.AcmeEndpointSpec) metav1.Condition {
	var issuers []string
	for _, profile := range e.Profiles {
		if profile.Issuer != nil {
			issuers = append(issuers, profile.Name)
		}
	}
	if len(issuers) == 0 || !s.EverythingIsApproved {
		return metav1.Condition{Type: approvalEnforced, Status: metav1.ConditionTrue, Reason: reasonEnforced, Message: "requests wait for the approver, for certificate policies or for people"}
	}
	return metav1.Condition{
		Type: approvalEnforced, Status: metav1.ConditionFalse, Reason: reasonEverything,
		Message: "the controller certificaterequests-approver approves all CertificateRequests, including those for the profiles " + strings.Join(issuers, ", ") + ": disable it, or let certificate policies decide",
	}
}

// carriedOver returns the condition ApprovalsCarried: whether approvals by people count for
// later orders; nil if carryOver is not set.
func (s Server) carriedOver(e *v1alpha1.AcmeEndpointSpec) *metav1.Condition {
	period := e.Approval.CarryOver.Duration
	switch {
	case period <= 0:
		return nil
	case s.ApprovalsSealed == nil || !s.ApprovalsSealed():
		return &metav1.Condition{
			Type: approvalsCarried, Status: metav1.ConditionFalse, Reason: reasonApproverUnknown,
			Message: "approvals are not carried over, because the server does not record who approves a request. Each order needs its own approval",
		}
	}
	return &metav1.Condition{
		Type: approvalsCarried, Status: metav1.ConditionTrue, Reason: reasonSealed,
		Message: fmt.Sprintf("a person's approval of an order counts for %v for later orders of the account that do not ask for more", period),
	}
}

// nextCertificate returns a warning if the server's next certificate has to wait: the
// current one is served until it expires.
func (s Server) nextCertificate() *metav1.Condition {
	if s.NextWaitsFor == nil {
		return nil
	}
	reason := s.NextWaitsFor()
	if reason == "" {
		return nil
	}
	return &metav1.Condition{
		Type: certificateWaits, Status: metav1.ConditionTrue, Reason: reasonNoCertificate,
		Message: "the current certificate of the ACME server is served until it expires: the next one waits for " + reason,
	}
}

// maxSkew is the largest permitted difference between the clocks of processes. Stored times
// come from the clock of the process that wrote them.
const maxSkew = 30 * time.Second

// skewed returns a warning if the clock of another process differs by more than maxSkew.
func (s Server) skewed() *metav1.Condition {
	if s.Skew == nil || s.Skew().Abs() <= maxSkew {
		return nil
	}
	return &metav1.Condition{
		Type: clockSkew, Status: metav1.ConditionTrue, Reason: reasonClockOff,
		Message: "the clocks of two processes of the ACME server are more than 30 seconds apart: objects that one of them stores expire too early or too late for the other",
	}
}

// keptFor returns a warning if pending requests are deleted before the waiting time of
// their orders is over.
func (s Server) keptFor(e *v1alpha1.AcmeEndpointSpec) *metav1.Condition {
	if s.PendingRequestsFor <= 0 {
		return nil
	}
	c := &metav1.Condition{Type: requestsKept, Status: metav1.ConditionTrue, Reason: reasonKept, Message: "requests can wait for as long as their orders"}
	signers := false
	for _, profile := range e.Profiles {
		signers = signers || profile.Signer != nil
	}
	if waits := e.Orders.ProcessingFor.Duration; signers && s.PendingRequestsFor < waits {
		c.Status, c.Reason = metav1.ConditionFalse, reasonCleanedEarly
		c.Message = fmt.Sprintf("pending CertificateSigningRequests are deleted after %v, but orders may wait for %v: increase cleaning.pending, or reduce orders.processingFor", s.PendingRequestsFor, waits)
	}
	return c
}
