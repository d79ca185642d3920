package certificates

import (
	"bytes"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// tolerances are the rules that a request need not follow: those that the
// stored object already breaks, so that it stays updatable, and those that
// v1beta1 never had.
type tolerances struct {
	legacySigner            bool // kubernetes.io/legacy-unknown, in a stored request
	unknownUsages           bool
	duplicateUsages         bool
	emptyConditionTypes     bool
	duplicateConditionTypes bool
	approvedAndDenied       bool
	arbitraryCertificate    bool
	replacedCertificate     bool // one issued certificate for another

	// inferredSigner removes no rule: the client has not named a signer, so one
	// is chosen, and an error about it has to explain that.
	inferredSigner bool
}

// toleratedFor returns the tolerances of a request in version that replaces old
// by csr. Old is nil when csr is new.
func toleratedFor(version schema.GroupVersion, csr, old *certificatesv1.CertificateSigningRequest) tolerances {
	t := tolerances{}
	if old != nil {
		t = toleratedForStored(csr, old)
	}
	if version == certificatesv1beta1.SchemeGroupVersion {
		t.unknownUsages = true
		t.duplicateUsages = true
		t.emptyConditionTypes = true
		t.duplicateConditionTypes = true
		t.arbitraryCertificate = true
		t.replacedCertificate = true
		t.inferredSigner = true
	}
	return t
}

func toleratedForStored(csr, old *certificatesv1.CertificateSigningRequest) tolerances {
	return tolerances{
		legacySigner:            old.Spec.SignerName == certificatesv1beta1.LegacyUnknownSignerName,
		unknownUsages:           hasUnknownUsages(old.Spec.Usages),
		duplicateUsages:         hasDuplicates(old.Spec.Usages),
		emptyConditionTypes:     Condition(old, "") != nil,
		duplicateConditionTypes: hasDuplicates(conditionTypes(old.Status.Conditions)),
		approvedAndDenied:       Condition(old, certificatesv1.CertificateApproved) != nil && Condition(old, certificatesv1.CertificateDenied) != nil,
		arbitraryCertificate: bytes.Equal(csr.Status.Certificate, old.Status.Certificate) ||
			checkCertificate(old.Status.Certificate) != nil,
	}
}

func hasDuplicates[T comparable](values []T) bool {
	seen := make(map[T]bool, len(values))
	for _, value := range values {
		if seen[value] {
			return true
		}
		seen[value] = true
	}
	return false
}
