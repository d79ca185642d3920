package acmeserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// accountKeys manages the objects of the current and former keys of accounts. The name of
// the object is derived from the key, so that only one account can have it.
type accountKeys struct {
	store *store
	now   func() time.Time
}

// errKeyTaken: another request has just created the same key object.
var errKeyTaken = errors.New("another request makes an account with this key")

// findKey reads the stored object of the signing key, and its account.
func (s *accountKeys) findKey(c *call, n *acmeorder.NewAccount) error {
	key, account, standing, err := s.standing(c.ctx, keyName(c.endpointName, c.message.Key))
	if err != nil || key == nil {
		return err
	}
	n.Key, n.Standing = key, standing
	if standing == acmeorder.KeyInForce {
		n.Existing, err = s.store.facts(c.ctx, account, true)
	}
	return err
}

// standing returns the stored key of a name, its account if there is one, and what it
// is to that.
func (s *accountKeys) standing(ctx context.Context, name string) (*v1alpha1.AcmeAccountKey, *v1alpha1.AcmeAccount, acmeorder.KeyStanding, error) {
	key := &v1alpha1.AcmeAccountKey{}
	if err := s.store.live.Get(ctx, client.ObjectKey{Name: name}, key); err != nil {
		return nil, nil, 0, client.IgnoreNotFound(err)
	}
	account := &v1alpha1.AcmeAccount{}
	err := s.store.live.Get(ctx, client.ObjectKey{Name: key.Spec.Account}, account)
	switch {
	case apierrors.IsNotFound(err):
		account = nil
	case err != nil:
		return nil, nil, 0, err
	}
	var current *v1alpha1.AcmeAccountKey
	if account != nil && account.Status.Key != "" && account.Status.Key != name {
		current = &v1alpha1.AcmeAccountKey{}
		if err := s.store.live.Get(ctx, client.ObjectKey{Name: account.Status.Key}, current); err != nil {
			if !apierrors.IsNotFound(err) {
				return nil, nil, 0, err
			}
			current = nil
		}
	}
	return key, account, acmeorder.StandingOfKey(key, account, current, s.now()), nil
}

// makeKey stores the object of a key of an account. debris is the UID of an object that
// is in the way.
func (s *accountKeys) makeKey(c *call, key *jws.Key, account *v1alpha1.AcmeAccount, debris types.UID) (*v1alpha1.AcmeAccountKey, error) {
	object := &v1alpha1.AcmeAccountKey{
		ObjectMeta: metav1.ObjectMeta{
			Name: keyName(c.endpointName, key),
			Labels: map[string]string{
				v1alpha1.AcmeEndpointLabel: c.endpointName, v1alpha1.AcmeAccountLabel: account.Name,
				v1alpha1.AcmeNamespaceLabel: account.Spec.ServiceAccount.Namespace,
			},
		},
		Spec: v1alpha1.AcmeAccountKeySpec{Endpoint: c.endpointName, Account: account.Name, JWK: string(key.JWK())},
	}
	if debris != "" {
		err := s.store.live.Delete(c.ctx, object.DeepCopy(), client.Preconditions{UID: &debris})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("deleting a key that has no account: %w", err)
		}
	}
	err := s.store.live.Create(c.ctx, object)
	if apierrors.IsAlreadyExists(err) {
		return nil, errKeyTaken
	}
	if err != nil {
		return nil, fmt.Errorf("storing the key of an account: %w", err)
	}
	return object, nil
}

// dropKey deletes the key of an account that is not made. What stays is debris, which
// is replaced later.
func (s *accountKeys) dropKey(c *call, key *v1alpha1.AcmeAccountKey) {
	if err := s.store.live.Delete(c.ctx, key, client.Preconditions{UID: &key.UID}); err != nil {
		klog.FromContext(c.ctx).Error(err, "Cannot delete a key that has no account", "key", key.Name)
	}
}

// blocked reports whether a key may not be that of an account, since a certificate
// with it was revoked for its compromise.
func (s *accountKeys) blocked(c *call, key *jws.Key) error {
	var failed error
	if s.store.keyFacts(c.ctx, c.endpointName, &failed).Blocked(pki.KeyFingerprint(key.Public())) {
		return problem(http.StatusBadRequest, rfc8555.ProblemBadPublicKey, "a certificate with this key was revoked since the key is compromised: make a new key")
	}
	return failed
}
