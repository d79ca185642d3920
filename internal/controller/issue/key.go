package issue

import (
	"context"
	"crypto"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
)

// keepKey ensures that there is a key for the next certificate while one is
// being issued, and none otherwise. A new key can be used in the same pass.
func (t *pass) keepKey(ctx context.Context) (changed bool, err error) {
	plan := issuance.PlanKey(t.Certificate, t.nextKeys, t.Secret)
	if !plan.Refusal.None() {
		return true, t.reportBlocked(ctx, keyManager, plan.Refusal) // without a key, the pass ends
	}
	name := plan.Name
	if plan.Generate || plan.Reuse != nil {
		if name, err = t.storeKey(ctx, plan); err != nil {
			return false, err
		}
	}
	_, err = t.setStatus(ctx, keyManager, func(crt *cmv1.Certificate) { crt.Status.NextPrivateKeySecretName = name })
	if err != nil {
		return false, err
	}
	if err := t.deleteKeys(ctx, plan.Delete); err != nil {
		return false, err
	}
	if len(plan.Delete) > 0 {
		t.eventNormal(keyManager, t.Certificate, plan.Event)
	}
	return len(plan.Delete) > 0, nil
}

// storeKey stores the key of the next certificate and returns the name of its
// Secret.
func (t *pass) storeKey(ctx context.Context, plan issuance.KeyPlan) (*string, error) {
	key, err := plan.Reuse, error(nil)
	if plan.Generate {
		key, err = wanted.NewKey(&t.Certificate.Spec)
	}
	if err != nil {
		return nil, fmt.Errorf("making a key for Certificate %s/%s: %w", t.Certificate.Namespace, t.Certificate.Name, err)
	}
	secret, err := issuance.NextKeySecret(t.Certificate, key)
	if err != nil {
		return nil, err
	}
	if err := t.unchanged(ctx); err != nil {
		return nil, err
	}
	if err := t.Client.Create(ctx, secret, client.FieldOwner(keyManager)); err != nil {
		return nil, fmt.Errorf("storing a key for Certificate %s/%s: %w", t.Certificate.Namespace, t.Certificate.Name, err)
	}
	t.tellKey(plan, secret.Name)
	t.nextKeys, t.key = append(t.nextKeys, secret), key
	return &secret.Name, nil
}

func (t *pass) tellKey(plan issuance.KeyPlan, name string) {
	what := plan.Event
	if what.Reason == issuance.EventGenerated {
		what.Message += fmt.Sprintf(" %q", name)
	}
	if plan.IsWarning {
		t.eventWarning(keyManager, t.Certificate, what)
		return
	}
	t.eventNormal(keyManager, t.Certificate, what)
}

func (t *pass) deleteKeys(ctx context.Context, names []string) error {
	for _, secret := range t.nextKeys {
		for _, name := range names {
			if secret.Name != name {
				continue
			}
			err := t.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("deleting the key %s/%s: %w", secret.Namespace, name, err)
			}
		}
	}
	return nil
}

// nextKey returns the key of the next certificate, or nil. If the key cannot be
// read, nextKey returns nil and keepKey replaces it. The key is read once in a
// pass: for RSA, that costs as much as a request to the API.
func (t *pass) nextKey() crypto.Signer {
	for i := 0; t.key == nil && i < len(t.nextKeys); i++ {
		t.key = keyOf(t.Certificate, t.nextKeys[i])
	}
	return t.key
}

func keyOf(crt *cmv1.Certificate, secret *corev1.Secret) crypto.Signer {
	if name := crt.Status.NextPrivateKeySecretName; name == nil || *name != secret.Name {
		return nil
	}
	key, err := issuance.NextKey(secret)
	if err != nil {
		return nil
	}
	return key
}
