// Package facts looks up what decides about the orders of the ACME server.
package facts

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// keptCompiled is how many endpoints and external keys are kept compiled.
const keptCompiled = 1000

// Facts looks objects up. It is safe for concurrent use.
type Facts struct {
	objects client.Reader
	// compiled holds *acmeorder.Endpoint and *acmeorder.ExternalKey by their version.
	compiled *lru.Cache
}

// New returns facts of the objects of a reader. Decisions about approvals need a reader of
// the API, because a cache can be stale.
func New(objects client.Reader) *Facts {
	return &Facts{objects, lru.New(keptCompiled)}
}

// Endpoint returns an endpoint. The error comes from the API, or explains why the endpoint
// takes no orders.
func (f *Facts) Endpoint(ctx context.Context, name string) (*acmeorder.Endpoint, error) {
	object := &v1alpha1.AcmeEndpoint{}
	if err := f.objects.Get(ctx, client.ObjectKey{Name: name}, object); err != nil {
		return nil, err
	}
	version := versionOf(object)
	if known, ok := f.compiled.Get(version); ok {
		return known.(*acmeorder.Endpoint), nil
	}
	compiled, errs := acmeorder.Compile(object)
	if err := errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("the AcmeEndpoint %s takes no orders: %w", name, err)
	}
	f.compiled.Add(version, compiled)
	return compiled, nil
}

// Order returns an order.
func (f *Facts) Order(ctx context.Context, key client.ObjectKey) (*v1alpha1.AcmeOrder, error) {
	o := &v1alpha1.AcmeOrder{}
	return o, f.objects.Get(ctx, key, o)
}

// ExternalKey returns an external key, nil if it does not exist. A key that cannot be
// compiled is an error, because its accounts have not ended.
func (f *Facts) ExternalKey(ctx context.Context, key client.ObjectKey) (*acmeorder.ExternalKey, error) {
	object := &v1alpha1.AcmeExternalKey{}
	if err := f.objects.Get(ctx, key, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	version := versionOf(object)
	if known, ok := f.compiled.Get(version); ok {
		return known.(*acmeorder.ExternalKey), nil
	}
	compiled, errs := acmeorder.CompileKey(object)
	if err := errs.ToAggregate(); err != nil {
		return nil, fmt.Errorf("the AcmeExternalKey %s cannot be used: %w", key, err)
	}
	f.compiled.Add(version, compiled)
	return compiled, nil
}

// versionOf identifies the content of an object that is compiled.
func versionOf(o client.Object) string { return string(o.GetUID()) + "/" + o.GetResourceVersion() }

// Account returns an account with the facts that decide whether it is in force. The
// account is nil if it does not exist. It does not look up the ServiceAccount: if that
// does not exist, its tokens are refused anyway.
func (f *Facts) Account(ctx context.Context, name string) (acmeorder.AccountFacts, error) {
	account := &v1alpha1.AcmeAccount{}
	err := f.objects.Get(ctx, client.ObjectKey{Name: name}, account)
	switch {
	case apierrors.IsNotFound(err):
		return acmeorder.AccountFacts{}, nil
	case err != nil:
		return acmeorder.AccountFacts{}, err
	}
	facts := acmeorder.AccountFacts{Account: account}
	if of := account.Spec.ExternalKey; of != nil {
		facts.ExternalKey, err = f.ExternalKey(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name})
	}
	return facts, err
}

// ServiceAccount returns the UID of a ServiceAccount that accounts act as, or that it is
// gone. Without the right to read it, neither is known.
func ServiceAccount(ctx context.Context, objects client.Reader, of v1alpha1.AcmeServiceAccount) (uid string, gone bool, err error) {
	object := &corev1.ServiceAccount{}
	err = objects.Get(ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return "", true, nil
	case err != nil && !apierrors.IsForbidden(err):
		return "", false, err
	}
	return string(object.UID), false, nil
}
