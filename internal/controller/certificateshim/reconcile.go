package certificateshim

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/certplane/certplane/internal/policy/shim"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

// Reasons of Events.
const (
	reasonBadConfig             = "BadConfig"
	reasonCreateCertificate     = "CreateCertificate"
	reasonUpdateCertificate     = "UpdateCertificate"
	reasonDeleteCertificate     = "DeleteCertificate"
	reasonCertificateNotOwned   = "CertificateNotOwned"
	reasonCertificateRefused    = "CertificateRefused"
	reasonListenerSetNotAllowed = "ListenerSetNotAllowed"
	reasonInternalError         = "InternalError"
)

// notice is an Event of a warning.
type notice struct{ reason, text string }

// reconciler creates the Certificates of the objects of a kind.
type reconciler struct {
	*controller
	kind     kind
	objects  cache.Cache
	gateways client.Reader // for ListenerSets
	events   events.EventRecorder

	said worker.Said[types.NamespacedName, notice] // the warnings of objects
}

// Reconcile makes the Certificates of an object what it requests.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	o := r.kind.object.DeepCopyObject().(client.Object)
	if err := r.objects.Get(ctx, request.NamespacedName, o); err != nil {
		r.said.News(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if ingress, ok := o.(*networkingv1.Ingress); ok {
		if err := unpack(ingress); err != nil {
			return reconcile.Result{}, fmt.Errorf("reading the Ingress %s from the cache: %w", request, err)
		}
	}
	p := &pass{reconciler: r, owner: o}
	defer func() {
		if cause := recover(); cause != nil {
			p.warn(reasonInternalError, "A defect of certplane prevents the Certificates of this object; the log contains its cause")
			r.tell(request.NamespacedName, o, p.warnings)
			panic(cause) // the worker counts and logs it
		}
	}()
	if err := p.run(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if r.tell(request.NamespacedName, o, p.warnings); p.blocked {
		return reconcile.Result{RequeueAfter: worker.RefusedPause}, nil
	}
	return reconcile.Result{}, nil
}

// tell records warnings of an object that were not there after its last pass.
func (r *reconciler) tell(name types.NamespacedName, o client.Object, warnings []notice) {
	for _, w := range r.said.News(name, warnings...) {
		// Events that differ in their text alone are counted as one.
		action := fmt.Sprintf("Check-%08x", crc32.ChecksumIEEE([]byte(w.text)))
		r.events.Eventf(o, nil, corev1.EventTypeWarning, w.reason, action, "%s", eventtext.Fit(w.text))
	}
}

// pass is one look at an object.
type pass struct {
	*reconciler
	owner    client.Object
	warnings []notice
	// blocked means that the API or the Certificate of another owner prevents a write.
	blocked bool
}

// done records what was done with a Certificate.
func (p *pass) done(crt *cmv1.Certificate, reason, what string) {
	p.events.Eventf(p.owner, crt, corev1.EventTypeNormal, reason, reason, "Successfully %s Certificate %q", what, crt.Name)
}

func (p *pass) warn(reason, text string) { p.warnings = append(p.warnings, notice{reason, text}) }

func (p *pass) run(ctx context.Context) error {
	refusal := ""
	if set, ok := p.owner.(*gatewayv1.ListenerSet); ok {
		attached, text, err := p.attach(ctx, set)
		if err != nil || !attached {
			return err
		}
		refusal = text
	}
	wanted := p.Of(p.owner, p.kind.GroupVersionKind)
	for _, text := range wanted.Problems {
		p.warn(reasonBadConfig, text)
	}
	if wanted.Void {
		return nil
	}
	if refusal != "" {
		p.warn(reasonListenerSetNotAllowed, refusal)
		return nil
	}
	for _, crt := range wanted.Certificates {
		if err := p.afterWrite(p.ensure(ctx, crt)); err != nil {
			return err
		}
	}
	return p.prune(ctx, wanted)
}

// afterWrite turns the refusal of a write into a warning. The end of a namespace is not an
// error: its objects end with it.
func (p *pass) afterWrite(err error) error {
	switch {
	case worker.IsTooLate(err):
		return nil
	case worker.IsRefused(err):
		p.blocked = true
		p.warn(reasonCertificateRefused, err.Error())
		return nil
	}
	return err
}

// ensure creates or updates a Certificate.
func (p *pass) ensure(ctx context.Context, wanted *cmv1.Certificate) error {
	key, cached := client.ObjectKeyFromObject(wanted), &owned{}
	switch err := p.certificates.Get(ctx, key, cached); {
	case err == nil:
		if !p.owns(cached) || shim.IsCurrent(cached.Digest, wanted, p.CopiedAnnotations) {
			return nil
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading Certificate %s: %w", key, err)
	default:
		err := p.Client.Create(ctx, wanted, client.FieldOwner(p.kind.component))
		if err == nil {
			p.done(wanted, reasonCreateCertificate, "created")
		}
		if !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return p.update(ctx, key, wanted)
}

// owns reports whether the object controls a Certificate; if not, it warns.
func (p *pass) owns(crt metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(crt)
	switch {
	case owner == nil:
		p.warn(reasonCertificateNotOwned, fmt.Sprintf("Certificate %q exists and has no owner, so it is not changed. Delete it, or name another Secret", crt.GetName()))
	case owner.UID != p.owner.GetUID():
		p.warn(reasonCertificateNotOwned, fmt.Sprintf("Certificate %q belongs to %s %q, so it is not changed. Name another Secret", crt.GetName(), owner.Kind, owner.Name))
	default:
		return true
	}
	p.blocked = true
	return false
}

// update changes the stored Certificate: the cache can be late, and does not hold all of it.
func (p *pass) update(ctx context.Context, key client.ObjectKey, wanted *cmv1.Certificate) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		stored := &cmv1.Certificate{}
		if err := p.Client.Get(ctx, key, stored); err != nil {
			return err
		}
		if !p.owns(stored) {
			return nil
		}
		next := shim.Changed(stored, wanted)
		if next == nil {
			return nil
		}
		err := p.Client.Update(ctx, next, client.FieldOwner(p.kind.component))
		if err == nil {
			p.done(next, reasonUpdateCertificate, "updated")
		}
		return err
	})
}

// prune deletes the Certificates of the object whose Secrets it does not name any more.
func (p *pass) prune(ctx context.Context, wanted shim.Wish) error {
	own := &ownedList{}
	err := p.certificates.List(ctx, own, client.InNamespace(p.owner.GetNamespace()), client.MatchingFields{byOwner: bucketOf(p.owner.GetUID())}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("listing Certificates: %w", err)
	}
	named := shim.SecretNames(p.owner)
	for i := range own.Items {
		found := &own.Items[i]
		isWanted := func(w *cmv1.Certificate) bool { return w.Name == found.Name }
		if !metav1.IsControlledBy(found, p.owner) || slices.Contains(named, found.SecretName) || found.DeletionTimestamp != nil || slices.ContainsFunc(wanted.Certificates, isWanted) {
			continue
		}
		crt := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: found.Namespace, Name: found.Name, UID: found.UID}}
		err := p.Client.Delete(ctx, crt, client.Preconditions{UID: &crt.UID})
		switch {
		case err == nil:
			p.done(crt, reasonDeleteCertificate, "deleted unrequired")
		case apierrors.IsConflict(err): // another Certificate of this name, which wakes the object again
		default:
			if err := p.afterWrite(err); err != nil {
				return err
			}
		}
	}
	return nil
}

// ofCertificate returns the objects that a Certificate concerns: its owner, and those that other
// Certificates of the namespace are in the way of.
func (r *reconciler) ofCertificate(_ context.Context, o client.Object) (requests []reconcile.Request) {
	for _, name := range r.said.About(func(name types.NamespacedName, n notice) bool {
		return name.Namespace == o.GetNamespace() && n.reason == reasonCertificateNotOwned
	}) {
		requests = append(requests, reconcile.Request{NamespacedName: name})
	}
	if owner := metav1.GetControllerOfNoCopy(o); owner != nil && owner.Kind == r.kind.Kind {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}})
	}
	return requests
}

// ofNamespace returns the ListenerSets in a namespace, whose labels may have changed.
func (r *reconciler) ofNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.list(ctx, client.InNamespace(o.GetName()))
}

// ofGateway returns the ListenerSets of a Gateway.
func (r *reconciler) ofGateway(ctx context.Context, o client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{byParent: client.ObjectKeyFromObject(o).String()})
}

func (r *reconciler) list(ctx context.Context, options ...client.ListOption) (requests []reconcile.Request) {
	list := r.kind.list.DeepCopyObject().(client.ObjectList)
	if err := r.objects.List(ctx, list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		worker.CannotWake(ctx, err, "Cannot list "+r.kind.resource) // a bug of ours: the cache and its index exist
	}
	_ = meta.EachListItem(list, func(item runtime.Object) error {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(item.(client.Object))})
		return nil
	})
	return requests
}
