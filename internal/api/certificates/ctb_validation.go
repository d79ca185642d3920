package certificates

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/metadata"
	"github.com/certplane/certplane/internal/pki"
)

const (
	// maxTrustBundleSize is in bytes (KEP-3257): the size of one object in the
	// store.
	maxTrustBundleSize = 1 << 20
	// maxTrustBundleErrors bounds the errors for a bundle full of invalid
	// entries.
	maxTrustBundleErrors = 100
	// trustBundleValue replaces the bundle in errors: the bundle can be large
	// and adds nothing to the detail.
	trustBundleValue = "<value omitted>"
)

var (
	trustBundleSignerPath = field.NewPath("spec", "signerName")
	trustBundlePath       = field.NewPath("spec", "trustBundle")
)

// ValidateTrustBundle returns the errors of a new bundle.
func ValidateTrustBundle(bundle *certificatesv1.ClusterTrustBundle) field.ErrorList {
	return append(validateTrustBundleName(bundle), validateTrustAnchors(bundle.Spec.TrustBundle)...)
}

// ValidateTrustBundleUpdate returns the errors of replacing old by bundle.
// Anchors that do not change were valid when they were stored.
func ValidateTrustBundleUpdate(bundle, old *certificatesv1.ClusterTrustBundle) field.ErrorList {
	errs := validation.ValidateObjectMetaUpdate(&bundle.ObjectMeta, &old.ObjectMeta, field.NewPath("metadata"))
	errs = append(errs, validateTrustBundleName(bundle)...)
	if bundle.Spec.TrustBundle != old.Spec.TrustBundle {
		errs = append(errs, validateTrustAnchors(bundle.Spec.TrustBundle)...)
	}
	return append(errs, validation.ValidateImmutableField(bundle.Spec.SignerName, old.Spec.SignerName, trustBundleSignerPath)...)
}

// validateTrustBundleName checks the metadata, and the signer, which determines
// the name.
func validateTrustBundleName(bundle *certificatesv1.ClusterTrustBundle) field.ErrorList {
	signerName := bundle.Spec.SignerName
	errs := metadata.Validate(&bundle.ObjectMeta, false, trustBundleNames(signerName), field.NewPath("metadata"))
	if signerName != "" {
		errs = append(errs, ValidateSignerName(trustBundleSignerPath, signerName)...)
	}
	return errs
}

// TrustBundlePrefix returns the prefix for the names of a signer's bundles. It
// prevents clients from taking another bundle for one of the signer's.
func TrustBundlePrefix(signerName string) string {
	return strings.ReplaceAll(signerName, "/", ":") + ":"
}

// trustBundleNames reserves names with a colon for the bundles of signers.
func trustBundleNames(signerName string) validation.ValidateNameFunc {
	return func(name string, prefix bool) []string {
		if signerName == "" {
			if strings.Contains(name, ":") {
				return []string{`ClusterTrustBundle without signer name must not have ":" in its name`}
			}
			return validation.NameIsDNSSubdomain(name, prefix)
		}
		rest, ok := strings.CutPrefix(name, TrustBundlePrefix(signerName))
		if !ok {
			return []string{fmt.Sprintf("ClusterTrustBundle for signerName %s must be named with prefix %s", signerName, TrustBundlePrefix(signerName))}
		}
		return validation.NameIsDNSSubdomain(rest, prefix)
	}
}

// validateTrustAnchors accepts one or more CA certificates in PEM, each once.
// Any text is allowed around the blocks. It does not check whether the CAs are
// valid today: a bundle outlives them.
func validateTrustAnchors(text string) field.ErrorList {
	if len(text) > maxTrustBundleSize {
		return field.ErrorList{field.TooLong(trustBundlePath, trustBundleValue, maxTrustBundleSize)}
	}
	var errs field.ErrorList
	blocks := pemBlocks(text)
	for i, block := range blocks {
		if problem := anchorProblem(block); problem != "" {
			errs = append(errs, invalidTrustBundle("entry %d %s", i, problem))
		}
		if len(errs) == maxTrustBundleErrors {
			break
		}
	}
	switch {
	case len(errs) > 0:
		return errs
	case len(blocks) == 0:
		return field.ErrorList{invalidTrustBundle("at least one trust anchor must be provided")}
	default:
		return checkDifferent(blocks)
	}
}

func invalidTrustBundle(format string, args ...any) *field.Error {
	return field.Invalid(trustBundlePath, trustBundleValue, fmt.Sprintf(format, args...))
}

func pemBlocks(text string) []*pem.Block {
	var blocks []*pem.Block
	for block, rest := pem.Decode([]byte(text)); block != nil; block, rest = pem.Decode(rest) {
		blocks = append(blocks, block)
	}
	return blocks
}

// anchorProblem returns the reason why an entry is not the certificate of a CA, or "". The
// messages are the same as in Kubernetes.
func anchorProblem(block *pem.Block) string {
	if block.Type != pki.CertificateBlockType {
		return "has bad block type: " + block.Type
	}
	if len(block.Headers) > 0 {
		return "has PEM block headers"
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	switch {
	case err != nil:
		return "does not parse as X.509"
	case !cert.IsCA:
		return "does not have the CA bit set"
	case !cert.BasicConstraintsValid:
		return "has invalid basic constraints"
	default:
		return ""
	}
}

// checkDifferent reports each certificate that is listed more than once, in the
// order of first occurrence.
func checkDifferent(blocks []*pem.Block) field.ErrorList {
	var order [][sha256.Size]byte
	places := map[[sha256.Size]byte][]int{}
	for i, block := range blocks {
		sum := sha256.Sum256(block.Bytes)
		if places[sum] == nil {
			order = append(order, sum)
		}
		places[sum] = append(places[sum], i)
	}
	var errs field.ErrorList
	for _, sum := range order {
		if len(places[sum]) > 1 && len(errs) < maxTrustBundleErrors {
			errs = append(errs, invalidTrustBundle("duplicate trust anchor (indices %v)", places[sum]))
		}
	}
	return errs
}
