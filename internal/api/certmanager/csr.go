package certmanager

import (
	"encoding/pem"
	"errors"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/pki"
)

// ParseRequest reads the certificate request in the first PEM block of data,
// whatever the block calls itself. What follows it is ignored.
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
		return nil, fmt.Errorf("its first PEM block is no PKCS #10 certificate request: %w", err)
	}
	return req, nil
}

// CheckSize reports a certificate request in PEM that is too long to be read.
func CheckSize(data []byte) error {
	if len(data) > pki.MaxRequestBytes {
		return fmt.Errorf("is %d bytes long, more than %d", len(data), pki.MaxRequestBytes)
	}
	return nil
}

// CheckRequest reports why spec.request cannot be signed as the other fields
// ask. What a request says of itself must be what they say: it may have been
// made by somebody else. Pieces that it does not mention are theirs to decide.
func CheckRequest(spec *cmv1.CertificateRequestSpec) error {
	usages, err := Usages(spec.Usages, spec.IsCA)
	if err != nil {
		return err
	}
	req, err := ParseRequest(spec.Request)
	if err != nil {
		return fmt.Errorf("reading the certificate request: %w", err)
	}
	if err := pki.VerifyRequest(req.CertificateRequest); err != nil {
		return fmt.Errorf("the certificate request is not signed with its own key: %w", err)
	}
	return CheckContent(req, usages, spec.IsCA)
}

// CheckContent reports what a request says of itself that differs from what it
// was sent with, if it says anything.
func CheckContent(req *pki.Request, usages pki.Usages, isCA bool) error {
	if err := checkCA(req, isCA); err != nil {
		return err
	}
	return checkUsages(req, usages)
}

// checkCA leaves the path length aside: no field says what it is to be.
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

// checkUsages takes both extensions together: a request with one of them means
// the other one to be empty. The order of purposes does not matter, nor do
// those that have no name in the API, and key usages that do not exist.
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
