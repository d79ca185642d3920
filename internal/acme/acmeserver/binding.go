package acmeserver

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// bindings binds new accounts to external keys.
type bindings struct {
	store  *store
	events eventRecorder
}

// minMAC is the shortest MAC key, in bytes.
const minMAC = 32

// useTries is how often a use of an external key is tried: many clients of a fleet may
// come at once.
const useTries = 50

// readBinding verifies the external account binding (RFC 8555 section 7.3.4). wrong is the
// answer if it is not valid.
func (s *bindings) readBinding(c *call, data json.RawMessage, n *acmeorder.NewAccount) (wrong, err error) {
	if len(data) == 0 {
		return nil, nil
	}
	n.Binding = acmeorder.BindingWrong
	binding, p := jws.ParseBinding(data)
	if p != nil {
		return p, nil
	}
	key, mac, err := s.bindingKey(c.ctx, binding.KID)
	if err != nil {
		return nil, err
	}
	if key == nil || !key.Admits(c.endpoint, c.now) {
		mac = nil
	}
	if p := binding.Verify(mac, c.message.URL, c.message.Key); p != nil {
		return p, nil
	}
	n.Binding, n.ExternalKey = acmeorder.BindingGood, key
	return nil, nil
}

// bindingKey returns the external key of a key identifier, NAMESPACE.NAME, and its MAC
// key. It makes as many API calls if the key does not exist.
func (s *bindings) bindingKey(ctx context.Context, kid string) (*acmeorder.ExternalKey, []byte, error) {
	namespace, name, _ := strings.Cut(kid, ".")
	if namespace == "" || name == "" || len(kid) > 63+1+253 || strings.ContainsAny(kid, "/%?# ") {
		return nil, nil, nil
	}
	key, err := s.store.externalKey(ctx, namespace, name, true)
	if err != nil {
		return nil, nil, err
	}
	secret, entry := types.NamespacedName{Namespace: namespace, Name: name}, ""
	if key != nil {
		secret.Name, entry = key.Object().Spec.Secret.Name, key.Object().Spec.Secret.Key
	}
	object := &corev1.Secret{}
	err = s.store.live.Get(ctx, secret, object)
	switch {
	case key == nil || apierrors.IsNotFound(err):
		return nil, nil, nil
	case apierrors.IsForbidden(err):
		klog.FromContext(ctx).Error(err, "The ACME server may not read the Secret of an AcmeExternalKey", "externalKey", namespace+"/"+name)
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

// takeUse counts an account of an external key. Two servers cannot both take the last
// use: each counts on what it has read.
func (s *bindings) takeUse(c *call, of *v1alpha1.AcmeExternalKeyReference) error {
	if of == nil {
		return nil
	}
	for range useTries {
		k := &v1alpha1.AcmeExternalKey{}
		err := s.store.live.Get(c.ctx, client.ObjectKey{Namespace: of.Namespace, Name: of.Name}, k)
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
		if err != nil || k.UID != of.UID || k.Spec.MaxAccounts > 0 && k.Status.Accounts >= k.Spec.MaxAccounts {
			return jws.BindingRefused()
		}
		k.Status.Accounts++
		k.Status.LastUsed = &metav1.Time{Time: c.now.UTC().Truncate(time.Second)}
		err = s.store.live.Status().Update(c.ctx, k)
		switch {
		case err == nil:
			s.events.bound(k, c.address)
			return nil
		case !apierrors.IsConflict(err):
			return err
		case k.Spec.MaxAccounts == 0:
			return nil // whoever recounts finds it
		}
	}
	return errBusy
}
