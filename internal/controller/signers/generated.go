package signers

import (
	"cmp"
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/rotation"
)

// A generated CA is one Secret. Each step of its life is one write that succeeds only if
// the Secret has not changed since it was read. If a process ends at any time, and with any
// number of processes, the Secret is either in the state before the step or in the state
// after it.
const (
	// ofAnnotation, on the Secret, names the Signer that the CA belongs to: no
	// other Signer gets it.
	ofAnnotation = "certplane.dev/signer"
	// takesOverAnnotation is the time from which the next CA signs (RFC 3339).
	takesOverAnnotation = "certplane.dev/next-takes-over"
	// rotateAnnotation on a Signer makes its CA be replaced once for each
	// value. On the Secret it is the last value for which that was done.
	rotateAnnotation = "certplane.dev/rotate-ca"
	// distributedAnnotation on a Signer is the SHA-256 digest of the next CA's
	// certificate, in lower-case hexadecimal digits, if a person has distributed its
	// root: it signs from then on, whether or not its root is published.
	distributedAnnotation = "certplane.dev/next-ca-distributed"

	managedByLabel = "app.kubernetes.io/managed-by"
	managedBy      = "certplane"
)

// generatedKeys are the keys of the Secret. The times are in its annotations,
// and the former CAs in the Signer's status.
var generatedKeys = rotation.Keys{
	Cert: corev1.TLSCertKey, Key: corev1.TLSPrivateKeyKey, NextCert: "next.crt", NextKey: "next.key",
}

// Defaults of generated CAs, as the CRD has them.
const defaultLifetime = 10 * 365 * 24 * time.Hour

func generatedName(s *v1alpha1.Signer) string {
	return cmp.Or(s.Spec.CA.Generated.SecretName, "signer-"+s.Name)
}

// generated opens the CA that is generated for a Signer, after the steps that
// are due in its life.
func (r *reconciler) generated(ctx context.Context, s *v1alpha1.Signer, now time.Time) (*issuer, time.Time, error) {
	secret := &corev1.Secret{}
	err := r.secrets.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: generatedName(s)}, secret)
	if client.IgnoreNotFound(err) != nil {
		return nil, now, err
	}
	if apierrors.IsNotFound(err) {
		if secret, err = r.missingSecret(ctx, s); err != nil {
			return nil, now, err
		}
	}
	opened, ca, err := r.openGenerated(s, secret)
	if err != nil {
		return nil, now, err
	}
	root, err := r.publication(ctx, s, ca, now)
	if err != nil {
		return nil, now, err
	}
	create := func() (rotation.Pair, error) { return r.newCA(ctx, s, now) }
	changed := false
	store := func(step rotation.Step, after rotation.CA) (err error) {
		secret, err = r.storeGenerated(ctx, s, secret, step, after)
		changed = true
		return err
	}
	rules := rulesOf(s, r.Settings.Propagation.Duration)
	_, again, err := rules.Settle(ca, root, now, create, store)
	if errors.Is(err, rotation.ErrUnsettled) {
		err = newProblem(reasonCAInvalid, "the CA in the Secret %s/%s: %v", r.Namespace, generatedName(s), err)
	}
	if err != nil {
		return nil, now, err
	}
	kept := secret.DeepCopy()
	forgets, ends := forgetFormer(kept, rules.Distrusts, now)
	if forgets {
		if err := r.Client.Update(ctx, kept); err != nil {
			return nil, now, err
		}
		secret, changed = kept, true
	}
	if changed {
		opened, _, err = r.openGenerated(s, secret)
	}
	if err != nil {
		return nil, now, err
	}
	return opened, pki.Soonest(again, ends), nil
}

// missingSecret returns the Secret of a generated CA that the cache does not have; nil
// if there has not been one. A CA whose Secret has been deleted is not replaced without
// being asked: no verifier has the root of another CA.
func (r *reconciler) missingSecret(ctx context.Context, s *v1alpha1.Signer) (*corev1.Secret, error) {
	name := generatedName(s)
	if s.Status.GeneratedSecret != name {
		return nil, nil
	}
	secret := &corev1.Secret{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, secret)
	switch {
	case err == nil: // the cache is behind
		return secret, nil
	case !apierrors.IsNotFound(err):
		return nil, err
	case s.Status.CA == nil || distrusts(s, s.Status.CA.Fingerprint):
		return nil, nil
	}
	return nil, newProblem(reasonCAMissing, "the Secret %s/%s with the signer's CA is missing: restore it. To generate a new CA, which no verifier trusts yet, add %s to spec.distrustedCAs",
		r.Namespace, name, s.Status.CA.Fingerprint)
}

// distrusts reports whether a Signer names a CA among those that must not be trusted.
func distrusts(s *v1alpha1.Signer, fingerprint string) bool {
	return slices.Contains(s.Spec.DistrustedCAs, fingerprint)
}

// publication returns where verifiers find the root of the next CA. It reads the API, not a
// cache, while a next CA exists.
func (r *reconciler) publication(ctx context.Context, s *v1alpha1.Signer, ca rotation.CA, now time.Time) (rotation.Publication, error) {
	seen := &r.memory.entry(s).published
	if ca.Next.Authority == nil {
		return seen.See(nil, false, now), nil
	}
	next := ca.Next.Certificate()
	if s.Annotations[distributedAnnotation] == pki.Fingerprint(next) {
		return rotation.Publication{Confirmed: true}, nil
	}
	roots, err := policies.BundledRoots(ctx, r.Client, s.Spec.SignerName)
	if apierrors.IsForbidden(err) { // older manifests do not grant it
		log.FromContext(ctx).Error(err, "Cannot check whether the root of the next CA is published: apply the manifests of this version", "signer", s.Spec.SignerName)
		err = nil
	}
	if err != nil {
		return rotation.Publication{}, err
	}
	return seen.See(next, slices.ContainsFunc(roots, next.Equal), now), nil
}

func lifetimeOf(s *v1alpha1.Signer) time.Duration {
	if d := s.Spec.CA.Generated.Lifetime; d != nil {
		return d.Duration
	}
	return defaultLifetime
}

func rulesOf(s *v1alpha1.Signer, propagation time.Duration) rotation.Rules {
	lifetime := lifetimeOf(s)
	if d := s.Spec.CA.Generated.Propagation; d != nil {
		propagation = d.Duration
	}
	rules := rotation.Rules{
		RotateBefore: lifetime / 3,
		Propagation:  min(propagation, lifetime/10),
		Request:      s.Annotations[rotateAnnotation],
		Distrusts:    func(cert *x509.Certificate) bool { return distrusts(s, pki.Fingerprint(cert)) },
	}
	if d := s.Spec.CA.Generated.RotateBefore; d != nil {
		rules.RotateBefore = d.Duration
	}
	return rules
}

// openGenerated reads an existing CA. It does not overwrite an altered Secret, because a
// user may need its content.
func (r *reconciler) openGenerated(s *v1alpha1.Signer, secret *corev1.Secret) (*issuer, rotation.CA, error) {
	if secret == nil {
		return nil, rotation.CA{}, nil
	}
	if secret.Annotations[ofAnnotation] != s.Name {
		return nil, rotation.CA{}, newProblem(reasonCAInvalid,
			"the Secret %s/%s does not belong to this Signer: choose another spec.ca.generated.secretName, or delete the Secret", r.Namespace, secret.Name)
	}
	data, takesOver, k := secret.Data, secret.Annotations[takesOverAnnotation], generatedKeys
	opened, err := r.reuseOrMake(s, func() (*issuer, error) {
		ca, err := k.Parse(data)
		if err != nil {
			return nil, newProblem(reasonCAInvalid, "the Secret %s/%s: %v", r.Namespace, secret.Name, err)
		}
		// A time that cannot be read counts as none: the next CA waits until it is set
		// again.
		ca.TakesOver, _ = time.Parse(time.RFC3339, takesOver)
		return &issuer{ca: always(ca.Current.Authority), moreRoots: ca.Certificates()[1:], generated: ca, former: openFormer(secret)}, nil
	}, append(formerData(secret), data[k.Cert], data[k.Key], data[k.NextCert], data[k.NextKey], []byte(takesOver))...)
	if err != nil {
		return nil, rotation.CA{}, err
	}
	ca := opened.generated
	ca.Done = secret.Annotations[rotateAnnotation]
	return opened, ca, nil
}

// storeGenerated writes a CA after a step in its life, and returns the new
// Secret. The key of a CA that no longer signs is kept for its revocation lists only, or
// deleted if this process signs none; its certificate stays in the trust bundles.
func (r *reconciler) storeGenerated(
	ctx context.Context, s *v1alpha1.Signer, secret *corev1.Secret, step rotation.Step, ca rotation.CA,
) (*corev1.Secret, error) {
	write := func() error { return r.Client.Update(ctx, secret) }
	if step == rotation.Make {
		secret = r.newSecret(s)
		write = func() error { return r.Client.Create(ctx, secret) }
	} else {
		secret = secret.DeepCopy()
	}
	if step == rotation.TakeOver && r.Revoked != nil {
		r.keepFormer(s, secret, ca.Former[len(ca.Former)-1])
	}
	generatedKeys.Put(secret.Data, ca)
	delete(secret.Annotations, takesOverAnnotation)
	if ca.Next.Authority != nil {
		secret.Annotations[takesOverAnnotation] = ca.TakesOver.Format(time.RFC3339)
	}
	secret.Annotations[rotateAnnotation] = ca.Done
	if err := write(); err != nil {
		return nil, err
	}
	switch step {
	case rotation.Make:
		r.eventRotated(ctx, s, "CAGenerated", "Generated a CA and stored it in the Secret %s/%s", r.Namespace, secret.Name)
	case rotation.Prepare:
		r.eventRotated(ctx, s, "CAPrepared", "Generated the next CA %s, which signs once its root has been published for some time", pki.Fingerprint(ca.Next.Certificate()))
	case rotation.Schedule:
		r.eventRotated(ctx, s, "CAScheduled", "The root of the next CA is published; that CA signs from %s on", secret.Annotations[takesOverAnnotation])
	case rotation.Hold:
		r.warn(s, "CAHeld", "Rotate", "The root of the next CA is no longer published: that CA does not sign until it has been published again for some time")
	case rotation.Replace:
		r.eventRotated(ctx, s, "CAReplaced", "Generated a new CA in place of a distrusted one; it signs at once, and its root is published now")
	case rotation.TakeOver:
		r.eventRotated(ctx, s, "CAReplaced", "Signing with the next CA from now on; the root of the previous CA stays trusted while its certificates are valid")
	}
	return secret, nil
}

func (r *reconciler) newSecret(s *v1alpha1.Signer) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: r.Namespace, Name: generatedName(s), Labels: map[string]string{managedByLabel: managedBy},
			Annotations: map[string]string{ofAnnotation: s.Name},
		},
		Type: corev1.SecretTypeTLS, Data: map[string][]byte{},
	}
}

func (r *reconciler) eventRotated(ctx context.Context, s *v1alpha1.Signer, reason, format string, args ...any) {
	log.FromContext(ctx).Info("The CA of a declared signer has changed", "signer", s.Spec.SignerName, "reason", reason)
	r.event(s, corev1.EventTypeNormal, reason, "Rotate", format, args...)
}

// maxCommonName is the upper bound of RFC 5280 appendix A.1, in characters.
const maxCommonName = 64

func (r *reconciler) newCA(ctx context.Context, s *v1alpha1.Signer, now time.Time) (rotation.Pair, error) {
	key, err := newKey(s.Spec.CA.Generated.KeyType)
	if err != nil {
		return rotation.Pair{}, err
	}
	name := cmp.Or(s.Spec.CA.Generated.CommonName, s.Spec.SignerName)
	by := r.Issuing.For(ctx, pki.Purpose{
		Signer: s.Spec.SignerName, Kind: "Signer", Name: s.Name, UID: string(s.UID), Use: "root of the signer's CA",
	})
	return rotation.NewRoot(by, name[:min(len(name), maxCommonName)], key, lifetimeOf(s), now)
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
