package pki

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"slices"
)

// Locations are the URLs where relying parties learn more about a certificate
// and its issuer (RFC 5280 sections 4.2.1.13 and 4.2.2.1).
type Locations struct {
	CRLs, OCSPServers, IssuerCertificates []string
}

// Terms are the properties of a certificate that its request does not decide.
type Terms struct {
	Usages    Usages
	IsCA      bool
	Validity  Validity
	Serial    *big.Int
	Locations Locations
}

// VerbatimTemplate returns the template of a certificate with the names of its
// request, byte for byte: the subject and all alternative names, including
// those of kinds that the standard library does not support. It also copies the
// request's name constraints, with their critical flag, its path length if the
// certificate is of a CA, and its extended usages of unknown kinds. Other parts of
// the request are ignored. signer is the
// public key of the signing key: its strength decides the hash. The key
// identifiers and the issuer are added by the linter.
func VerbatimTemplate(req *x509.CertificateRequest, signer crypto.PublicKey, t Terms) (*x509.Certificate, error) {
	algorithm, err := SignatureAlgorithm(signer)
	if err != nil {
		return nil, err
	}
	purposes := readExtKeyUsage(req.Extensions)
	if purposes.Err != nil {
		return nil, errors.New("the request's extended key usage extension is malformed")
	}
	template := RequestTemplate(req, t.Usages, t.Validity, t.Serial)
	template.SignatureAlgorithm = algorithm
	template.IsCA = t.IsCA
	if t.IsCA {
		limitPathLength(template, req)
	}
	template.UnknownExtKeyUsage = slices.DeleteFunc(purposes.Value, isNamedPurpose)
	template.CRLDistributionPoints = t.Locations.CRLs
	template.OCSPServer = t.Locations.OCSPServers
	template.IssuingCertificateURL = t.Locations.IssuerCertificates
	template.ExtraExtensions = verbatimExtensions(req)
	return template, nil
}

// limitPathLength sets the path length that a request asks for, if it can be read (RFC 5280
// section 4.2.1.9). It can only narrow the rights of the CA.
func limitPathLength(template *x509.Certificate, req *x509.CertificateRequest) {
	asked := read(req.Extensions, OIDBasicConstraints, parse[BasicConstraints])
	if asked.Present && asked.Err == nil && asked.Value.IsCA && asked.Value.MaxPathLen >= 0 {
		template.MaxPathLen, template.MaxPathLenZero = asked.Value.MaxPathLen, asked.Value.MaxPathLen == 0
	}
}

// verbatimExtensions returns the copied extensions. The alternative names are
// critical if the subject is empty (RFC 5280 section 4.2.1.6).
func verbatimExtensions(req *x509.CertificateRequest) []pkix.Extension {
	var extensions []pkix.Extension
	if names := findExtension(req.Extensions, OIDSubjectAltName); names != nil {
		nameless := bytes.Equal(req.RawSubject, emptyName[:])
		extensions = append(extensions, pkix.Extension{Id: OIDSubjectAltName, Critical: nameless, Value: names.Value})
	}
	if constraints := findExtension(req.Extensions, OIDNameConstraints); constraints != nil {
		extensions = append(extensions, *constraints)
	}
	return extensions
}

// findExtension returns an extension of a request or a certificate, or nil. The
// parser accepts each kind only once.
func findExtension(extensions []pkix.Extension, id asn1.ObjectIdentifier) *pkix.Extension {
	i := slices.IndexFunc(extensions, func(e pkix.Extension) bool { return e.Id.Equal(id) })
	if i < 0 {
		return nil
	}
	return &extensions[i]
}
