package signers

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
)

// A generated CA is one Secret. Each step of its life is one write that holds
// only if nobody has written since: whenever a process ends, and however many
// there are, the Secret is as before the step or as after it.
const (
	// nextCertKey and nextKeyKey have the CA that is to sign next.
	nextCertKey = "next.crt"
	nextKeyKey  = "next.key"
	// ofAnnotation says on the Secret whose CA it is: no other Signer gets it.
	ofAnnotation = "certplane.dev/signer"
	// takesOverAnnotation says when the next CA signs (RFC 3339).
	takesOverAnnotation = "certplane.dev/next-takes-over"
	// rotateAnnotation has, on a Signer, its CA replaced once for each value;
	// on the Secret it is the last value for which that was done.
	rotateAnnotation = "certplane.dev/rotate-ca"

	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "certplane"
)

// Defaults of generated CAs, as the CRD has them.
const defaultLifetime = 10 * 365 * 24 * time.Hour

// maxSteps is how many steps of a CA's life one look can take.
const maxSteps = 4

func generatedName(s *v1alpha1.Signer) string {
	return cmp.Or(s.Spec.CA.Generated.SecretName, "signer-"+s.Name)
}

// generated opens the CA that is made for a Signer, after what is due in its
// life.
func (r *reconciler) generated(ctx context.Context, s *v1alpha1.Signer, now time.Time) (*issuer, time.Time, error) {
	secret := &corev1.Secret{}
	err := r.secrets.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: generatedName(s)}, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, now, err
	}
	if apierrors.IsNotFound(err) {
		secret = nil
	}
	rules := rulesOf(s, r.Settings.Propagation.Duration)
	for range maxSteps {
		opened, state, err := r.openGenerated(s, secret)
		if err != nil {
			return nil, now, err
		}
		step, at := rules.Next(state, now)
		if step == rotation.Wait {
			return opened, at, nil
		}
		if secret, err = r.take(ctx, s, secret, step, at, now); err != nil {
			return nil, now, err
		}
	}
	return nil, now, newProblem(reasonCAInvalid, "the CA in the Secret %s/%s does not come to rest", r.Namespace, generatedName(s))
}

func lifetimeOf(s *v1alpha1.Signer) time.Duration {
	if d := s.Spec.CA.Generated.Lifetime; d != nil {
		return d.Duration
	}
	return defaultLifetime
}

func rulesOf(s *v1alpha1.Signer, propagation time.Duration) rotation.Rules {
	lifetime := lifetimeOf(s)
	rules := rotation.Rules{
		RotateBefore: lifetime / 3,
		Propagation:  min(propagation, lifetime/10),
		Wish:         s.Annotations[rotateAnnotation],
	}
	if d := s.Spec.CA.Generated.RotateBefore; d != nil {
		rules.RotateBefore = d.Duration
	}
	return rules
}

// openGenerated reads what there is of a CA. A Secret that is not as it was
// made is left alone: somebody may need it.
func (r *reconciler) openGenerated(s *v1alpha1.Signer, secret *corev1.Secret) (*issuer, rotation.State, error) {
	if secret == nil {
		return nil, rotation.State{}, nil
	}
	if secret.Annotations[ofAnnotation] != s.Name {
		return nil, rotation.State{}, newProblem(reasonCAInvalid,
			"the Secret %s/%s was not made for this Signer: choose another spec.ca.generated.secretName, or delete the Secret", r.Namespace, secret.Name)
	}
	data := secret.Data
	state := rotation.State{Done: secret.Annotations[rotateAnnotation]}
	opened, err := r.once(s, func() (*issuer, error) {
		current, err := parseCA(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
		if err != nil {
			return nil, newProblem(reasonCAInvalid, "the Secret %s/%s: %v", r.Namespace, secret.Name, err)
		}
		made := &issuer{ca: always(current)}
		if len(data[nextCertKey]) > 0 {
			next, err := parseCA(data[nextCertKey], data[nextKeyKey])
			if err != nil {
				return nil, newProblem(reasonCAInvalid, "the Secret %s/%s: the next CA: %v", r.Namespace, secret.Name, err)
			}
			made.further = []*x509.Certificate{next.Certificate()}
		}
		return made, nil
	}, data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey], data[nextCertKey], data[nextKeyKey])
	if err != nil {
		return nil, state, err
	}
	state.Current = opened.certificate()
	if len(opened.further) > 0 {
		state.Next = opened.further[0]
		// A time that cannot be read is none: then it takes over at once.
		state.TakesOver, _ = time.Parse(time.RFC3339, secret.Annotations[takesOverAnnotation])
	}
	return opened, state, nil
}

// take makes one step in the life of a CA, and returns the Secret after it.
func (r *reconciler) take(ctx context.Context, s *v1alpha1.Signer, secret *corev1.Secret, step rotation.Step, at, now time.Time) (*corev1.Secret, error) {
	var err error
	switch step {
	case rotation.Make:
		secret, err = r.make(ctx, s, now)
	case rotation.Prepare:
		secret, err = r.prepare(ctx, s, secret, at, now)
	case rotation.TakeOver:
		secret, err = r.takeOver(ctx, s, secret)
	}
	return secret, err
}

func (r *reconciler) make(ctx context.Context, s *v1alpha1.Signer, now time.Time) (*corev1.Secret, error) {
	cert, key, err := newCA(s, now)
	if err != nil {
		return nil, err
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: generatedName(s), Labels: map[string]string{managedByLabel: managedBy},
			Annotations: map[string]string{ofAnnotation: s.Name, rotateAnnotation: s.Annotations[rotateAnnotation]},
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key},
	}
	if err := r.Client.Create(ctx, secret); err != nil {
		return nil, err
	}
	r.tell(ctx, s, "CAGenerated", "Made a CA, which is kept in the Secret %s/%s", r.Namespace, secret.Name)
	return secret, nil
}

func (r *reconciler) prepare(ctx context.Context, s *v1alpha1.Signer, secret *corev1.Secret, at, now time.Time) (*corev1.Secret, error) {
	cert, key, err := newCA(s, now)
	if err != nil {
		return nil, err
	}
	secret = secret.DeepCopy()
	secret.Data[nextCertKey], secret.Data[nextKeyKey] = cert, key
	secret.Annotations[takesOverAnnotation] = at.UTC().Format(time.RFC3339)
	secret.Annotations[rotateAnnotation] = s.Annotations[rotateAnnotation]
	if err := r.Client.Update(ctx, secret); err != nil {
		return nil, err
	}
	r.tell(ctx, s, "CAPrepared", "Made the next CA, which signs from %s on", secret.Annotations[takesOverAnnotation])
	return secret, nil
}

// takeOver forgets the key of the CA before. Its certificate lives on in the
// trust bundles.
func (r *reconciler) takeOver(ctx context.Context, s *v1alpha1.Signer, secret *corev1.Secret) (*corev1.Secret, error) {
	secret = secret.DeepCopy()
	secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey] = secret.Data[nextCertKey], secret.Data[nextKeyKey]
	delete(secret.Data, nextCertKey)
	delete(secret.Data, nextKeyKey)
	delete(secret.Annotations, takesOverAnnotation)
	if err := r.Client.Update(ctx, secret); err != nil {
		return nil, err
	}
	r.tell(ctx, s, "CAReplaced", "Signing with the next CA from now on; the root of the one before stays trusted while its certificates live")
	return secret, nil
}

func (r *reconciler) tell(ctx context.Context, s *v1alpha1.Signer, reason, format string, args ...any) {
	log.FromContext(ctx).Info("The CA of a declared signer has changed", "signer", s.Spec.SignerName, "reason", reason)
	r.event(s, corev1.EventTypeNormal, reason, "Rotate", format, args...)
}

// maxCommonName is the upper bound of RFC 5280 appendix A.1, in characters.
const maxCommonName = 64

// newCA makes a CA in PEM.
func newCA(s *v1alpha1.Signer, now time.Time) (cert, key []byte, err error) {
	signing, err := newKey(s.Spec.CA.Generated.KeyType)
	if err != nil {
		return nil, nil, err
	}
	name := cmp.Or(s.Spec.CA.Generated.CommonName, s.Spec.SignerName)
	root, err := pki.NewRoot(name[:min(len(name), maxCommonName)], signing, lifetimeOf(s), now)
	if err != nil {
		return nil, nil, err
	}
	if key, err = pki.EncodePrivateKey(signing); err != nil {
		return nil, nil, err
	}
	return pki.EncodeCertificates(root.Certificate()), key, nil
}

// keyTypes are pki's names for the types of keys.
var keyTypes = map[v1alpha1.KeyType]pki.KeyType{
	"RSA2048": pki.RSA2048, "RSA3072": pki.RSA3072, "RSA4096": pki.RSA4096,
	"ECDSAP256": pki.ECDSAP256, "ECDSAP384": pki.ECDSAP384, "ECDSAP521": pki.ECDSAP521, "ED25519": pki.Ed25519,
}

func newKey(kind v1alpha1.KeyType) (crypto.Signer, error) {
	known, ok := keyTypes[kind]
	if kind != "" && !ok {
		return nil, newProblem(reasonInvalid, "spec.ca.generated.keyType: %q is not known", kind)
	}
	return pki.GenerateKey(cmp.Or(known, pki.ECDSAP256))
}
