package acmeserver

import (
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
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// keyChange changes the key of the account (RFC 8555 section 7.3.5). It creates the object
// of the new key, points the account to it, and retires the old key. StandingOfKey can
// interpret the state after a stop between these steps.
func (s *accountKeys) keyChange(c *call) (*answer, error) {
	if c.message.IsPostAsGet() {
		return nil, malformed("the payload must be a message that the new key has signed")
	}
	key, p := jws.ReadKeyChange(c.message, c.options())
	if p != nil {
		return nil, p
	}
	if err := s.blocked(c, key); err != nil {
		return nil, err
	}
	if err := s.claimKey(c, key); err != nil {
		return nil, err
	}
	old, name := c.account.Status.Key, keyName(c.endpointName, key)
	a, err := s.store.changeAccount(c.ctx, c.account.Name, func(a *v1alpha1.AcmeAccount) (*v1alpha1.AcmeAccountStatus, error) {
		if err := c.stillInForce(a); err != nil {
			return nil, err
		}
		if a.Status.Key != old {
			return nil, problem(http.StatusConflict, rfc8555.ProblemMalformed, "another request has changed the key of the account")
		}
		status := a.Status.DeepCopy()
		status.Key = name
		return status, nil
	})
	if err != nil {
		return nil, err
	}
	s.retire(c, old)
	return ok(c.accountView(a)), nil
}

// claimKey makes the object of a new key, if no account has or had the key.
func (s *accountKeys) claimKey(c *call, key *jws.Key) error {
	name := keyName(c.endpointName, key)
	for range maxTries {
		stored, account, standing, err := s.standing(c.ctx, name)
		if err != nil {
			return err
		}
		var debris types.UID
		switch {
		case stored == nil:
		case standing == acmeorder.KeyDebris:
			debris = stored.UID
		case standing == acmeorder.KeyUnsettled && stored.Spec.Account == c.account.Name:
			return nil // this account's own, of an attempt before
		default:
			return s.keyTaken(c, account)
		}
		if _, err = s.makeKey(c, key, c.account, debris); err != errKeyTaken {
			return err
		}
	}
	return errBusy
}

// keyTaken is the answer if an account has the key: it is named if it is this one or
// in force.
func (s *accountKeys) keyTaken(c *call, by *v1alpha1.AcmeAccount) error {
	p := rfc8555.NewProblem(http.StatusConflict, rfc8555.ProblemMalformed, "an account has or had this key")
	if by == nil {
		return p
	}
	facts, err := s.store.facts(c.ctx, by, true)
	if err != nil {
		return err
	}
	if by.Name != c.account.Name && facts.Problem() != nil {
		return p
	}
	return &located{p, c.url("acct", by.Name)}
}

// retire marks a key that was replaced.
func (s *accountKeys) retire(c *call, name string) {
	key := &v1alpha1.AcmeAccountKey{}
	err := s.store.live.Get(c.ctx, client.ObjectKey{Name: name}, key)
	if err == nil && key.Spec.Retired == nil {
		key.Spec.Retired = &metav1.Time{Time: c.now.UTC().Truncate(time.Second)}
		err = s.store.live.Update(c.ctx, key)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(c.ctx).Error(err, "Cannot mark a replaced key of an ACME account", "key", name)
	}
}
