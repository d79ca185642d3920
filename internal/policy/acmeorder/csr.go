package acmeorder

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// maxCSR is the largest certificate request, in bytes of DER.
const maxCSR = 16 << 10

// The sizes of RSA keys of certificates, in bits, and their exponent.
const (
	minRSABits  = 2048
	maxRSABits  = 4096
	rsaExponent = 65537
)

// KeyFacts are the facts about the key of a certificate request. digest is the SHA-256
// digest of its subjectPublicKeyInfo in hexadecimal digits, as in the records of
// certificates. A nil function skips its check.
type KeyFacts struct {
	// OfAccount reports whether the key is the key of an account of the endpoint.
	OfAccount func(key crypto.PublicKey) bool
	// Blocked reports whether a certificate of the key was revoked because the key
	// is compromised.
	Blocked func(digest string) bool
	// Used reports whether a certificate of the endpoint has the key.
	Used func(digest string) bool
}

// SignerFacts are the facts about the signer or the issuer of a profile.
type SignerFacts struct {
	// TakesNamesOnly: the signer issues names, a common name and the key of a client's
	// certificate request, and nothing else of it (see request.ForSigner). Other signers
	// may copy the rest of the client's request.
	TakesNamesOnly bool
	// Verbatim: the signer does so by refusing a certificate request with more (see
	// request.CheckVerbatim), since it passes requests on unchanged.
	Verbatim bool
	// Refuse returns why the signer will refuse a request; nil if it will not, or that is
	// not known. It can be nil.
	Refuse func(Planned) *rfc8555.Problem
}

// CheckCSR checks the certificate request of an order, in DER, for a profile of
// its endpoint (RFC 8555 section 7.4). The order stays ready if it is refused.
func CheckCSR(o *order, der []byte, profile *v1alpha1.AcmeProfile, tolerate []v1alpha1.AcmeTolerance, facts KeyFacts, by SignerFacts) (*pki.Request, *rfc8555.Problem) {
	csr, err := readCSR(der, by.TakesNamesOnly || slices.Contains(tolerate, v1alpha1.AcmeTolerateOtherCSRVersions))
	if err != nil {
		return nil, badCSR(err)
	}
	if err := checkCSRKey(csr, profile); err != nil {
		return nil, badCSR(err) // badPublicKey is for keys of accounts (RFC 8555 section 6.7)
	}
	if p := facts.check(csr, profile); p != nil {
		return nil, p
	}
	for _, check := range []func() error{
		func() error { return checkCSRSubject(o, csr, profile, by) },
		func() error { return checkCSRNames(o, csr, tolerate, by) },
		func() error { return checkCSRExtensions(csr) },
		func() error { return checkCSRUsages(der, csr, profile, by) },
	} {
		if err := check(); err != nil {
			return nil, badCSR(err)
		}
	}
	return csr, nil
}

func badCSR(err error) *rfc8555.Problem {
	return rfc8555.NewProblem(400, rfc8555.ProblemBadCSR, "%v", err)
}

// KeyDigest returns the digest of the key of a certificate request, as in KeyFacts.
func KeyDigest(csr *pki.Request) string {
	digest := sha256.Sum256(csr.RawSubjectPublicKeyInfo)
	return hex.EncodeToString(digest[:])
}

func readCSR(der []byte, anyVersion bool) (*pki.Request, error) {
	switch {
	case len(der) > maxCSR:
		return nil, fmt.Errorf("the certificate request has %d bytes, more than %d", len(der), maxCSR)
	case bytes.HasPrefix(bytes.TrimSpace(der), []byte("-----BEGIN")):
		return nil, errors.New("the certificate request is in PEM: send the base64url encoding of its DER")
	}
	csr, err := pki.ParseRequestDER(der)
	switch {
	case err != nil:
		return nil, fmt.Errorf("the certificate request cannot be parsed: %w", err)
	case csr.Version != 0 && !anyVersion:
		return nil, errors.New("the certificate request is not PKCS #10 version 1")
	}
	if err := csr.Strict(); err != nil {
		return nil, err
	}
	if !slices.Contains(strongSignatures, csr.SignatureAlgorithm) {
		return nil, fmt.Errorf("the signature algorithm %s of the certificate request is not accepted: use SHA-256 or stronger", csr.SignatureAlgorithm)
	}
	return csr, nil
}

var strongSignatures = []x509.SignatureAlgorithm{
	x509.SHA256WithRSA, x509.SHA384WithRSA, x509.SHA512WithRSA, x509.SHA256WithRSAPSS, x509.SHA384WithRSAPSS, x509.SHA512WithRSAPSS,
	x509.ECDSAWithSHA256, x509.ECDSAWithSHA384, x509.ECDSAWithSHA512, x509.PureEd25519,
}

// checkCSRKey refuses a key before its signature is verified: that takes long for
// outsized ones.
func checkCSRKey(csr *pki.Request, profile *v1alpha1.AcmeProfile) error {
	if err := checkKey(csr.PublicKey); err != nil {
		return err
	}
	if kind := pki.KubernetesKeyType(csr.PublicKey); !slices.Contains(profile.KeyTypes, kind) {
		return fmt.Errorf("the profile %s has no keys of type %s, only %s", profile.Name, kind, strings.Join(profile.KeyTypes, ", "))
	}
	return nil
}

func checkKey(key crypto.PublicKey) error {
	if err := pki.CheckPublicKey(key, minRSABits); err != nil {
		return err
	}
	switch key := key.(type) {
	case *rsa.PublicKey:
		switch bits := key.N.BitLen(); {
		case bits > maxRSABits || bits%8 != 0:
			return fmt.Errorf("RSA key of %d bits: use 2048, 3072 or 4096", bits)
		case key.E != rsaExponent:
			return fmt.Errorf("RSA key has the public exponent %d: use %d", key.E, rsaExponent)
		}
		return pki.CheckWeakKey(key)
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P224() {
			return errors.New("elliptic curve P-224 is not accepted: use P-256, P-384 or P-521")
		}
	}
	return nil
}

func (f KeyFacts) check(csr *pki.Request, profile *v1alpha1.AcmeProfile) *rfc8555.Problem {
	if err := pki.VerifyRequest(csr.CertificateRequest); err != nil {
		return badCSR(errors.New("the signature of the certificate request is wrong"))
	}
	digest := KeyDigest(csr)
	switch {
	case f.OfAccount != nil && f.OfAccount(csr.PublicKey):
		return badCSR(errors.New("the key of the certificate request is the key of an account"))
	case f.Blocked != nil && f.Blocked(digest):
		return badCSR(errors.New("a certificate with this key was revoked since the key is compromised: make a new key"))
	case profile.FreshKey && f.Used != nil && f.Used(digest):
		return badCSR(fmt.Errorf("there is a certificate with this key: the profile %s wants a new key for each", profile.Name))
	}
	return nil
}

// checkCSRNames: the names of the request are the set of the ordered ones. A name can be
// the common name, an alternative name, or both (RFC 8555 section 7.4). A signer that copies
// the request gets one whose alternative names are complete, each once.
func checkCSRNames(o *order, csr *pki.Request, tolerate []v1alpha1.AcmeTolerance, by SignerFacts) error {
	if len(csr.EmailAddresses)+len(csr.URIs)+len(csr.OtherNames.Value) > 0 {
		return errors.New("the certificate request has alternative names other than DNS names and addresses")
	}
	if by.TakesNamesOnly {
		names, err := pki.NamesOnly(csr)
		if err != nil {
			return err
		}
		return sameNames(o.Spec.Identifiers, names.DNSNames, addressesOf(names.IPAddresses), "the certificate request")
	}
	dns, ips := csr.DNSNames, addressesOf(csr.IPAddresses)
	if len(dns)+len(ips) > 0 {
		return sameNames(o.Spec.Identifiers, dns, ips, "the certificate request")
	}
	if !slices.Contains(tolerate, v1alpha1.AcmeTolerateCommonNameOnly) {
		return errors.New("the certificate request has no subjectAltName")
	}
	return sameNames(o.Spec.Identifiers, pki.CommonNames(csr.Subject), nil, "the certificate request")
}

// checkCSRSubject: the common name is one of the ordered names. Nothing else of the
// subject reaches a certificate: a signer that copies subjects gets no request with more,
// and a profile can refuse it for other signers.
func checkCSRSubject(o *order, csr *pki.Request, profile *v1alpha1.AcmeProfile, by SignerFacts) error {
	for _, name := range pki.CommonNames(csr.Subject) {
		if !slices.Contains(o.Spec.Identifiers, identifierOf(name)) {
			return fmt.Errorf("the common name %s is not one of the ordered names", rfc8555.Quote(name))
		}
	}
	if by.TakesNamesOnly && !by.Verbatim && profile.Subject != v1alpha1.AcmeSubjectEmptyOrCommonName {
		return nil
	}
	return request.CheckSubjectVerbatim(csr)
}

// identifierOf returns the identifier that a common name is, as orders have it.
func identifierOf(name string) v1alpha1.AcmeIdentifier {
	if address, err := netip.ParseAddr(name); err == nil {
		return v1alpha1.AcmeIdentifier{Type: rfc8555.IdentifierIP, Value: address.Unmap().String()}
	}
	return v1alpha1.AcmeIdentifier{Type: rfc8555.IdentifierDNS, Value: pki.HostName(name)}
}

// checkCSRUsages: the API refuses a CertificateRequest whose usages differ from those in
// the client's request, unless the issuer ignores the latter. So does a signer that passes
// requests on.
func checkCSRUsages(der []byte, csr *pki.Request, profile *v1alpha1.AcmeProfile, by SignerFacts) error {
	if !by.Verbatim && (profile.Issuer == nil || by.TakesNamesOnly) {
		return nil
	}
	names, err := usages(profile, der)
	if err != nil {
		return err
	}
	wanted, err := pki.ParseUsages(names)
	if err != nil {
		return fmt.Errorf("the usages of the profile %s: %w", profile.Name, err)
	}
	if err := certmanager.CheckContent(csr, wanted, false); err != nil {
		return fmt.Errorf("%w: ask for the usages of the profile, or for none", err)
	}
	return nil
}

func checkCSRExtensions(csr *pki.Request) error {
	if csr.CA.Value.IsCA {
		return errors.New("the certificate request asks for the certificate of a CA")
	}
	if csr.KeyUsage.Value&(x509.KeyUsageCertSign|x509.KeyUsageCRLSign) != 0 {
		return errors.New("the certificate request asks for usages of a CA")
	}
	for _, e := range csr.Other {
		if e.Id.Equal(oidNameConstraints) {
			return errors.New("the certificate request asks for name constraints, which only CAs have")
		}
	}
	return nil
}

var oidNameConstraints = asn1.ObjectIdentifier{2, 5, 29, 30}
