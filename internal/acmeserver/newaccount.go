package acmeserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// errKeyTaken: somebody has made the same key object just now.
var errKeyTaken = errors.New("another request makes an account with this key")

// newAccount answers with the account of the key that has signed, which is made if
// there is none. The name of the key's object follows from the key: of two requests
// for one key, on whichever server, one makes the account.
func (x *exchange) newAccount() (*answer, error) {
	var asked accountRequest
	if p := x.message.Decode(&asked); p != nil {
		return nil, p
	}
	if err := x.blocked(x.ctx, x.message.Key); err != nil {
		return nil, err
	}
	var err error
	for range unsettledTries {
		var a *answer
		if a, err = x.tryNewAccount(asked); !errors.Is(err, errKeyTaken) {
			return a, err
		}
		if err := pause(x.ctx, unsettledWait); err != nil {
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

func (x *exchange) tryNewAccount(asked accountRequest) (*answer, error) {
	n := acmeorder.NewAccount{OnlyReturnExisting: asked.OnlyReturnExisting, Agreed: asked.TermsOfServiceAgreed, Contacts: asked.Contact}
	if err := x.findKey(&n); err != nil {
		return nil, err
	}
	var bindingErr error
	if n.Key == nil || n.Standing == acmeorder.KeyDebris {
		n.Limited = x.limitedAccounts()
		var err error
		if bindingErr, err = x.readBinding(asked.ExternalAccountBinding, &n); err != nil {
			return nil, err
		}
	}
	d, p := acmeorder.AdmitAccount(n, x.endpoint, x.now)
	switch {
	case n.Standing == acmeorder.KeyUnsettled && n.Key != nil:
		return nil, errKeyTaken
	case p != nil && n.Binding == acmeorder.BindingWrong && p.HasType(rfc8555.ProblemUnauthorized):
		return nil, bindingErr
	case p != nil:
		return nil, p
	case d.Existing != nil:
		x.account = d.Existing
		return &answer{status: http.StatusOK, body: x.accountView(d.Existing), location: x.url("acct", d.Existing.Name)}, nil
	}
	d.Status.ExternalAccountBinding = string(asked.ExternalAccountBinding)
	d.Status.InitialAddress = addressText(x.address)
	a, err := x.registerAccount(d)
	if err != nil {
		return nil, err
	}
	x.account = a
	return &answer{status: http.StatusCreated, body: x.accountView(a), location: x.url("acct", a.Name)}, nil
}

// registerAccount makes an account, if there are not too many by now: of those that register
// at once, one is made after the other.
func (x *exchange) registerAccount(d acmeorder.NewAccountDecision) (*v1alpha1.AcmeAccount, error) {
	release, err := x.registering.Lock(x.ctx, x.endpointName)
	if err != nil {
		return nil, errBusy
	}
	defer release()
	if p := x.limitedAccounts(); p != nil {
		return nil, p
	}
	name := newID()
	if err := x.announceAccount(name); err != nil {
		return nil, err
	}
	a, err := x.makeAccount(d, name)
	if err != nil {
		return nil, err
	}
	x.limitNewAccounts(1)
	return a, nil
}

// announceAccount notes on the endpoint that an account is about to be made, so that several
// servers together do not pass the limit of the endpoint.
func (x *exchange) announceAccount(name string) error {
	if !acmeorder.AnnouncesAccounts(x.endpoint.Spec(), x.accounts.of(x.endpointName)) {
		return nil
	}
	read := func() (*v1alpha1.AcmeEndpoint, error) {
		e := &v1alpha1.AcmeEndpoint{}
		return e, x.store.live.Get(x.ctx, client.ObjectKey{Name: x.endpointName}, e)
	}
	_, err := change(x.ctx, x.store, read, func(e *v1alpha1.AcmeEndpoint) (bool, error) {
		if p := acmeorder.CheckAccountLimit(&e.Spec, x.accounts.of(x.endpointName, acmeorder.AnnouncedAccounts(&e.Status, x.now)...), x.now); p != nil {
			return false, p
		}
		acmeorder.AnnounceAccount(&e.Status, name, x.now)
		return true, nil
	})
	if apierrors.IsForbidden(err) { // older manifests do not grant it
		klog.FromContext(x.ctx).Error(err, "Cannot note new accounts on the AcmeEndpoint, so that several servers can pass maxAccounts: apply the manifests of this version", "endpoint", x.endpointName)
		return nil
	}
	return err
}

// findKey reads what is stored of the key that has signed.
func (x *exchange) findKey(n *acmeorder.NewAccount) error {
	key, account, standing, err := x.standing(keyName(x.endpointName, x.message.Key))
	if err != nil || key == nil {
		return err
	}
	n.Key, n.Standing = key, standing
	if standing == acmeorder.KeyInForce {
		n.Existing, err = x.store.facts(x.ctx, account, true)
	}
	return err
}

// standing returns the stored key of a name, its account if there is one, and what it
// is to that.
func (x *exchange) standing(name string) (*v1alpha1.AcmeAccountKey, *v1alpha1.AcmeAccount, acmeorder.KeyStanding, error) {
	key := &v1alpha1.AcmeAccountKey{}
	if err := x.store.live.Get(x.ctx, client.ObjectKey{Name: name}, key); err != nil {
		return nil, nil, 0, client.IgnoreNotFound(err)
	}
	account := &v1alpha1.AcmeAccount{}
	err := x.store.live.Get(x.ctx, client.ObjectKey{Name: key.Spec.Account}, account)
	switch {
	case apierrors.IsNotFound(err):
		account = nil
	case err != nil:
		return nil, nil, 0, err
	}
	var current *v1alpha1.AcmeAccountKey
	if account != nil && account.Status.Key != "" && account.Status.Key != name {
		current = &v1alpha1.AcmeAccountKey{}
		if err := x.store.live.Get(x.ctx, client.ObjectKey{Name: account.Status.Key}, current); err != nil {
			if !apierrors.IsNotFound(err) {
				return nil, nil, 0, err
			}
			current = nil
		}
	}
	return key, account, acmeorder.StandingOfKey(key, account, current, x.Now()), nil
}

// limitedAccounts returns the problem of an address or an endpoint with too many
// accounts.
func (x *exchange) limitedAccounts() *rfc8555.Problem {
	if p := x.limitNewAccounts(0); p != nil {
		return p
	}
	return acmeorder.CheckAccountLimit(x.endpoint.Spec(), x.accounts.of(x.endpointName), x.now)
}

// readBinding verifies the external account binding (RFC 8555 section 7.3.4). wrong is
// what to answer if it is not good.
func (x *exchange) readBinding(data json.RawMessage, n *acmeorder.NewAccount) (wrong, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	n.Binding = acmeorder.BindingWrong
	binding, p := jws.ParseBinding(data)
	if p != nil {
		return p, nil
	}
	key, mac, err := x.bindingKey(binding.KID)
	if err != nil {
		return nil, err
	}
	if key == nil || !key.Admits(x.endpoint, x.now) {
		mac = nil
	}
	if p := binding.Verify(mac, x.message.URL, x.message.Key); p != nil {
		return p, nil
	}
	n.Binding, n.ExternalKey = acmeorder.BindingGood, key
	return nil, nil
}

// minMAC is the shortest MAC key, in bytes.
const minMAC = 32

// bindingKey returns the external key of a key identifier, NAMESPACE.NAME, and its MAC
// key. There are as many calls of the API if there is none.
func (x *exchange) bindingKey(kid string) (*acmeorder.ExternalKey, []byte, error) {
	namespace, name, _ := strings.Cut(kid, ".")
	if namespace == "" || name == "" || len(kid) > 63+1+253 || strings.ContainsAny(kid, "/%?# ") {
		return nil, nil, nil
	}
	key, err := x.store.externalKey(x.ctx, namespace, name, true)
	if err != nil {
		return nil, nil, err
	}
	secret, entry := types.NamespacedName{Namespace: namespace, Name: name}, ""
	if key != nil {
		secret.Name, entry = key.Object().Spec.Secret.Name, key.Object().Spec.Secret.Key
	}
	object := &corev1.Secret{}
	err = x.store.live.Get(x.ctx, secret, object)
	switch {
	case key == nil || apierrors.IsNotFound(err):
		return nil, nil, nil
	case apierrors.IsForbidden(err):
		klog.FromContext(x.ctx).Error(err, "The ACME server may not read the Secret of an AcmeExternalKey", "externalKey", namespace+"/"+name)
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	mac, err := jws.DecodeBase64URL(strings.TrimSpace(string(object.Data[entry])), false)
	if err != nil || len(mac) < minMAC {
		return nil, nil, nil
	}
	return key, mac, nil
}

// makeAccount stores a new account: first the object of the key, which nobody else can
// make, then a use of the external key, then the account.
func (x *exchange) makeAccount(d acmeorder.NewAccountDecision, name string) (*v1alpha1.AcmeAccount, error) {
	if err := x.demandUse(d.Spec.ServiceAccount); err != nil {
		return nil, err
	}
	if err := x.demandTokens(d.Spec.ServiceAccount); err != nil {
		return nil, err
	}
	if _, gone, err := x.store.serviceAccount(x.ctx, d.Spec.ServiceAccount); err != nil || gone {
		if err != nil {
			return nil, err
		}
		return nil, problem(http.StatusForbidden, rfc8555.ProblemUnauthorized, "there is no ServiceAccount %s/%s, as which the account would act", d.Spec.ServiceAccount.Namespace, d.Spec.ServiceAccount.Name)
	}
	a := &v1alpha1.AcmeAccount{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1alpha1.AcmeEndpointLabel: x.endpointName, v1alpha1.AcmeNamespaceLabel: d.Spec.ServiceAccount.Namespace,
		}},
		Spec: d.Spec,
	}
	key, err := x.makeKey(x.message.Key, a, d.Replace)
	if err != nil {
		return nil, err
	}
	if err := x.takeUse(d.Spec.ExternalKey); err != nil {
		x.dropKey(key)
		return nil, err
	}
	drop := x.accounts.making(a.Name, x.endpointName)
	if err := x.store.live.Create(x.ctx, a); err != nil {
		drop()
		x.dropKey(key)
		return nil, fmt.Errorf("making the account: %w", err)
	}
	d.Status.Key = key.Name
	a.Status = d.Status
	if err := x.store.live.Status().Update(x.ctx, a); err != nil {
		return nil, fmt.Errorf("making the account: %w", err)
	}
	x.store.wrote(a)
	return a, nil
}

// makeKey stores the object of a key of an account. debris is the UID of an object that
// is in the way.
func (x *exchange) makeKey(key *jws.Key, account *v1alpha1.AcmeAccount, debris types.UID) (*v1alpha1.AcmeAccountKey, error) {
	object := &v1alpha1.AcmeAccountKey{
		ObjectMeta: metav1.ObjectMeta{
			Name: keyName(x.endpointName, key),
			Labels: map[string]string{
				v1alpha1.AcmeEndpointLabel: x.endpointName, v1alpha1.AcmeAccountLabel: account.Name,
				v1alpha1.AcmeNamespaceLabel: account.Spec.ServiceAccount.Namespace,
			},
		},
		Spec: v1alpha1.AcmeAccountKeySpec{Endpoint: x.endpointName, Account: account.Name, JWK: string(key.JWK())},
	}
	if debris != "" {
		err := x.store.live.Delete(x.ctx, object.DeepCopy(), client.Preconditions{UID: &debris})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("deleting a key that has no account: %w", err)
		}
	}
	err := x.store.live.Create(x.ctx, object)
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
func (x *exchange) dropKey(key *v1alpha1.AcmeAccountKey) {
	if err := x.store.live.Delete(x.ctx, key, client.Preconditions{UID: &key.UID}); err != nil {
		klog.FromContext(x.ctx).Error(err, "Cannot delete a key that has no account", "key", key.Name)
	}
}

// useTries is how often a use of an external key is tried: many clients of a fleet may
// come at once.
const useTries = 50

// takeUse counts an account of an external key. Two servers cannot both take the last
// use: each counts on what it has read.
func (x *exchange) takeUse(of *v1alpha1.AcmeExternalKeyReference) error {
	if of == nil {
		return nil
	}
	for range useTries {
		k := &v1alpha1.AcmeExternalKey{}
		err := x.store.live.Get(x.ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, k)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err != nil || k.UID != of.UID || k.Spec.MaxAccounts > 0 && k.Status.Accounts >= k.Spec.MaxAccounts {
			return jws.BindingRefused()
		}
		k.Status.Accounts++
		k.Status.LastUsed = &metav1.Time{Time: x.now.UTC().Truncate(time.Second)}
		err = x.store.live.Status().Update(x.ctx, k)
		switch {
		case err == nil:
			x.bound(k)
			return nil
		case !apierrors.IsConflict(err):
			return err
		case k.Spec.MaxAccounts == 0:
			return nil // whoever recounts finds it
		}
	}
	return errBusy
}
