package certificates

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/pki"
)

// validateCertificate omits the certificate from the error: it can be large and
// adds nothing to the detail.
func validateCertificate(certificate []byte, fldPath *field.Path) field.ErrorList {
	if err := checkCertificate(certificate); err != nil {
		return field.ErrorList{field.Invalid(fldPath, "<certificate data>", err.Error())}
	}
	return nil
}

// checkCertificate accepts empty data, or at least one PEM block with
// certificates and no other blocks. Any text is allowed around the blocks (RFC
// 7468 section 5.2).
func checkCertificate(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	_, err := pki.ParseVisibleCertificates(data)
	return err
}
