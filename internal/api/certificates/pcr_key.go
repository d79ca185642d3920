//lint:file-ignore SA1019 nodes of Kubernetes 1.35 set only these fields

package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/pki"
)

// maxPodKeyBytes bounds each field that can contain a key.
const maxPodKeyBytes = 10 << 10

// PodRequestKey returns the key for which a certificate is requested, in
// whichever form the request has it.
func PodRequestKey(spec *certificatesv1beta1.PodCertificateRequestSpec) (crypto.PublicKey, error) {
	if len(spec.StubPKCS10Request) == 0 {
		return x509.ParsePKIXPublicKey(spec.PKIXPublicKey)
	}
	stub, err := x509.ParseCertificateRequest(spec.StubPKCS10Request)
	if err != nil {
		return nil, err
	}
	return stub.PublicKey, nil
}

// PodKeyType returns the type of a key, named as in keyType of podCertificate sources.
// Certificates can be requested only for keys of these types.
func PodKeyType(key crypto.PublicKey) (string, error) {
	switch name := pki.KubernetesKeyType(key); name {
	case "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519":
		return name, nil
	}
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return "", fmt.Errorf("elliptic curve %s is not supported: use P-256, P-384 or P-521", key.Curve.Params().Name)
	case *rsa.PublicKey:
		return "", fmt.Errorf("RSA modulus of %d bits is not supported: use 3072 or 4096", 8*key.Size())
	default:
		return "", errors.New("key type is not supported: use RSA, ECDSA or Ed25519")
	}
}

// podKeyErrors returns why no certificate can be requested for a key. The value
// in the error is the invalid property, not the key.
func podKeyErrors(fldPath *field.Path, key crypto.PublicKey) field.ErrorList {
	if _, err := PodKeyType(key); err != nil {
		return field.ErrorList{field.Invalid(fldPath, keyInWords(key), err.Error())}
	}
	return nil
}

func keyInWords(key crypto.PublicKey) string {
	switch key := key.(type) {
	case *ecdsa.PublicKey:
		return "curve " + key.Curve.Params().Name
	case *rsa.PublicKey:
		return fmt.Sprintf("%d-bit modulus", 8*key.Size())
	default:
		return fmt.Sprintf("%T", key)
	}
}

// validatePodKey requires a key in exactly one form, with a proof that the
// requester has it.
func validatePodKey(spec *certificatesv1beta1.PodCertificateRequestSpec, fldPath *field.Path) field.ErrorList {
	stub, key, proof := len(spec.StubPKCS10Request) > 0, len(spec.PKIXPublicKey) > 0, len(spec.ProofOfPossession) > 0
	switch {
	case stub && !key && !proof:
		return validateStub(spec.StubPKCS10Request, fldPath.Child("stubPKCS10Request"))
	case !stub && key && proof:
		return validateBareKey(spec, fldPath)
	default:
		return field.ErrorList{field.Invalid(fldPath, field.OmitValueType{},
			"exactly one of stubPKCS10Request, or pkixPublicKey and proofOfPossession together, must be set")}
	}
}

// validateStub accepts any request that is signed with a valid key. The signer
// decides about the rest of its content.
func validateStub(der []byte, fldPath *field.Path) field.ErrorList {
	if len(der) > maxPodKeyBytes {
		return field.ErrorList{field.TooLong(fldPath, der, maxPodKeyBytes)}
	}
	stub, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return field.ErrorList{field.Invalid(fldPath, "<PKCS#10 data>", "must be a DER-encoded PKCS#10 certificate request: "+err.Error())}
	}
	if errs := podKeyErrors(fldPath, stub.PublicKey); len(errs) > 0 {
		return errs
	}
	if err := stub.CheckSignature(); err != nil {
		return field.ErrorList{field.Invalid(fldPath, "<PKCS#10 data>", "invalid signature")}
	}
	return nil
}

// validateBareKey checks the form of kubelet 1.35: a key, and the UID of the
// pod signed with it.
func validateBareKey(spec *certificatesv1beta1.PodCertificateRequestSpec, fldPath *field.Path) field.ErrorList {
	keyPath, proofPath := fldPath.Child("pkixPublicKey"), fldPath.Child("proofOfPossession")
	if len(spec.PKIXPublicKey) > maxPodKeyBytes {
		return field.ErrorList{field.TooLong(keyPath, spec.PKIXPublicKey, maxPodKeyBytes)}
	}
	if len(spec.ProofOfPossession) > maxPodKeyBytes {
		return field.ErrorList{field.TooLong(proofPath, spec.ProofOfPossession, maxPodKeyBytes)}
	}
	key, err := x509.ParsePKIXPublicKey(spec.PKIXPublicKey)
	if err != nil {
		return field.ErrorList{field.Invalid(keyPath, "<key data>", "must be a DER-encoded SubjectPublicKeyInfo: "+err.Error())}
	}
	if errs := podKeyErrors(keyPath, key); len(errs) > 0 {
		return errs
	}
	if !pki.VerifyProof(key, []byte(spec.PodUID), spec.ProofOfPossession) {
		return field.ErrorList{field.Invalid(proofPath, "<signature>", "must be the signature of spec.podUID with the key of spec.pkixPublicKey")}
	}
	return nil
}
