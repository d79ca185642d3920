package pki

import (
	"bytes"
	"crypto/x509"
	"slices"
)

// maxSignedBy is how many certificates of a chain SignedBy looks at.
const maxSignedBy = 8

// SignedBy reports whether one of the authorities has signed the first certificate of a
// chain, directly or through other certificates in the chain. It verifies signatures and
// that issuers are CAs. The caller must check times, names and usages.
func SignedBy(chain, authorities []*x509.Certificate) bool {
	if len(chain) == 0 {
		return false
	}
	cert, rest := chain[0], slices.Clone(chain[1:min(len(chain), maxSignedBy)])
	for {
		has := func(by *x509.Certificate) bool {
			return bytes.Equal(cert.RawIssuer, by.RawSubject) && cert.CheckSignatureFrom(by) == nil
		}
		if slices.ContainsFunc(authorities, has) {
			return true
		}
		next := slices.IndexFunc(rest, has)
		if next < 0 {
			return false
		}
		cert = rest[next]
		rest = slices.Delete(rest, next, next+1)
	}
}
