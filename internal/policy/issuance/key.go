package issuance

import (
	"cmp"
	"crypto"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/wanted"
)

// The reasons of a KeyPlan's Events.
const (
	EventGenerated    = "Generated"
	EventReused       = "Reused"
	EventDeleted      = "Deleted"
	EventDecodeFailed = "DecodeFailed"
)

// KeyPlan is what to do about the key of the next certificate, which is kept in
// a Secret of its own (NextKeySecret) until that certificate is issued.
type KeyPlan struct {
	// Delete are the names of Secrets whose key cannot be used for the next
	// certificate.
	Delete []string
	// Name is the value for status.nextPrivateKeySecretName: nil, or the name
	// of the Secret whose key is used. It is also nil if a key has to be
	// generated first.
	Name *string
	// Generate means that the caller must generate a key with wanted.NewKey,
	// and store it.
	Generate bool
	// Reuse, if not nil, is the key to store instead.
	Reuse crypto.Signer
	// Event gives the reason, without the name of a Secret that does not exist
	// yet; it is a warning if IsWarning is set.
	Event     Finding
	IsWarning bool
	// Refusal, if not empty, says why there will be no key until the
	// Certificate or its Secret is changed. There is nothing to do then. It is
	// for an Event, and for the message of the Issuing condition.
	Refusal Finding
}

// PlanKey decides about the key of the next certificate. secrets are the
// Secrets that crt controls and that have the label of next keys; target is the
// Secret that spec.secretName names, or nil. There is no next key while nothing
// is being issued, so a failed issuance deletes it.
func PlanKey(crt *cmv1.Certificate, secrets []*corev1.Secret, target *corev1.Secret) KeyPlan {
	if !isIssuing(crt) || isDeleted(crt) {
		return KeyPlan{Delete: names(secrets)}
	}
	chosen := choose(crt, secrets)
	if chosen == nil {
		return planNewKey(crt, target)
	}
	others := slices.DeleteFunc(names(secrets), func(name string) bool { return name == chosen.Name })
	if why := unusable(crt, chosen); why != "" {
		return KeyPlan{
			Delete: append(others, chosen.Name),
			Event:  Finding{Reason: EventDeleted, Message: fmt.Sprintf("Regenerating private key: %s", why)},
		}
	}
	return KeyPlan{Delete: others, Name: &chosen.Name}
}

// choose returns the Secret that the status names, or the first one.
func choose(crt *cmv1.Certificate, secrets []*corev1.Secret) *corev1.Secret {
	for _, s := range secrets {
		if name := crt.Status.NextPrivateKeySecretName; name != nil && s.Name == *name {
			return s
		}
	}
	if len(secrets) == 0 {
		return nil
	}
	return slices.MinFunc(secrets, func(a, b *corev1.Secret) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// unusable returns why the key in s cannot be used for the next certificate;
// empty if it can.
func unusable(crt *cmv1.Certificate, s *corev1.Secret) string {
	key, err := NextKey(s)
	if err != nil {
		return err.Error()
	}
	if differences := wanted.KeyDifferences(&crt.Spec, key.Public()); len(differences) > 0 {
		return fmt.Sprintf("fields of the spec have changed: %s", list(differences))
	}
	return ""
}

// planNewKey is for a certificate that has no key yet.
func planNewKey(crt *cmv1.Certificate, target *corev1.Secret) KeyPlan {
	generated := KeyPlan{Generate: true, Event: Finding{Reason: EventGenerated, Message: "Stored new private key in temporary Secret resource"}}
	if wanted.RotatesKey(&crt.Spec) || target == nil || len(target.Data[corev1.TLSPrivateKeyKey]) == 0 {
		return generated
	}
	key, err := pki.ParsePrivateKey(target.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		generated.IsWarning = true
		generated.Event = found(EventDecodeFailed, "Failed to decode private key stored in Secret %q: generating a new one", target.Name)
		return generated
	}
	if differences := wanted.KeyDifferences(&crt.Spec, key.Public()); len(differences) > 0 {
		return KeyPlan{Refusal: found(ReasonCannotRegenerateKey,
			"The private key in Secret %q differs from the spec in %s, and spec.privateKey.rotationPolicy is Never: set it to Always, change the spec back, or delete the key",
			target.Name, list(differences))}
	}
	return KeyPlan{Reuse: key, Event: found(EventReused, "Reusing private key stored in existing Secret resource %q", target.Name)}
}

func names(secrets []*corev1.Secret) []string {
	var names []string
	for _, s := range secrets {
		names = append(names, s.Name)
	}
	return names
}

// NextKey returns the key in a Secret of NextKeySecret.
func NextKey(s *corev1.Secret) (crypto.Signer, error) {
	key, err := pki.ParsePrivateKey(s.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading the private key in Secret %q: %w", s.Name, err)
	}
	return key, nil
}

// NextKeySecret returns the Secret that keeps a key until its certificate is
// issued. The API server completes its name (generateName).
func NextKeySecret(crt *cmv1.Certificate, key crypto.Signer) (*corev1.Secret, error) {
	data, err := pki.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       crt.Namespace,
			GenerateName:    crt.Name + "-",
			Labels:          NextKeyLabels(),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(crt, cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind))},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{corev1.TLSPrivateKeyKey: data},
	}, nil
}

// NextKeyLabels returns the labels of a Secret of NextKeySecret.
func NextKeyLabels() map[string]string {
	return map[string]string{cmv1.IsNextPrivateKeySecretLabelKey: "true", cmv1.PartOfCertManagerControllerLabelKey: "true"}
}
