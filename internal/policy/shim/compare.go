package shim

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Changed returns a stored Certificate with the wanted fields, or nil if it needs no change.
//
// A Certificate of cert-manager needs one only if cert-manager would have changed it too: one
// that lags behind its owner in other fields would be issued again by the change.
func Changed(stored, wanted *cmv1.Certificate) *cmv1.Certificate {
	if stored.Annotations[Mark] == "" && Digest(stored, false, nil) == Digest(wanted, false, nil) {
		return nil
	}
	next := merge(stored, wanted)
	if equality.Semantic.DeepEqual(next, stored) {
		return nil
	}
	return next
}

// Digest returns a digest of what is compared of a Certificate: the fields that cert-manager
// compares or, if ours is true, all that annotations can set and the copied annotations. Equal
// digests mean that Changed returns nil; different ones, that it may not.
func Digest(crt *cmv1.Certificate, ours bool, copied []string) string {
	d := merge(&cmv1.Certificate{}, crt)
	spec := &d.Spec
	spec.IssuerRef.Group = certmanager.IssuerGroup(spec.IssuerRef)
	maps.DeleteFunc(d.Annotations, func(key, _ string) bool {
		temporary := key == cmv1.IssueTemporaryCertificateAnnotation && d.Annotations[acmev1.ACMECertificateHTTP01IngressNameOverride] != ""
		return !temporary && !slices.Contains(overrides, key) && !slices.Contains(copied, key)
	})
	if !ours {
		key := ptr.Deref(spec.PrivateKey, cmv1.CertificatePrivateKey{})
		if key.Algorithm == cmv1.Ed25519KeyAlgorithm {
			key.Size = 0 // there is one size
		}
		spec.IssuerRef.Group, d.Annotations = "", nil
		d.Spec = cmv1.CertificateSpec{
			CommonName: spec.CommonName, DNSNames: spec.DNSNames, SecretName: spec.SecretName, IssuerRef: spec.IssuerRef, PrivateKey: &key,
			RevisionHistoryLimit: spec.RevisionHistoryLimit, Duration: spec.Duration, RenewBefore: spec.RenewBefore,
		}
	}
	text, _ := json.Marshal(d) // of a type that can be encoded
	sum := sha256.Sum256(text)
	return strconv.FormatBool(ours) + string(sum[:])
}

// IsCurrent reports whether a Certificate with a digest needs no change.
func IsCurrent(digest string, wanted *cmv1.Certificate, copied []string) bool {
	return digest == Digest(wanted, strings.HasPrefix(digest, "true"), copied)
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
