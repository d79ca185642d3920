package acmeserver

import (
	"context"
	"crypto"
	"encoding/hex"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// order returns an order from the API, or the error of notFound if it does not exist.
func (s *store) order(ctx context.Context, namespace, name string) (*v1alpha1.AcmeOrder, error) {
	if !isID(name) {
		return nil, notFound()
	}
	o := &v1alpha1.AcmeOrder{}
	err := s.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil, notFound()
	}
	return o, err
}

// list returns orders of the cache, by an index.
func (s *store) list(ctx context.Context, index, value string, options ...client.ListOption) ([]*v1alpha1.AcmeOrder, error) {
	list := &v1alpha1.AcmeOrderList{}
	options = append(options, client.MatchingFields{index: value}, client.UnsafeDisableDeepCopy)
	if err := s.cache.List(ctx, list, options...); err != nil {
		return nil, err
	}
	orders := make([]*v1alpha1.AcmeOrder, len(list.Items))
	for i := range list.Items {
		orders[i] = &list.Items[i]
	}
	return orders, nil
}

// ordersOf returns the orders of an account.
func (s *store) ordersOf(ctx context.Context, a *v1alpha1.AcmeAccount) ([]*v1alpha1.AcmeOrder, error) {
	return s.list(ctx, byAccount, a.Name, client.InNamespace(a.Spec.ServiceAccount.Namespace))
}

// issued returns the order of an endpoint whose certificate an index finds, as the
// API has it; nil if there is none.
func (s *store) issued(ctx context.Context, endpoint, index, value string) (*v1alpha1.AcmeOrder, error) {
	orders, err := s.list(ctx, index, value)
	if err != nil {
		return nil, err
	}
	for _, cached := range orders {
		if cached.Spec.Endpoint != endpoint {
			continue
		}
		o := &v1alpha1.AcmeOrder{}
		err := s.live.Get(ctx, client.ObjectKeyFromObject(cached), o)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, err
		case o.Status.Certificate != nil:
			return o, nil
		}
	}
	return nil, nil
}

// keyFacts returns the facts about the key of a certificate request. Its functions store
// an error in failed; the caller must then not decide.
func (s *store) keyFacts(ctx context.Context, endpoint string, failed *error) acmeorder.KeyFacts {
	has := func(index, digest string) bool {
		// One is enough: a client may have thousands with one key.
		orders, err := s.list(ctx, index, keyAt(endpoint, digest), client.Limit(1))
		if err != nil {
			*failed = err
		}
		return len(orders) > 0
	}
	return acmeorder.KeyFacts{
		OfAccount: func(public crypto.PublicKey) bool {
			key, p := jws.KeyOf(public, jws.Options{LargeRSA: true})
			if p != nil {
				return false
			}
			err := s.live.Get(ctx, client.ObjectKey{Name: keyName(endpoint, key)}, &v1alpha1.AcmeAccountKey{})
			if err != nil && !apierrors.IsNotFound(err) {
				*failed = err
			}
			return err == nil
		},
		Blocked: func(digest string) bool { return has(byBlockedKey, digest) },
		Used:    func(digest string) bool { return has(byKey, digest) },
	}
}

// change reads an object, calls decide, and stores the changed status. On a conflict it
// starts over, at most maxTries times. decide returns false if there is nothing to store.
// Its error is returned after the change is stored.
func change[T client.Object](ctx context.Context, s *store, read func() (T, error), decide func(T) (bool, error)) (T, error) {
	var object T
	for range maxTries {
		var err error
		if object, err = read(); err != nil {
			return object, err
		}
		changed, refused := decide(object)
		if !changed {
			return object, refused
		}
		err = s.live.Status().Update(ctx, object)
		switch {
		case err == nil:
			return object, refused
		case !apierrors.IsConflict(err):
			return object, err
		}
	}
	return object, errBusy
}

// changeOrder changes the status of an order. decide returns nil if it stays.
func (s *store) changeOrder(ctx context.Context, read func() (*v1alpha1.AcmeOrder, error), decide func(*v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error)) (*v1alpha1.AcmeOrder, error) {
	return change(ctx, s, read, func(o *v1alpha1.AcmeOrder) (bool, error) {
		status, err := decide(o)
		if status != nil {
			o.Status = *status
		}
		return status != nil, err
	})
}

// changeOwnOrder changes the status of the order in the URL of a call.
func (s *store) changeOwnOrder(c *call, decide func(*v1alpha1.AcmeOrder) (*v1alpha1.AcmeOrderStatus, error)) (*v1alpha1.AcmeOrder, error) {
	return s.changeOrder(c.ctx, func() (*v1alpha1.AcmeOrder, error) { return s.ownOrder(c) }, decide)
}

// changeAccount changes the status of an account. decide returns nil if it stays.
func (s *store) changeAccount(ctx context.Context, name string, decide func(*v1alpha1.AcmeAccount) (*v1alpha1.AcmeAccountStatus, error)) (*v1alpha1.AcmeAccount, error) {
	read := func() (*v1alpha1.AcmeAccount, error) { return s.account(ctx, name, true) }
	a, err := change(ctx, s, read, func(a *v1alpha1.AcmeAccount) (bool, error) {
		status, err := decide(a)
		if status != nil {
			a.Status = *status
		}
		return status != nil, err
	})
	if err == nil {
		s.wrote(a)
	}
	return a, err
}

// isID reports whether a text has the form of the names that newID makes.
func isID(text string) bool {
	return len(text) == idLength && strings.Trim(text, idAlphabet) == ""
}

// signersBefore returns the Signers that had a CA with a key identifier.
func (s *store) signersBefore(ctx context.Context, keyID []byte) ([]v1alpha1.Signer, error) {
	list := &v1alpha1.SignerList{}
	err := s.cache.List(ctx, list, client.MatchingFields{byFormerKey: hex.EncodeToString(keyID)}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// ownOrder returns the stored order of the URL. An order of another account is treated
// like one that does not exist.
func (s *store) ownOrder(c *call) (*v1alpha1.AcmeOrder, error) {
	o, err := s.order(c.ctx, c.account.Spec.ServiceAccount.Namespace, c.args[0])
	if err != nil {
		return nil, err
	}
	if o.Spec.Account != c.account.Name || o.Spec.Endpoint != c.endpointName {
		return nil, notFound()
	}
	c.order = o.Name
	return o, nil
}
