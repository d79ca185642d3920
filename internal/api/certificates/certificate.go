package certificates

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// certificateBlockType is the label of a PEM block that holds a certificate
// (RFC 7468 section 5).
const certificateBlockType = "CERTIFICATE"

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
	blocks := 0
	for {
		block, rest := pem.Decode(data)
		if block == nil {
			break
		}
		if err := checkCertificateBlock(block); err != nil {
			return err
		}
		blocks++
		data = rest
	}
	if blocks == 0 {
		return errors.New("must contain at least one CERTIFICATE PEM block")
	}
	return nil
}

func checkCertificateBlock(block *pem.Block) error {
	if block.Type != certificateBlockType {
		return fmt.Errorf("only CERTIFICATE PEM blocks are allowed, found %q", block.Type)
	}
	if len(block.Headers) > 0 {
		return errors.New("no PEM block headers are permitted")
	}
	certificates, err := x509.ParseCertificates(block.Bytes)
	if err != nil {
		return err
	}
	if len(certificates) == 0 {
		return errors.New("found CERTIFICATE PEM block containing 0 certificates")
	}
	return nil
}
