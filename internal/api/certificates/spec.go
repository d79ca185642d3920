package certificates

import (
	"bytes"
	"fmt"
	"slices"

	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/pki"
)

// minExpirationSeconds keeps clients from renewing so often that they harm
// the API (KEP-2784).
const minExpirationSeconds = 600

// knownUsages are the usages of the v1 API, in the order error messages list
// them: sorted.
var knownUsages = []certificatesv1.KeyUsage{
	certificatesv1.UsageAny,
	certificatesv1.UsageCertSign,
	certificatesv1.UsageClientAuth,
	certificatesv1.UsageCodeSigning,
	certificatesv1.UsageContentCommitment,
	certificatesv1.UsageCRLSign,
	certificatesv1.UsageDataEncipherment,
	certificatesv1.UsageDecipherOnly,
	certificatesv1.UsageDigitalSignature,
	certificatesv1.UsageEmailProtection,
	certificatesv1.UsageEncipherOnly,
	certificatesv1.UsageIPsecEndSystem,
	certificatesv1.UsageIPsecTunnel,
	certificatesv1.UsageIPsecUser,
	certificatesv1.UsageKeyAgreement,
	certificatesv1.UsageKeyEncipherment,
	certificatesv1.UsageMicrosoftSGC,
	certificatesv1.UsageNetscapeSGC,
	certificatesv1.UsageOCSPSigning,
	certificatesv1.UsageSMIME,
	certificatesv1.UsageServerAuth,
	certificatesv1.UsageSigning,
	certificatesv1.UsageTimestamping,
}

// validateRequest accepts a PEM-encoded PKCS#10 request that is signed with the
// key inside it. The approver and the signer decide about its content.
func validateRequest(request, proven []byte, fldPath *field.Path) field.ErrorList {
	stored := bytes.Equal(request, proven)
	if len(request) > pki.MaxRequestBytes && !stored {
		return field.ErrorList{field.TooLong(fldPath, "", pki.MaxRequestBytes)}
	}
	parsed, err := pki.ParseRequest(request)
	if err == nil && !stored {
		err = pki.VerifyRequest(parsed.CertificateRequest)
	}
	if err != nil {
		return field.ErrorList{field.Invalid(fldPath, request, err.Error())}
	}
	return nil
}

// maxUsageErrors bounds the errors for a body full of invalid usages: each
// error repeats the list of known ones. No request that can be corrected has
// more.
const maxUsageErrors = 100

// validateUsages reports every unknown usage before any duplicate one, up to
// maxUsageErrors.
func validateUsages(usages []certificatesv1.KeyUsage, tolerated tolerances, fldPath *field.Path) field.ErrorList {
	if len(usages) == 0 {
		return field.ErrorList{field.Required(fldPath, "")}
	}
	var errs field.ErrorList
	for i, usage := range usages {
		if len(errs) == maxUsageErrors {
			return errs
		}
		if !tolerated.unknownUsages && !slices.Contains(knownUsages, usage) {
			errs = append(errs, field.NotSupported(fldPath.Index(i), usage, knownUsages))
		}
	}
	seen := make(map[certificatesv1.KeyUsage]bool, len(knownUsages))
	for i, usage := range usages {
		if len(errs) == maxUsageErrors {
			return errs
		}
		if !tolerated.duplicateUsages && seen[usage] {
			errs = append(errs, field.Duplicate(fldPath.Index(i), usage))
		}
		seen[usage] = true
	}
	return errs
}

func hasUnknownUsages(usages []certificatesv1.KeyUsage) bool {
	return slices.ContainsFunc(usages, func(usage certificatesv1.KeyUsage) bool {
		return !slices.Contains(knownUsages, usage)
	})
}

// validateRequestedSigner is ValidateSignerName, but refuses one well-formed name that can
// no longer be requested: its signer makes no promise about the content of its
// certificates. Kubernetes' v1beta1 accepted it.
func validateRequestedSigner(name string, tolerated tolerances, fldPath *field.Path) field.ErrorList {
	switch {
	case name != certificatesv1beta1.LegacyUnknownSignerName || tolerated.legacySigner:
		return ValidateSignerName(fldPath, name)
	case tolerated.inferredSigner:
		return field.ErrorList{field.Invalid(fldPath, name, "the legacy signerName, which is the default of v1beta1, is not allowed: name a signer, such as "+
			certificatesv1.KubeAPIServerClientSignerName)}
	default:
		return field.ErrorList{field.Invalid(fldPath, name, "the legacy signerName is not allowed via this API version")}
	}
}

func validateExpirationSeconds(seconds *int32, fldPath *field.Path) field.ErrorList {
	if seconds == nil || *seconds >= minExpirationSeconds {
		return nil
	}
	return field.ErrorList{field.Invalid(fldPath, *seconds,
		fmt.Sprintf("may not specify a duration less than %d seconds (10 minutes)", minExpirationSeconds))}
}
