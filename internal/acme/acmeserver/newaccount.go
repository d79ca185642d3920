package acmeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// While another request makes the account of the same key, this one waits: so often,
// so long.
const (
	unsettledTries = 60
	unsettledWait  = 50 * time.Millisecond
)

// accountRequest is the payload of a newAccount request (RFC 8555 section 7.3).
type accountRequest struct {
	Contact                []string        `json:"contact"`
	TermsOfServiceAgreed   bool            `json:"termsOfServiceAgreed"`
	OnlyReturnExisting     bool            `json:"onlyReturnExisting"`
	ExternalAccountBinding json.RawMessage `json:"externalAccountBinding"`
}

// newAccount answers with the account of the signing key, and creates it if it does not
// exist. The name of the key's object is derived from the key: of two requests for one
// key, at any servers, only one creates the account.
func (s *accounts) newAccount(c *call) (*answer, error) {
	var asked accountRequest
	if p := c.message.Decode(&asked); p != nil {
		return nil, p
	}
	if err := s.keys.blocked(c, c.message.Key); err != nil {
		return nil, err
	}
	var err error
	for range unsettledTries {
		var a *answer
		if a, err = s.tryNewAccount(c, asked); !errors.Is(err, errKeyTaken) {
			return a, err
		}
		if err := pause(c.ctx, unsettledWait); err != nil {
			return nil, err
		}
	}
	return nil, errBusy
}

func pause(ctx context.Context, period time.Duration) error {
	timer := time.NewTimer(period)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *accounts) tryNewAccount(c *call, asked accountRequest) (*answer, error) {
	n := acmeorder.NewAccount{OnlyReturnExisting: asked.OnlyReturnExisting, Agreed: asked.TermsOfServiceAgreed, Contacts: asked.Contact}
	if err := s.keys.findKey(c, &n); err != nil {
		return nil, err
	}
	var bindingErr error
	if n.Key == nil || n.Standing == acmeorder.KeyDebris {
		n.Limited = s.limitedAccounts(c)
		var err error
		if bindingErr, err = s.bindings.readBinding(c, asked.ExternalAccountBinding, &n); err != nil {
			return nil, err
		}
	}
	d, p := acmeorder.AdmitAccount(n, c.endpoint, c.now)
	switch {
	case n.Standing == acmeorder.KeyUnsettled && n.Key != nil:
		return nil, errKeyTaken
	case p != nil && n.Binding == acmeorder.BindingWrong && p.HasType(rfc8555.ProblemUnauthorized):
		return nil, bindingErr
	case p != nil:
		return nil, p
	case d.Existing != nil:
		c.account = d.Existing
		return &answer{status: http.StatusOK, body: c.accountView(d.Existing), location: c.url("acct", d.Existing.Name)}, nil
	}
	d.Status.ExternalAccountBinding = string(asked.ExternalAccountBinding)
	d.Status.InitialAddress = addressText(c.address)
	a, err := s.registerAccount(c, d)
	if err != nil {
		return nil, err
	}
	c.account = a
	return &answer{status: http.StatusCreated, body: c.accountView(a), location: c.url("acct", a.Name)}, nil
}

// registerAccount makes an account, if there are not too many by now: of those that register
// at once, one is made after the other.
func (s *accounts) registerAccount(c *call, d acmeorder.NewAccountDecision) (*v1alpha1.AcmeAccount, error) {
	release, err := s.registering.Lock(c.ctx, c.endpointName)
	if err != nil {
		return nil, errBusy
	}
	defer release()
	if p := s.limitedAccounts(c); p != nil {
		return nil, p
	}
	name := newID()
	if err := s.announceAccount(c, name); err != nil {
		return nil, err
	}
	a, err := s.makeAccount(c, d, name)
	if err != nil {
		return nil, err
	}
	s.limits.limitNewAccounts(c, 1)
	return a, nil
}

// announceAccount notes on the endpoint that an account is about to be made, so that several
// servers together do not pass the limit of the endpoint.
func (s *accounts) announceAccount(c *call, name string) error {
	if !acmeorder.AnnouncesAccounts(c.endpoint.Spec(), s.counts.of(c.endpointName)) {
		return nil
	}
	read := func() (*v1alpha1.AcmeEndpoint, error) {
		e := &v1alpha1.AcmeEndpoint{}
		return e, s.store.live.Get(c.ctx, client.ObjectKey{Name: c.endpointName}, e)
	}
	_, err := change(c.ctx, s.store, read, func(e *v1alpha1.AcmeEndpoint) (bool, error) {
		if p := acmeorder.CheckAccountLimit(&e.Spec, s.counts.of(c.endpointName, acmeorder.AnnouncedAccounts(&e.Status, c.now)...), c.now); p != nil {
			return false, p
		}
		acmeorder.AnnounceAccount(&e.Status, name, c.now)
		return true, nil
	})
	if apierrors.IsForbidden(err) { // older manifests do not grant it
		klog.FromContext(c.ctx).Error(err, "Cannot note new accounts on the AcmeEndpoint, so that several servers can pass maxAccounts: apply the manifests of this version", "endpoint", c.endpointName)
		return nil
	}
	return err
}

// limitedAccounts returns the problem of an address or an endpoint with too many
// accounts.
func (s *accounts) limitedAccounts(c *call) *rfc8555.Problem {
	if p := s.limits.limitNewAccounts(c, 0); p != nil {
		return p
	}
	return acmeorder.CheckAccountLimit(c.endpoint.Spec(), s.counts.of(c.endpointName), c.now)
}

// makeAccount stores a new account: first the object of the key, which only one request
// can create, then a use of the external key, then the account.
func (s *accounts) makeAccount(c *call, d acmeorder.NewAccountDecision, name string) (*v1alpha1.AcmeAccount, error) {
	if err := s.reviews.demandUse(c.ctx, d.Spec.ServiceAccount, c.endpointName); err != nil {
		return nil, err
	}
	if err := s.reviews.demandTokens(c.ctx, d.Spec.ServiceAccount); err != nil {
		return nil, err
	}
	if _, gone, err := s.store.serviceAccount(c.ctx, d.Spec.ServiceAccount); err != nil || gone {
		if err != nil {
			return nil, err
		}
		return nil, problem(http.StatusForbidden, rfc8555.ProblemUnauthorized, "the ServiceAccount %s/%s, which the account would act as, does not exist", d.Spec.ServiceAccount.Namespace, d.Spec.ServiceAccount.Name)
	}
	a := &v1alpha1.AcmeAccount{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1alpha1.AcmeEndpointLabel: c.endpointName, v1alpha1.AcmeNamespaceLabel: d.Spec.ServiceAccount.Namespace,
		}},
		Spec: d.Spec,
	}
	key, err := s.keys.makeKey(c, c.message.Key, a, d.Replace)
	if err != nil {
		return nil, err
	}
	if err := s.bindings.takeUse(c, d.Spec.ExternalKey); err != nil {
		s.keys.dropKey(c, key)
		return nil, err
	}
	drop := s.counts.making(a.Name, c.endpointName)
	if err := s.store.live.Create(c.ctx, a); err != nil {
		drop()
		s.keys.dropKey(c, key)
		return nil, fmt.Errorf("making the account: %w", err)
	}
	d.Status.Key = key.Name
	a.Status = d.Status
	if err := s.store.live.Status().Update(c.ctx, a); err != nil {
		return nil, fmt.Errorf("making the account: %w", err)
	}
	s.store.wrote(a)
	return a, nil
}
