package certificateshim

import (
	"maps"
	"slices"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// changed returns a stored Certificate with the wanted fields, or nil if it needs no change.
//
// A Certificate of cert-manager needs one only if cert-manager would have changed it too: one
// that lags behind its owner in other fields would be issued again by the change.
func changed(stored, wanted *cmv1.Certificate) *cmv1.Certificate {
	if stored.Annotations[Mark] == "" && !lags(stored, wanted) {
		return nil
	}
	next := merge(stored, wanted)
	if equality.Semantic.DeepEqual(next, stored) {
		return nil
	}
	return next
}

// lags reports whether a Certificate differs in a field that cert-manager compares.
func lags(stored, wanted *cmv1.Certificate) bool {
	have, want := &stored.Spec, &wanted.Spec
	return !maps.Equal(stored.Labels, wanted.Labels) || have.CommonName != want.CommonName || !slices.Equal(have.DNSNames, want.DNSNames) ||
		have.SecretName != want.SecretName || have.IssuerRef.Name != want.IssuerRef.Name || have.IssuerRef.Kind != want.IssuerRef.Kind ||
		!ptr.Equal(have.RevisionHistoryLimit, want.RevisionHistoryLimit) || comparedKey(have) != comparedKey(want) ||
		!ptr.Equal(have.Duration, want.Duration) || !ptr.Equal(have.RenewBefore, want.RenewBefore)
}

// comparedKey returns the settings of a private key that matter: Ed25519 keys have one size.
func comparedKey(spec *cmv1.CertificateSpec) cmv1.CertificatePrivateKey {
	key := ptr.Deref(spec.PrivateKey, cmv1.CertificatePrivateKey{})
	if key.Algorithm == cmv1.Ed25519KeyAlgorithm {
		key.Size = 0
	}
	return key
}

// merge returns a copy of a stored Certificate with the wanted labels, annotations and fields.
// Fields that no annotation can set stay as users have set them.
func merge(stored, wanted *cmv1.Certificate) *cmv1.Certificate {
	next := stored.DeepCopy()
	next.Labels, next.Annotations = wanted.Labels, mergeAnnotations(stored.Annotations, wanted.Annotations)
	to, from := &next.Spec, &wanted.Spec
	to.SecretName, to.CommonName, to.Subject = from.SecretName, from.CommonName, from.Subject
	to.DNSNames, to.IPAddresses, to.EmailAddresses = from.DNSNames, from.IPAddresses, from.EmailAddresses
	to.Duration, to.RenewBefore, to.RenewBeforePercentage = from.Duration, from.RenewBefore, from.RenewBeforePercentage
	to.Usages, to.RevisionHistoryLimit, to.SecretTemplate = from.Usages, from.RevisionHistoryLimit, from.SecretTemplate
	if ptr.Deref(to.PrivateKey, cmv1.CertificatePrivateKey{}) != ptr.Deref(from.PrivateKey, cmv1.CertificatePrivateKey{}) {
		to.PrivateKey = from.PrivateKey
	}
	if !certmanager.SameIssuer(to.IssuerRef, from.IssuerRef) {
		to.IssuerRef = from.IssuerRef
	}
	return next
}

// overrides are the annotations that are removed from a Certificate when its owner does not
// request them any more.
var overrides = []string{
	acmev1.ACMECertificateHTTP01IngressNameOverride, acmev1.ACMECertificateHTTP01IngressClassOverride, acmev1.ACMECertificateHTTP01IngressClassNameOverride,
	acmev1.ACMECertificateHTTP01ParentRefKind, acmev1.ACMECertificateHTTP01ParentRefName, acmev1.ACMECertificateHTTP01ParentRefNamespace,
}

func mergeAnnotations(stored, wanted map[string]string) map[string]string {
	merged := maps.Clone(stored)
	if merged == nil {
		merged = map[string]string{}
	}
	if _, named := merged[acmev1.ACMECertificateHTTP01IngressNameOverride]; named {
		delete(merged, cmv1.IssueTemporaryCertificateAnnotation)
	}
	for _, key := range overrides {
		delete(merged, key)
	}
	maps.Copy(merged, wanted)
	return merged
}
