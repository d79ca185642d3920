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
	"github.com/certplane/certplane/internal/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// keyChange gives the account another key (RFC 8555 section 7.3.5): the object of the
// new key is made, the account is changed to it, the old one is retired. Whoever is
// stopped in between leaves what StandingOfKey understands.
func (x *exchange) keyChange() (*answer, error) {
	if x.message.IsPostAsGet() {
		return nil, malformed("the payload must be a message that the new key has signed")
	}
	key, p := jws.ReadKeyChange(x.message, x.options())
	if p != nil {
		return nil, p
	}
	if err := x.blocked(x.ctx, key); err != nil {
		return nil, err
	}
	if err := x.claimKey(key); err != nil {
		return nil, err
	}
	old, name := x.account.Status.Key, keyName(x.endpointName, key)
	a, err := x.store.changeAccount(x.ctx, x.account.Name, func(a *v1alpha1.AcmeAccount) (*v1alpha1.AcmeAccountStatus, error) {
		if err := x.stillInForce(a); err != nil {
			return nil, err
		}
		if a.Status.Key != old {
			return nil, problem(http.StatusConflict, rfc8555.ProblemMalformed, "the account has got another key meanwhile")
		}
		status := a.Status.DeepCopy()
		status.Key = name
		return status, nil
	})
	if err != nil {
		return nil, err
	}
	x.retire(old)
	return ok(x.accountView(a)), nil
}

// claimKey makes the object of a new key, if no account has or had the key.
func (x *exchange) claimKey(key *jws.Key) error {
	name := keyName(x.endpointName, key)
	for range maxTries {
		stored, account, standing, err := x.standing(name)
		if err != nil {
			return err
		}
		var debris types.UID
		switch {
		case stored == nil:
		case standing == acmeorder.KeyDebris:
			debris = stored.UID
		case standing == acmeorder.KeyUnsettled && stored.Spec.Account == x.account.Name:
			return nil // this account's own, of an attempt before
		default:
			return x.keyTaken(account)
		}
		if _, err = x.makeKey(key, x.account, debris); err != errKeyTaken {
			return err
		}
	}
	return errBusy
}

// keyTaken is the answer if an account has the key: it is named if it is this one or
// in force.
func (x *exchange) keyTaken(by *v1alpha1.AcmeAccount) error {
	p := rfc8555.NewProblem(http.StatusConflict, rfc8555.ProblemMalformed, "an account has or had this key")
	if by == nil {
		return p
	}
	facts, err := x.store.facts(x.ctx, by, true)
	if err != nil {
		return err
	}
	if by.Name != x.account.Name && facts.Problem() != nil {
		return p
	}
	return &located{p, x.url("acct", by.Name)}
}

// retire marks a key that was replaced.
func (x *exchange) retire(name string) {
	key := &v1alpha1.AcmeAccountKey{}
	err := x.store.live.Get(x.ctx, client.ObjectKey{Name: name}, key)
	if err == nil && key.Spec.Retired == nil {
		key.Spec.Retired = &metav1.Time{Time: x.now.UTC().Truncate(time.Second)}
		err = x.store.live.Update(x.ctx, key)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		klog.FromContext(x.ctx).Error(err, "Cannot mark a replaced key of an ACME account", "key", name)
	}
}
