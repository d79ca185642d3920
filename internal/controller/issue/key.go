package issue

import (
	"context"
	"crypto"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policy/issuance"
)

// keepKey ensures that a key for the next certificate exists while one is being issued, and
// only then. A new key can be used in the same pass.
func (t *pass) keepKey(ctx context.Context) (ends bool, err error) {
	plan := issuance.PlanKey(t.Situation, t.nextKeys)
	if !plan.Refusal.None() {
		t.reportBlocked(keyManager, plan.Refusal)
		return true, nil // without a key, the pass ends
	}
	name := plan.Name
	if plan.Generate || plan.Reuse != nil {
		if name, err = t.newKey(ctx, plan); err != nil {
			return false, err
		}
	}
	t.setStatus(keyManager, func(crt *cmv1.Certificate) { crt.Status.NextPrivateKeySecretName = name })
	if len(plan.Delete) == 0 {
		return false, nil
	}
	t.tellNormal(keyManager, plan.Event)
	if err := t.flush(ctx); err != nil {
		return false, err
	}
	if err := t.deleteKeys(ctx, plan.Delete); err != nil {
		return false, err
	}
	if name == nil && isIssuing(t.Certificate) {
		return t.keepKey(ctx) // a new one
	}
	return false, nil
}

// newKey makes the key of the next certificate and stores it in a Secret, whose name
// it returns. That comes before the request: whatever happens then, the certificate
// has a key.
func (t *pass) newKey(ctx context.Context, plan issuance.KeyPlan) (*string, error) {
	key, err := plan.Reuse, error(nil)
	if plan.Generate {
		key, err = t.rsa.newKey(ctx, t.Certificate)
	}
	if err != nil {
		return nil, fmt.Errorf("making a key for Certificate %s/%s: %w", t.Certificate.Namespace, t.Certificate.Name, err)
	}
	secret, err := issuance.NextKeySecret(t.Certificate, key, t.now)
	if err != nil {
		return nil, err
	}
	if err := t.unchanged(ctx); err != nil {
		return nil, err
	}
	if err := t.Client.Create(ctx, secret, client.FieldOwner(keyManager)); err != nil {
		return nil, fmt.Errorf("storing a key for Certificate %s/%s: %w", t.Certificate.Namespace, t.Certificate.Name, err)
	}
	t.saw(secret.ResourceVersion)
	t.nextKeys, t.key = append(t.nextKeys, secret), key
	switch {
	case plan.Reuse != nil:
		t.opens(keyManager, plan.Event)
	default:
		if plan.IsWarning {
			t.tellWarning(keyManager, plan.Event)
		}
		t.opens(keyManager, issuance.KeyStored(secret.Name))
	}
	return &secret.Name, nil
}

// deleteKeys deletes these of nextKeys.
func (t *pass) deleteKeys(ctx context.Context, names []string) error {
	var kept []*corev1.Secret
	for _, secret := range t.nextKeys {
		if !slices.Contains(names, secret.Name) {
			kept = append(kept, secret)
			continue
		}
		t.deletes(secret)
		err := t.Client.Delete(ctx, secret, client.Preconditions{UID: &secret.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting the key %s/%s: %w", secret.Namespace, secret.Name, err)
		}
	}
	t.nextKeys = kept
	return nil
}

// nextKey returns the key of the next certificate, or nil. If the key cannot be
// read, nextKey returns nil and keepKey replaces it. The key is read once in a
// pass: for RSA, that costs as much as a request to the API.
func (t *pass) nextKey() crypto.Signer {
	if t.Certificate.Status.NextPrivateKeySecretName == nil {
		return nil
	}
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
