// Package requestapprove decides about CertificateRequests: by the certificate
// policies, and approves what these leave, as cert-manager does.
package requestapprove

import (
	"context"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/collector/certmetrics"
	"github.com/certplane/certplane/internal/issueoncreate"
	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/turns"
	"github.com/certplane/certplane/internal/worker"
)

const (
	// Name is the controller's name on the command line.
	Name = "certificaterequests-approver"
	// Component is the approver's name in managed fields and Events.
	Component = "cert-manager-" + Name
)

// approval is the reason and message of the condition on approved requests.
var approval = issuance.Finding{Reason: certmanager.Group, Message: "Certificate request has been approved by cert-manager.io"}

// reasonForbidden means that the approver has no right to approve for an
// issuer.
const reasonForbidden = "ApprovalForbidden"

// reasonReview means that the decision is left to another approver.
const reasonReview = "ReviewRequired"

// Config is what the approver needs to run.
type Config struct {
	// Client is the approver's own identity. It needs update on
	// certificaterequests/status, and approve on the signers of cert-manager.io.
	Client client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Policies, if not nil, decide first.
	Policies *policies.Policies
	// OnCreate, if not nil, has requests approved in the calls that create them, too.
	OnCreate *issueoncreate.Hub
	// ReviewCAs leaves requests for CA certificates to another approver.
	ReviewCAs bool
	// Leases, if not nil, has the Leases of approver-policy, see LeaseCache: an
	// Event on them tells that both work.
	Leases cache.Cache
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records what was approved and what could not be.
	Events events.EventRecorder
	// Metrics, if not nil, are the metrics of the work.
	Metrics *certmetrics.Metrics
}

// Add adds the approver to mgr, whose cache it reads. It works while the API has
// CertificateRequests.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	err := mgr.Add(&reconciler{Config: cfg, cache: issueoncreate.Cache(mgr.GetCache())})
	if err == nil && cfg.Leases != nil {
		err = mgr.Add(&otherApprover{Config: cfg, told: map[types.NamespacedName]string{}})
	}
	if err != nil {
		return fmt.Errorf("adding the approver of CertificateRequests: %w", err)
	}
	return nil
}

type reconciler struct {
	Config
	cache cache.Cache
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(cmv1.SchemeGroupVersion, "certificaterequests", r.Versions).While(ctx, Name, "Approving CertificateRequests", r.work)
}

// The first and the longest wait before the next attempt for a request that
// could not be approved.
const (
	firstPause = 5 * time.Second
	lastPause  = 5 * time.Minute
)

const concurrency = 5

func (r *reconciler) work(ctx context.Context, _ string) error {
	approving, err := worker.New(ctx, Name, r.Metrics.Count(Name, r), worker.Options{
		Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: time.Minute,
	})
	if err != nil {
		return err
	}
	undecided := predicate.NewPredicateFuncs(isUndecided)
	undecided.UpdateFunc = func(e event.UpdateEvent) bool { return isUndecided(e.ObjectNew) || isUndecided(e.ObjectOld) }
	err = approving.Watch(source.Kind[client.Object](r.cache, &cmv1.CertificateRequest{}, turns.New(r.Clock), undecided))
	if err == nil && r.Policies != nil {
		err = approving.Watch(source.Func(r.retryWithPolicies))
	}
	if err != nil {
		return err
	}
	r.OnCreate.Start(ctx, issueoncreate.Step{
		Resource: cmv1.Resource("certificaterequests"), Role: issueoncreate.Approve, Takes: isUndecided, Reconciler: r,
	})
	return approving.Start(ctx)
}

func isUndecided(o client.Object) bool {
	cr, ok := o.(*cmv1.CertificateRequest)
	return ok && requests.Undecided(cr)
}

// conflictPause is how long to wait after another client has changed the
// object: the cache has the change by then.
const conflictPause = 500 * time.Millisecond

// Reconcile decides about one request.
func (r *reconciler) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	cr := &cmv1.CertificateRequest{}
	if err := r.cache.Get(ctx, key.NamespacedName, cr); err != nil {
		if apierrors.IsNotFound(err) {
			r.Policies.Ended(request.CertificateRequests, key.NamespacedName)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	asked, conditions := request.FromCertificateRequest(cr), policies.ConditionsOf(cr)
	r.reportVotes(cr, asked, conditions)
	if issueoncreate.Is(ctx) { // nothing tells of its end later
		defer r.Policies.Ended(request.CertificateRequests, key.NamespacedName)
	}
	if !requests.Undecided(cr) {
		r.Policies.Ended(request.CertificateRequests, key.NamespacedName)
		return reconcile.Result{}, nil
	}
	action := r.Policies.Next(ctx, asked, conditions)
	if action.Step != policies.StepLeave {
		return r.act(ctx, cr, action)
	}
	if r.ReviewCAs && asked.AsksForCA() {
		r.event(cr, corev1.EventTypeNormal, reasonReview, fmt.Sprintf(
			"Requests for CA certificates are not approved automatically: decide with 'certplane approve -n %s %s' or 'certplane deny -n %s %s'",
			cr.Namespace, cr.Name, cr.Namespace, cr.Name))
		return reconcile.Result{}, nil
	}
	if err := issuance.SetDecision(cr, cmv1.CertificateRequestConditionApproved, approval, r.Clock.Now()); err != nil {
		return reconcile.Result{}, nil // it has been decided
	}
	return r.write(ctx, cr, reconcile.Result{}, func() {
		log.FromContext(ctx).V(1).Info("Approved request", "uid", cr.UID, "requester", cr.Spec.Username, "issuer", cr.Spec.IssuerRef)
		if certmanager.OwnerCertificate(cr) == "" { // otherwise the Events of the Certificate are enough
			r.event(cr, corev1.EventTypeNormal, approval.Reason, approval.Message)
		}
	})
}

// write stores the conditions of a request, and then reports that.
func (r *reconciler) write(ctx context.Context, cr *cmv1.CertificateRequest, next reconcile.Result, report func()) (reconcile.Result, error) {
	err := r.Client.Status().Update(ctx, cr, client.FieldOwner(Component))
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case apierrors.IsForbidden(err):
		r.event(cr, corev1.EventTypeWarning, reasonForbidden, whyForbidden(cr, err))
		return reconcile.Result{}, fmt.Errorf("approving: %w", err)
	case err != nil:
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	report()
	return next, nil
}

// whyForbidden returns what to do about a request that the API does not let the
// approver approve.
func whyForbidden(cr *cmv1.CertificateRequest, err error) string {
	todo := fmt.Sprintf("grant it the verb approve on signers.%s, for names see the documentation, or decide with 'certplane approve -n %s %s'",
		certmanager.Group, cr.Namespace, cr.Name)
	if ref := cr.Spec.IssuerRef; !certmanager.IsBuiltIn(ref) && strings.Contains(err.Error(), certmanager.MessageNoSigner) {
		todo = fmt.Sprintf("install the program that provides the kind %s of %s, or correct spec.issuerRef in another request", certmanager.IssuerKind(ref), ref.Group)
	}
	return fmt.Sprintf("%s may not approve it: %s. %v", Component, todo, err)
}

func (r *reconciler) event(about client.Object, kind, reason, text string) {
	if r.Events != nil {
		r.Events.Eventf(about, nil, kind, reason, "Approve", "%s", note.Fit(text))
	}
}
