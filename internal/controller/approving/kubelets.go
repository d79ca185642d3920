package approving

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/requestkind"
	"github.com/certplane/certplane/internal/process/worker"
)

type csr = certificatesv1.CertificateSigningRequest

// KubeletsConfig is the configuration of the approver of kubelets' requests.
type KubeletsConfig struct {
	Config
	// Settings are the user's settings.
	Settings Settings
	// Metrics, if not nil, is where the approver's metrics are registered.
	Metrics prometheus.Registerer
}

// AddKubelets adds the approver of the CertificateSigningRequests of kubelets to mgr, whose
// cache it reads. It approves those that need no person's decision, and reports on the
// others what they lack. Its account needs create on subjectaccessreviews, update on
// certificatesigningrequests/approval and approve on the signer
// kubernetes.io/kube-apiserver-client-kubelet.
func AddKubelets(mgr ctrl.Manager, cfg KubeletsConfig) error {
	k, err := newKubelets(mgr.GetCache(), cfg)
	if err != nil {
		return err
	}
	return k.addTo(mgr, "csrapproving", begins(k.takes), k.takes, cfg.Settings.withDefaults().Concurrency)
}

type kubelets struct {
	approver
	policy  approval.Policy
	waiting *backlog
	report  reporter
}

func newKubelets(cache client.Reader, cfg KubeletsConfig) (*kubelets, error) {
	settings := cfg.Settings.withDefaults()
	if err := settings.Validate(); err != nil {
		return nil, err
	}
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the approver's metrics: %w", err)
	}
	k := &kubelets{
		approver: approver{Config: cfg.withDefaults(), kind: requestkind.SigningRequests, cache: cache, conflictPause: worker.ConflictPause, cannotWake: mayLeave},
		policy:   approval.Policy{Strict: settings.Strict}, waiting: newBacklog(),
	}
	k.report = reporter{metrics, k.event}
	k.rules = rules{takes: waits, left: k.left, failed: k.failed, settled: func(key types.NamespacedName) { k.waiting.remove(key.Name) }}
	return k, nil
}

func waits(o client.Object) bool {
	c, ok := o.(*csr)
	return ok && approval.Waits(c)
}

// left approves a request of a kubelet whose requester has the permission.
func (k *kubelets) left(ctx context.Context, p *pass, _ policies.Outcome) (reconcile.Result, error) {
	c := p.object.(*csr)
	known, err := k.policy.Recognise(c)
	if err != nil {
		k.waiting.remove(c.Name)
		k.report.unrecognised(ctx, c, err)
		return reconcile.Result{}, nil
	}
	start := k.Clock.Now()
	permitted, err := k.permitted(ctx, c, known)
	switch {
	case err != nil:
		return k.unavailable(c, err)
	case permitted == nil:
		return k.refuse(ctx, c, known), nil
	}
	return k.write(ctx, p, permitted.Approve(c), reconcile.Result{}, func() {
		k.report.approved(ctx, c, *permitted, k.Clock.Since(start))
	})
}

func (k *kubelets) failed(_ context.Context, p *pass, err error) (reconcile.Result, error) {
	return k.unavailable(p.object.(*csr), fmt.Errorf("writing the approval: %w", err))
}

// permitted returns the first recogniser for which the requester has the
// permission, or nil.
func (k *kubelets) permitted(ctx context.Context, c *csr, known []approval.Recogniser) (*approval.Recogniser, error) {
	for _, recogniser := range known {
		review := &authorizationv1.SubjectAccessReview{Spec: recogniser.Permission(c)}
		if err := k.Client.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("checking the requester's permission to create %s: %w", recogniser.Name, err)
		}
		if review.Status.Allowed {
			return &recogniser, nil
		}
	}
	return nil, nil
}

// refuse leaves the decision about c to a person, unless the requester gets the permission
// later. New requests are checked before c.
func (k *kubelets) refuse(ctx context.Context, c *csr, known []approval.Recogniser) reconcile.Result {
	wait, news := k.waiting.add(c, reasonNotPermitted, k.Clock.Now())
	if news {
		k.report.notPermitted(ctx, c, &approval.NotPermittedError{User: c.Spec.Username, Recognisers: known})
	}
	return reconcile.Result{RequeueAfter: wait, Priority: ptr.To(handler.LowPriority)}
}

// unavailable handles faults of the approver and of the API.
func (k *kubelets) unavailable(c *csr, err error) (reconcile.Result, error) {
	if _, news := k.waiting.add(c, reasonUnavailable, k.Clock.Now()); news {
		k.report.unavailable(c)
	}
	return reconcile.Result{}, err
}
