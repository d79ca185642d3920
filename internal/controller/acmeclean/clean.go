package acmeclean

import (
	"context"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/facts"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

// eventInvalid is the reason of the Event about an order that became invalid without a
// request.
const eventInvalid = "Invalid"

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// defaults are the settings for orders whose endpoint is gone.
var defaults = v1alpha1.AcmeOrders{ChainFor: metav1.Duration{Duration: 168 * time.Hour}}

// cleanOrder ends one order that is over, and deletes an order after its time.
func (r *reconciler) cleanOrder(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	o := &v1alpha1.AcmeOrder{}
	if err := r.cache.Get(ctx, key.NamespacedName, o, client.UnsafeDisableDeepCopy); err != nil || o.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	do, err := r.decide(ctx, o, r.seen)
	if err != nil || !do.Delete && do.Status == nil {
		return r.again(do.Again), err
	}
	stored := &v1alpha1.AcmeOrder{} // the cache has less, and may be late
	if err := r.Client.Get(ctx, key.NamespacedName, stored); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if do, err = r.decide(ctx, stored, r.stored); err != nil {
		return reconcile.Result{}, err
	}
	switch {
	case do.Delete:
		log.FromContext(ctx).V(1).Info("Deleting an order", "order", key.NamespacedName, "state", stored.Status.State)
		return r.deleted(ctx, stored)
	case do.Status == nil:
		return r.again(do.Again), nil
	}
	if do.Final {
		if err := r.forgetWriters(ctx, stored); err != nil {
			return worker.Kept(time.Second, client.IgnoreNotFound(err))
		}
	}
	ends := stored.Status.State != v1alpha1.AcmeOrderInvalid && do.Status.State == v1alpha1.AcmeOrderInvalid
	stored.Status = *do.Status
	err = r.Client.Status().Update(ctx, stored, client.FieldOwner(Name))
	if err == nil && ends && r.Events != nil && stored.Status.Error != nil {
		r.Events.Eventf(stored, nil, corev1.EventTypeWarning, eventInvalid, "Clean", "%s", eventtext.Fit(stored.Status.Error.Detail))
	}
	return worker.Kept(time.Second, client.IgnoreNotFound(err))
}

// forgetWriters removes the managed fields of an order, which are half of its remaining
// size: one empty entry removes all. Without the right to do so, they stay.
func (r *reconciler) forgetWriters(ctx context.Context, o *v1alpha1.AcmeOrder) error {
	if len(o.ManagedFields) == 0 {
		return nil
	}
	bare := o.DeepCopy()
	bare.ManagedFields = []metav1.ManagedFieldsEntry{{}}
	err := r.Client.Update(ctx, bare, client.FieldOwner(Name))
	if apierrors.IsForbidden(err) {
		log.FromContext(ctx).Error(err, "Cannot remove the managed fields of an order: the rights are from an older version", "order", client.ObjectKeyFromObject(o))
		return nil
	}
	if err == nil {
		o.ResourceVersion, o.ManagedFields = bare.ResourceVersion, bare.ManagedFields
	}
	return err
}

// decide returns the action for an order. If its account has ended, the order ends as well.
func (r *reconciler) decide(ctx context.Context, o *v1alpha1.AcmeOrder, known *facts.Facts) (acmeorder.Retention, error) {
	now := r.Clock.Now()
	if o.Status.State == v1alpha1.AcmeOrderOpen {
		of, err := known.Account(ctx, o.Spec.Account)
		if err != nil {
			return acmeorder.Retention{}, fmt.Errorf("reading the account: %w", err)
		}
		problem := acmeorder.AccountGone()
		if of.Account != nil {
			problem = of.Problem()
		}
		if problem != nil {
			if s := acmeorder.Cancel(o, problem, now); s != nil {
				return acmeorder.Retention{Status: s}, nil
			}
		}
	}
	settings := defaults
	endpoint := &v1alpha1.AcmeEndpoint{}
	err := r.cache.Get(ctx, client.ObjectKey{Name: o.Spec.Endpoint}, endpoint, client.UnsafeDisableDeepCopy)
	switch {
	case err == nil:
		settings = endpoint.Spec.Orders
	case !apierrors.IsNotFound(err):
		return acmeorder.Retention{}, fmt.Errorf("reading the endpoint: %w", err)
	}
	return acmeorder.RetainOrder(o, settings, now), nil
}

// deleted deletes an object unless it changed since it was read.
func (r *reconciler) deleted(ctx context.Context, o client.Object) (reconcile.Result, error) {
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: &uid, ResourceVersion: &version})
	return worker.Kept(0, client.IgnoreNotFound(err))
}

// cleanAccount records that one account has ended, and deletes an account with its keys
// after its time.
func (r *reconciler) cleanAccount(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	of, err := r.seen.Account(ctx, key.Name)
	if err == nil && of.Account != nil && acmeorder.EndAccount(of, r.Clock.Now()) != nil {
		of, err = r.stored.Account(ctx, key.Name)
	}
	if err != nil || of.Account == nil || of.Account.DeletionTimestamp != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	if s := acmeorder.EndAccount(of, now); s != nil {
		a := of.Account.DeepCopy()
		a.Status = *s
		return worker.Kept(time.Second, client.IgnoreNotFound(r.Client.Status().Update(ctx, a, client.FieldOwner(Name))))
	}
	use, err := r.use(ctx, of, now)
	if err != nil {
		return reconcile.Result{}, err
	}
	do := acmeorder.RetainAccount(of.Account, use, now)
	if !do.Delete {
		return r.again(do.Again), nil
	}
	if of.Account.Status.Ended != nil { // its keys do not come back
		if err := r.retireKeys(ctx, key.Name); err != nil {
			return worker.Kept(0, err)
		}
	}
	log.FromContext(ctx).V(1).Info("Deleting an account", "account", key.Name, "state", of.Account.Status.State)
	return r.deleted(ctx, of.Account.DeepCopy())
}

// use returns the orders and keys that an account still has.
func (r *reconciler) use(ctx context.Context, of acmeorder.AccountFacts, now time.Time) (acmeorder.AccountUse, error) {
	use := acmeorder.AccountUse{Ended: of.Problem() != nil}
	orders, err := r.ordersOf(ctx, of.Account.Name)
	for i := range orders {
		s := &orders[i].Status
		if s.State != v1alpha1.AcmeOrderValid && s.State != v1alpha1.AcmeOrderInvalid {
			use.Open = true
		}
		if s.Certificate != nil {
			use.Live = pki.Later(use.Live, s.Certificate.NotAfter.Time)
		}
	}
	return use, err
}

func (r *reconciler) retireKeys(ctx context.Context, account string) error {
	keys, err := r.keysOf(ctx, account)
	if err != nil {
		return err
	}
	for i := range keys {
		if k := keys[i].DeepCopy(); acmeorder.RetainKey(k, true, true, r.Clock.Now()).Retire {
			k.Spec.Retired = &metav1.Time{Time: r.Clock.Now()}
			if err := r.Client.Update(ctx, k, client.FieldOwner(Name)); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
	}
	return nil
}

// cleanKey deletes one account key whose account is gone, after its time.
func (r *reconciler) cleanKey(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	k := &v1alpha1.AcmeAccountKey{}
	if err := r.cache.Get(ctx, key.NamespacedName, k, client.UnsafeDisableDeepCopy); err != nil || k.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	account := client.ObjectKey{Name: k.Spec.Account}
	err := r.cache.Get(ctx, account, &v1alpha1.AcmeAccount{}, client.UnsafeDisableDeepCopy)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	do := acmeorder.RetainKey(k, err == nil, false, r.Clock.Now())
	if !do.Delete {
		return r.again(do.Again), nil
	}
	// The key is created before the account, and the cache may not contain the account yet.
	if err := r.Client.Get(ctx, account, &v1alpha1.AcmeAccount{}); !apierrors.IsNotFound(err) {
		return reconcile.Result{RequeueAfter: time.Minute}, err
	}
	return r.deleted(ctx, k.DeepCopy())
}

// isPending reports whether a request has neither a certificate nor a verdict.
func isPending(csr *certificatesv1.CertificateSigningRequest) bool {
	s := acmeorder.StandingOfCSR(csr)
	return s.Denied == nil && s.Failed == nil && len(s.Certificate) == 0
}

// cleanRequest deletes one request that still waits although its order was deleted or is
// invalid. The requester, a ServiceAccount of the order's namespace, and the name identify
// the order, which is stored before its request. A request with such a name but without the
// label belongs to another client.
func (r *reconciler) cleanRequest(ctx context.Context, key reconcile.Request) (reconcile.Result, error) {
	csr := &certificatesv1.CertificateSigningRequest{}
	if err := r.cache.Get(ctx, key.NamespacedName, csr, client.UnsafeDisableDeepCopy); err != nil || !isPending(csr) {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	of, possible := acmeorder.OrderKeyOf(csr.Spec.Username, "", csr.Name)
	if !possible || csr.Labels[v1alpha1.AcmeOrderLabel] != of.Name {
		return reconcile.Result{}, nil
	}
	o := &v1alpha1.AcmeOrder{}
	err := r.Client.Get(ctx, of, o)
	switch {
	case err == nil && o.Status.State != v1alpha1.AcmeOrderInvalid:
		return reconcile.Result{}, nil
	case err == nil && (o.Status.Request == nil || o.Status.Request.Name != csr.Name):
		return reconcile.Result{}, nil
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, err
	}
	log.FromContext(ctx).V(1).Info("Deleting the request of an order that is over", "request", csr.Name, "uid", csr.UID)
	return r.deleted(ctx, csr.DeepCopy())
}
