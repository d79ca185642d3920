package issuance

import (
	"cmp"
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

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

// KeyPlan is the next step for the key of the next certificate, which is kept in a
// separate Secret (NextKeySecret) until that certificate is issued.
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
	// Event gives the reason, if there is more to say than that a key was made; it
	// is a warning if IsWarning is set.
	Event     Finding
	IsWarning bool
	// Refusal, if not empty, is the reason why no key is made until the Certificate or its
	// Secret is changed. The caller then does nothing else. It is for an Event, and for
	// the message of the Issuing condition.
	Refusal Finding
}

// PlanKey decides about the key of the next certificate. secrets are the Secrets that the
// Certificate controls and that have the label of next keys. A next key exists only during
// an issuance, so a failed issuance deletes it.
func PlanKey(s Situation, secrets []*corev1.Secret) KeyPlan {
	crt := s.Certificate
	if !isIssuing(crt) || isDeleted(crt) {
		return KeyPlan{Delete: names(secrets)}
	}
	chosen := choose(NextKeyNames(s), secrets)
	if chosen == nil {
		return planNewKey(s)
	}
	others := slices.DeleteFunc(names(secrets), func(name string) bool { return name == chosen.Name })
	if why := s.unusable(chosen); why != "" {
		return KeyPlan{
			Delete: append(others, chosen.Name),
			Event:  Finding{Reason: EventDeleted, Message: fmt.Sprintf("Regenerating private key: %s", why)},
		}
	}
	return KeyPlan{Delete: others, Name: &chosen.Name}
}

// NextKeyNames returns the names of the Secrets that can have the key of the next
// certificate: that in the status, and those that requests for it name. A request
// is created before the status is written.
func NextKeyNames(s Situation) []string {
	var names []string
	if name := s.Certificate.Status.NextPrivateKeySecretName; name != nil {
		names = append(names, *name)
	}
	for _, cr := range s.Next() {
		if name := keyName(cr); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// keyName returns the name of the Secret with the key of a request, or "".
func keyName(cr *cmv1.CertificateRequest) string {
	return cr.Annotations[cmv1.CertificateRequestPrivateKeyAnnotationKey]
}

// choose returns the first Secret that has one of these names, or the oldest one.
func choose(preferred []string, secrets []*corev1.Secret) *corev1.Secret {
	for _, name := range preferred {
		if i := slices.IndexFunc(secrets, func(s *corev1.Secret) bool { return s.Name == name }); i >= 0 {
			return secrets[i]
		}
	}
	if len(secrets) == 0 {
		return nil
	}
	return slices.MinFunc(secrets, func(a, b *corev1.Secret) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// unusable returns why the key in a Secret cannot be used for the next certificate;
// empty if it can.
func (s Situation) unusable(next *corev1.Secret) string {
	key, err := NextKey(next)
	if err != nil {
		return err.Error()
	}
	if differences := wanted.KeyDifferences(&s.Certificate.Spec, key.Public()); len(differences) > 0 {
		return fmt.Sprintf("fields of the spec have changed: %s", list(differences))
	}
	return s.spent(key.Public())
}

// planNewKey is for a certificate that has no key yet.
func planNewKey(s Situation) KeyPlan {
	crt, target := s.Certificate, s.Secret
	generated := KeyPlan{Generate: true}
	if wanted.RotatesKey(&crt.Spec) || target == nil || len(target.Data[corev1.TLSPrivateKeyKey]) == 0 {
		return generated
	}
	key, err := pki.ParsePrivateKey(target.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		generated.IsWarning = true
		generated.Event = found(EventDecodeFailed, "Failed to decode private key stored in Secret %q: generating a new one", target.Name)
		return generated
	}
	if s.spent(key.Public()) != "" {
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

// KeyStored is for an Event that there is a key in a Secret of NextKeySecret.
func KeyStored(name string) Finding {
	return found(EventGenerated, "Stored new private key in temporary Secret resource %q", name)
}

const (
	// nextKeyBytes is how much of a hash ends the name of a Secret with a next key.
	nextKeyBytes = 5
	// maxKeyBase is the maximum length of the text before that: 253 characters, less a
	// hyphen and two for each byte.
	maxKeyBase = 253 - 1 - 2*nextKeyBytes
)

// NextKeySecret returns the Secret that keeps a key until its certificate is
// issued. Its name is another one for each key and time: a request names it
// before it is stored.
func NextKeySecret(crt *cmv1.Certificate, key crypto.Signer, now time.Time) (*corev1.Secret, error) {
	data, err := pki.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding the public key: %w", err)
	}
	sum := sha256.Sum256(now.UTC().AppendFormat(public, time.RFC3339Nano))
	// The part before a hyphen must not end with a dot.
	base := strings.TrimRight(crt.Name[:min(len(crt.Name), maxKeyBase)], ".-")
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       crt.Namespace,
			Name:            base + "-" + hex.EncodeToString(sum[:nextKeyBytes]),
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
