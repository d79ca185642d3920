package approving

import (
	"context"
	"fmt"
	"strings"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

const (
	// defaultName is the name on the command line of the approver by default.
	defaultName = "certificaterequests-approver"
	// DefaultComponent is its name in managed fields and Events.
	DefaultComponent = "cert-manager-" + defaultName
)

// The reason and message of the condition on requests that are approved by default.
const (
	defaultReason  = certmanager.Group
	defaultMessage = "Certificate request has been approved by cert-manager.io"
)

// reasonReview is the reason if another approver has to decide.
const reasonReview = "ReviewRequired"

// DefaultConfig is the configuration of the default approver.
type DefaultConfig struct {
	Config
	// ReviewCAs leaves requests for CA certificates to another approver.
	ReviewCAs bool
	// Leases, if not nil, has the Leases of approver-policy, see LeaseCache: an
	// Event on them tells that both work.
	Leases cache.Cache
	// Metrics, if not nil, are the metrics of the work.
	Metrics *certmetrics.Metrics
}

// AddDefault adds the approver of CertificateRequests to mgr, whose cache it reads: what the
// policies leave it approves, as cert-manager does. It works while the API has
// CertificateRequests. Its account needs update on certificaterequests/status, and approve
// on the signers of cert-manager.io.
func AddDefault(mgr ctrl.Manager, cfg DefaultConfig) error {
	cfg.Config = cfg.withDefaults()
	objects := issueoncreate.Cache(mgr.GetCache())
	d := &byDefault{cfg, objects, approver{
		Config: cfg.Config, kind: requestkind.CertificateRequests, cache: objects, actor: true,
		owner: DefaultComponent, conflictPause: 500 * time.Millisecond, cannotWake: mayDecide,
	}}
	d.rules = rules{takes: func(o client.Object) bool { return requestkind.Undecided(o) }, left: d.left, failed: d.failed}
	err := mgr.Add(d)
	if err == nil && cfg.Leases != nil {
		err = mgr.Add(&otherApprover{DefaultConfig: cfg})
	}
	if err != nil {
		return fmt.Errorf("adding the approver of CertificateRequests: %w", err)
	}
	return nil
}

type byDefault struct {
	cfg     DefaultConfig
	objects cache.Cache
	approver
}

// Start implements manager.Runnable.
func (d *byDefault) Start(ctx context.Context) error {
	return worker.OneVersion(cmv1.SchemeGroupVersion, "certificaterequests", d.Versions).While(ctx, defaultName, "Approving CertificateRequests", d.work)
}

// The first and the longest wait before the next attempt for a request that
// could not be approved.
const (
	firstPause = 5 * time.Second
	lastPause  = 5 * time.Minute
)

func (d *byDefault) work(ctx context.Context, _ string) error {
	const concurrency = 5
	return d.watch(ctx, defaultName, d.cfg.Metrics.Count(defaultName, d), worker.Options{
		Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: time.Minute,
	}, source.Kind[client.Object](d.objects, d.kind.New(), fairqueue.New(d.Clock), changes(d.takes)))
}

// left approves, but for requests for CAs if these are reviewed.
func (d *byDefault) left(ctx context.Context, p *pass, _ policies.Outcome) (reconcile.Result, error) {
	if d.cfg.ReviewCAs && p.asked.AsksForCA() {
		d.event(p.object, corev1.EventTypeNormal, reasonReview, fmt.Sprintf(
			"Requests for CA certificates are not approved automatically: decide with 'certplane approve -n %s %s' or 'certplane deny -n %s %s'",
			p.asked.Namespace, p.asked.Name, p.asked.Namespace, p.asked.Name))
		return reconcile.Result{}, nil
	}
	decision := quorum.Condition{Type: requestkind.Approved, Reason: defaultReason, Message: defaultMessage}
	return d.decide(ctx, p, decision, reconcile.Result{}, func() {
		cr := p.object.(*cmv1.CertificateRequest)
		log.FromContext(ctx).V(1).Info("Approved request", "uid", cr.UID, "requester", cr.Spec.Username, "issuer", cr.Spec.IssuerRef)
		if certmanager.OwnerCertificate(cr) == "" { // otherwise the Events of the Certificate are enough
			d.event(cr, corev1.EventTypeNormal, defaultReason, defaultMessage)
		}
	})
}

func (d *byDefault) failed(_ context.Context, p *pass, err error) (reconcile.Result, error) {
	if !apierrors.IsForbidden(err) {
		return reconcile.Result{}, err
	}
	d.event(p.object, corev1.EventTypeWarning, reasonForbidden, whyForbidden(p.object.(*cmv1.CertificateRequest), err))
	return reconcile.Result{}, fmt.Errorf("approving: %w", err)
}

// whyForbidden returns what to do about a request that the API does not let the
// approver approve.
func whyForbidden(cr *cmv1.CertificateRequest, err error) string {
	todo := fmt.Sprintf("grant it the verb approve on signers.%s, for names see the documentation, or decide with 'certplane approve -n %s %s'",
		certmanager.Group, cr.Namespace, cr.Name)
	if ref := cr.Spec.IssuerRef; !certmanager.IsBuiltIn(ref) && strings.Contains(err.Error(), certmanager.MessageNoSigner) {
		todo = fmt.Sprintf("install the program that provides the kind %s of %s, or correct spec.issuerRef in another request", certmanager.IssuerKind(ref), ref.Group)
	}
	return fmt.Sprintf("%s may not approve it: %s. %v", DefaultComponent, todo, err)
}
