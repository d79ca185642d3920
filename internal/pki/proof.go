package pki

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"slices"
)

// proof issues untrusted certificates, so that a complete certificate can be checked before
// the CA's key is used. If the CA's certificate restricts certificates below it by more than
// name constraints, the untrusted ones must pass verification and so must be signed: by the
// same CA with another key of the same kind, because the kind decides the signature
// algorithm, which is part of the signed content. Otherwise they have no signature, which is
// much cheaper.
type proof struct {
	ca    *x509.Certificate
	key   crypto.Signer  // nil without restrictions
	roots *x509.CertPool // nil without restrictions
	// constraints are the name constraints of the CA and of the CAs above it. The standard
	// library supports only some forms of names.
	constraints []constraints
}

// newProof takes a CA and those above it. Their own names must be within the
// constraints above them, except those of CAs that have issued themselves (RFC 5280
// section 6.1.3 (b)).
func newProof(chain []*x509.Certificate) (proof, error) {
	ca := chain[0]
	all, err := constraintsOf(chain)
	if err != nil {
		return proof{}, err
	}
	for _, c := range all {
		for _, below := range chain[:slices.Index(chain, c.ca)] {
			if bytes.Equal(below.RawSubject, below.RawIssuer) {
				continue
			}
			if err := c.check(below); err != nil {
				return proof{}, fmt.Errorf("%s: %w", describe(below), err)
			}
		}
	}
	if !isRestricted(ca) {
		return proof{ca: ca, constraints: all}, nil
	}
	key, err := throwawayKey(ca.PublicKey)
	if err != nil {
		return proof{}, fmt.Errorf("making the linter's key: %w", err)
	}
	twin := withoutConstraints(ca)
	twin.PublicKey = key.Public()
	roots := x509.NewCertPool()
	roots.AddCert(twin)
	return proof{ca: twin, key: key, roots: roots, constraints: all}, nil
}

// withoutConstraints returns a CA's certificate as the standard library should see
// it.
func withoutConstraints(ca *x509.Certificate) *x509.Certificate {
	twin := *ca
	twin.PermittedDNSDomains, twin.ExcludedDNSDomains, twin.PermittedDNSDomainsCritical = nil, nil, false
	twin.PermittedIPRanges, twin.ExcludedIPRanges = nil, nil
	twin.PermittedEmailAddresses, twin.ExcludedEmailAddresses = nil, nil
	twin.PermittedURIDomains, twin.ExcludedURIDomains = nil, nil
	twin.Extensions = slices.DeleteFunc(slices.Clone(ca.Extensions), func(e pkix.Extension) bool { return e.Id.Equal(OIDNameConstraints) })
	twin.UnhandledCriticalExtensions = slices.DeleteFunc(slices.Clone(ca.UnhandledCriticalExtensions), OIDNameConstraints.Equal)
	return &twin
}

// isRestricted reports whether a CA's certificate has extensions other than
// name constraints and those that describe its key, its usages and where to find
// more information.
func isRestricted(ca *x509.Certificate) bool {
	return slices.ContainsFunc(ca.Extensions, func(e pkix.Extension) bool {
		return !leafExtensions[e.Id.String()] && !e.Id.Equal(OIDNameConstraints)
	})
}

func throwawayKey(like crypto.PublicKey) (crypto.Signer, error) {
	switch like := like.(type) {
	case *rsa.PublicKey:
		return rsa.GenerateKey(rand.Reader, 2048) // RSA's algorithm does not depend on the size
	case *ecdsa.PublicKey:
		return ecdsa.GenerateKey(like.Curve, rand.Reader)
	case ed25519.PublicKey:
		_, key, err := ed25519.GenerateKey(rand.Reader)
		return key, err
	}
	return nil, fmt.Errorf("CA key of type %T is not supported", like)
}

// issue returns the certificate that template describes in its final encoding,
// with an untrusted signature or none.
func (p proof) issue(template *x509.Certificate) (*x509.Certificate, error) {
	der, err := encode(template, p.ca, p.key)
	if err != nil {
		return nil, fmt.Errorf("encoding: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("reading back: %w", err)
	}
	return cert, nil
}

// verify applies the name constraints to an issued certificate, and the path
// validation of RFC 5280, at the time of its notBefore, if the CA's certificate has
// other restrictions.
func (p proof) verify(cert *x509.Certificate) error {
	for _, c := range p.constraints {
		if err := c.check(cert); err != nil {
			return err
		}
	}
	if p.roots == nil {
		return nil
	}
	_, err := cert.Verify(x509.VerifyOptions{
		Roots:       p.roots,
		CurrentTime: cert.NotBefore,
		KeyUsages:   []x509.ExtKeyUsage{x509.ExtKeyUsageAny},
	})
	return err
}
