package certmanager

import (
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/pki"
)

// ParseRequest parses the certificate request in the first PEM block of data, of any type.
// It ignores everything after the block.
func ParseRequest(data []byte) (*pki.Request, error) {
	if err := CheckSize(data); err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("has no PEM block")
	}
	req, err := pki.ParseRequestDER(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("its first PEM block is not a PKCS #10 certificate request: %w", err)
	}
	return req, nil
}

// CheckSize returns an error for a certificate request in PEM that is too long
// to be parsed.
func CheckSize(data []byte) error {
	if len(data) > pki.MaxRequestBytes {
		return fmt.Errorf("is %d bytes long, more than %d", len(data), pki.MaxRequestBytes)
	}
	return nil
}

// CheckRequest returns why spec.request cannot be signed as the other fields
// require. The content of a request must match the other fields: another client
// may have created it. The fields decide about parts that it does not contain.
func CheckRequest(spec *cmv1.CertificateRequestSpec) error {
	usages, err := Usages(spec.Usages, spec.IsCA)
	if err != nil {
		return err
	}
	req, err := provenRequest(spec)
	if err != nil {
		return err
	}
	return CheckContent(req, usages, spec.IsCA)
}

// CheckNamedRequest is CheckRequest for a request with a name: of the request of an ACME
// client, built-in issuers take the names and the key alone, and its usages do not count.
func CheckNamedRequest(cr *cmv1.CertificateRequest) error {
	if IsBuiltIn(cr.Spec.IssuerRef) && IsForOrder(cr.Spec.Username, cr.Name) {
		_, err := provenRequest(&cr.Spec)
		return err
	}
	return CheckRequest(&cr.Spec)
}

func provenRequest(spec *cmv1.CertificateRequestSpec) (*pki.Request, error) {
	req, err := ParseRequest(spec.Request)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate request: %w", err)
	}
	if err := pki.VerifyRequest(req.CertificateRequest); err != nil {
		return nil, fmt.Errorf("the certificate request is not signed with its own key: %w", err)
	}
	return req, nil
}

// CheckContent returns an error if the content of a request differs from the
// fields that it was sent with. Parts that it does not contain cannot differ.
func CheckContent(req *pki.Request, usages pki.Usages, isCA bool) error {
	if err := checkCA(req, isCA); err != nil {
		return err
	}
	return checkUsages(req, usages)
}

// checkCA ignores the path length: no field defines it.
func checkCA(req *pki.Request, wanted bool) error {
	switch {
	case !req.CA.Present:
		return nil
	case req.CA.Err != nil:
		return errors.New("encoded CSR error: malformed basic constraints")
	case req.CA.Value.IsCA != wanted:
		return fmt.Errorf("encoded CSR error: IsCA %t does not match expected value %t", req.CA.Value.IsCA, wanted)
	}
	return nil
}

// checkUsages compares both extensions together: if a request has only one of
// them, the other one is empty. It ignores the order of purposes, purposes
// without a name in the API, and key usages that do not exist.
func checkUsages(req *pki.Request, wanted pki.Usages) error {
	got := pki.Usages{Key: req.KeyUsage.Value, Extended: pki.ExtKeyUsagesOf(req.ExtKeyUsage.Value)}
	switch err := req.KeyUsage.Err; {
	case !req.KeyUsage.Present && !req.ExtKeyUsage.Present:
		return nil
	case err != nil && !errors.Is(err, pki.ErrUnknownKeyUsage):
		return errors.New("encoded CSR error: malformed key usage")
	case req.ExtKeyUsage.Err != nil:
		return errors.New("encoded CSR error: malformed extended key usage")
	case got.Key != wanted.Key:
		return fmt.Errorf("encoded CSR error: the KeyUsages %s do not match the expected KeyUsages %s",
			quoted(pki.Usages{Key: got.Key}.Names()), quoted(pki.Usages{Key: wanted.Key}.Names()))
	case !slices.Equal(got.Extended, wanted.Extended):
		return fmt.Errorf("encoded CSR error: the ExtKeyUsages %s do not match the expected ExtKeyUsages %s",
			quoted(pki.Usages{Extended: got.Extended}.Names()), quoted(pki.Usages{Extended: wanted.Extended}.Names()))
	}
	return nil
}
