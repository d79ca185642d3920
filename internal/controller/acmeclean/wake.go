package acmeclean

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/process/worker"
)

// Indexes in the cache: orders and keys by their account, accounts by their external key.
const (
	byAccount = "acme-cleaner.account"
	byKey     = "acme-cleaner.key"
)

// index adds the indexes to the cache. They stay even if the API temporarily does not serve
// the kinds.
func (r *reconciler) index(ctx context.Context) error {
	if r.indexed {
		return nil
	}
	for _, index := range []struct {
		of   client.Object
		name string
		by   func(client.Object) string
	}{
		{&v1alpha1.AcmeOrder{}, byAccount, func(o client.Object) string { return o.(*v1alpha1.AcmeOrder).Spec.Account }},
		{&v1alpha1.AcmeAccountKey{}, byAccount, func(o client.Object) string { return o.(*v1alpha1.AcmeAccountKey).Spec.Account }},
		{&v1alpha1.AcmeAccount{}, byKey, func(o client.Object) string {
			if key := o.(*v1alpha1.AcmeAccount).Spec.ExternalKey; key != nil {
				return key.Namespace + "/" + key.Name
			}
			return ""
		}},
	} {
		err := r.cache.IndexField(ctx, index.of, index.name, func(o client.Object) []string {
			if value := index.by(o); value != "" {
				return []string{value}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("indexing %T: %w", index.of, err)
		}
	}
	r.indexed = true
	return nil
}

// ordersOf returns the orders of an account, which must not be modified.
func (r *reconciler) ordersOf(ctx context.Context, account string) ([]v1alpha1.AcmeOrder, error) {
	list := &v1alpha1.AcmeOrderList{}
	err := r.cache.List(ctx, list, client.MatchingFields{byAccount: account}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the AcmeOrders of an account: %w", err)
	}
	return list.Items, nil
}

func (r *reconciler) ordersOfAccount(ctx context.Context, account client.Object) []reconcile.Request {
	orders, err := r.ordersOf(ctx, account.GetName())
	if err != nil {
		worker.CannotWake(ctx, err, "Cannot list the AcmeOrders of an account; the controller tries again later")
	}
	return worker.RequestsOf(orders, func(o *v1alpha1.AcmeOrder) bool { return o.Status.State == v1alpha1.AcmeOrderOpen })
}

func (r *reconciler) accountsOfKey(ctx context.Context, key client.Object) []reconcile.Request {
	list := &v1alpha1.AcmeAccountList{}
	name := key.GetNamespace() + "/" + key.GetName()
	if err := r.cache.List(ctx, list, client.MatchingFields{byKey: name}, client.UnsafeDisableDeepCopy); err != nil {
		worker.CannotWake(ctx, err, "Cannot list the AcmeAccounts of an external key; the controller tries again later")
	}
	return worker.RequestsOf[v1alpha1.AcmeAccount](list.Items, nil)
}

func (r *reconciler) ordersOfKey(ctx context.Context, key client.Object) []reconcile.Request {
	var all []reconcile.Request
	for _, account := range r.accountsOfKey(ctx, key) {
		all = append(all, r.ordersOfAccount(ctx, &v1alpha1.AcmeAccount{ObjectMeta: named(account.Name)})...)
	}
	return all
}

// keysOf returns the keys of an account, which must not be modified.
func (r *reconciler) keysOf(ctx context.Context, account string) ([]v1alpha1.AcmeAccountKey, error) {
	list := &v1alpha1.AcmeAccountKeyList{}
	err := r.cache.List(ctx, list, client.MatchingFields{byAccount: account}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the AcmeAccountKeys of an account: %w", err)
	}
	return list.Items, nil
}

func (r *reconciler) keysOfAccount(ctx context.Context, account client.Object) []reconcile.Request {
	keys, err := r.keysOf(ctx, account.GetName())
	if err != nil {
		worker.CannotWake(ctx, err, "Cannot list the AcmeAccountKeys of an account; the controller tries again later")
	}
	return worker.RequestsOf[v1alpha1.AcmeAccountKey](keys, nil)
}

// requestOf returns the CertificateSigningRequest of an order.
func requestOf(_ context.Context, object client.Object) []reconcile.Request {
	o, ok := object.(*v1alpha1.AcmeOrder)
	if !ok || o.Status.Request == nil || o.Status.Request.Kind != string(v1alpha1.CertificateSigningRequests) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.Status.Request.Name}}}
}
