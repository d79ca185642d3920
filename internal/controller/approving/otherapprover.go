package approving

import (
	"context"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/process/worker"
)

// eventOtherApprover is the reason of the Event on the Lease of an approver that
// decides beside this one.
const eventOtherApprover = "OtherApprover"

const aboutOtherApprover = "approver-policy decides about CertificateRequests in addition to the controller " + defaultName + " of certplane: " +
	"each may approve requests that the other does not decide. Disable one of them. Requests that violate certificate policies are denied in any case"

// LeaseCache returns the options of a cache of Leases for DefaultConfig.Leases.
func LeaseCache() cache.Options {
	return cache.Options{
		DefaultTransform:     cache.TransformStripManagedFields(),
		DefaultFieldSelector: fields.OneTermEqualSelector("metadata.name", approverpolicy.LeaseName),
	}
}

// otherApprover tells when approver-policy runs in addition to this approver.
type otherApprover struct {
	DefaultConfig
	// said are the reported holders, by their Lease.
	said worker.Said[types.NamespacedName, string]
}

// Start implements manager.Runnable.
func (o *otherApprover) Start(ctx context.Context) error {
	return worker.OneVersion(coordinationv1.SchemeGroupVersion, "leases", o.Versions).While(ctx, defaultName, "Looking for approver-policy", o.work)
}

func (o *otherApprover) work(ctx context.Context, _ string) error {
	looking, err := worker.New(ctx, defaultName+"-others", o, worker.Options{FirstPause: firstPause, LastPause: lastPause, Timeout: time.Minute},
		source.Kind[client.Object](o.Leases, &coordinationv1.Lease{}, &handler.EnqueueRequestForObject{}))
	if err != nil {
		return err
	}
	return looking.Start(ctx)
}

// Reconcile checks one Lease: approver-policy can be installed in several namespaces.
func (o *otherApprover) Reconcile(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	lease := &coordinationv1.Lease{}
	if err := o.Leases.Get(ctx, key.NamespacedName, lease); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	holder := approverpolicy.LeaseHolder(lease, o.Clock.Now())
	if holder == "" || len(o.said.News(key.NamespacedName, holder)) == 0 {
		return reconcile.Result{}, nil
	}
	log.FromContext(ctx).Info("approver-policy runs in addition to this approver", "holder", holder)
	if o.Events != nil {
		o.Events.Eventf(lease, podOf(lease, holder), corev1.EventTypeWarning, eventOtherApprover, "Approve", "%s", aboutOtherApprover)
	}
	return reconcile.Result{}, nil
}

// podOf returns the pod that holds a Lease: leader election names it, with a
// suffix.
func podOf(lease *coordinationv1.Lease, holder string) *corev1.ObjectReference {
	name, _, _ := strings.Cut(holder, "_")
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: lease.Namespace, Name: name}
}
