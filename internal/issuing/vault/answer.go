package vault

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/names"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/pki"
)

// skew is the permitted difference between the server's clock and ours.
const skew = 5 * time.Minute

// accepted is an answer that has been checked.
type accepted struct {
	*signer.Issued
	// path is the certificate with its issuers.
	path []*x509.Certificate
}

// accept checks what a server returns for a request. Less than what was
// requested is issued with a warning: the role of the server decides that.
func accept(b *vault.Bundle, csr *x509.CertificateRequest, isCA bool, asked time.Duration, now time.Time) (*accepted, error) {
	if !pki.SameKey(b.Leaf.PublicKey, csr.PublicKey) {
		return nil, fmt.Errorf("the path %s returned a certificate for another key; it must be one that signs a request, such as pki/sign/ROLE", b.Path)
	}
	certs, dropped, err := chainOf(b)
	if err != nil {
		return nil, fmt.Errorf("failed to parse certificate chain from vault: %w", err)
	}
	chain, err := pki.AcceptChain(certs, pki.Wanted{Key: csr.PublicKey, CA: isCA}, now)
	switch {
	case errors.Is(err, pki.ErrUnwantedCA):
		return nil, fmt.Errorf("the path %s returned a CA certificate, which was not requested", b.Path)
	case err != nil:
		return nil, fmt.Errorf("failed to parse certificate chain from vault: %w", err)
	case !now.Before(b.Leaf.NotAfter):
		return nil, fmt.Errorf("the path %s returned a certificate that expired on %s", b.Path, b.Leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	missing, err := names.Compare(b.Leaf, csr)
	if err != nil {
		return nil, fmt.Errorf("the path %s returned a certificate with content that was not requested: %w", b.Path, err)
	}
	issued := &signer.Issued{Certificate: b.Leaf, PEM: pki.EncodeCertificates(chain.Certificates...)}
	if chain.CA != nil {
		issued.CA = pki.EncodeCertificates(chain.CA)
	}
	issued.Warnings = warnings(b, isCA, asked, missing, dropped, now)
	return &accepted{issued, chain.Whole()}, nil
}

// warnings tell how the certificate differs from the request, and what to change
// in Vault.
func warnings(b *vault.Bundle, isCA bool, asked time.Duration, missing []string, dropped int, now time.Time) []signer.Warning {
	var all []signer.Warning
	warn := func(reason, format string, args ...any) {
		all = append(all, signer.Warning{Reason: reason, Message: fmt.Sprintf(format, args...)})
	}
	if cut := now.Add(asked).Sub(b.Leaf.NotAfter); cut > min(skew, asked/10) {
		warn(issuing.WarningShortened, "The certificate ends on %s, %v earlier than requested: raise max_ttl of the role, or max_lease_ttl of the mount in Vault, or request less",
			b.Leaf.NotAfter.UTC().Format(time.RFC3339), cut.Round(time.Second))
	}
	if len(missing) > 0 {
		warn(issuing.WarningBadConfig, "The certificate lacks names of the request (%s): set use_csr_sans and use_csr_common_name of the role in Vault", names.List(missing))
	}
	if isCA && !b.Leaf.IsCA {
		warn(issuing.WarningBadConfig, "The request is for a CA, but the path %s issues no CA certificates: use pki/root/sign-intermediate", b.Path)
	}
	if b.Prefixed {
		warn(issuing.WarningBadConfig, "spec.vault.path of the issuer begins with /v1/, which is ignored: write %s", b.Path)
	}
	if dropped > 0 {
		warn(issuing.WarningBadConfig, "Vault returned %d certificates that are not part of the certificate's chain; they are ignored", dropped)
	}
	return all
}

// chainOf returns the certificates of an answer if they are one chain. If not,
// as with CAs that several roots have signed, it returns the shortest path from
// the leaf, and how many certificates are not on it.
func chainOf(b *vault.Bundle) (certs []*x509.Certificate, dropped int, err error) {
	all := append([]*x509.Certificate{b.Leaf}, b.Issuers...)
	known := len(distinct(all))
	chain, err := pki.BuildChain(all)
	if err == nil && len(chain.Whole()) == known {
		return all, 0, nil
	}
	path := shortestPath(b)
	if len(path) < 2 {
		return nil, 0, err
	}
	return path, known - len(path), nil
}

func distinct(certs []*x509.Certificate) map[string]bool {
	seen := map[string]bool{}
	for _, cert := range certs {
		seen[string(cert.Raw)] = true
	}
	return seen
}

// maxLinks limits the signatures that are verified to find a path.
const maxLinks = 40

// shortestPath returns the leaf and its issuers up to the nearest root, through the CA that
// issued it according to the server. Without a root, it ends at the last known issuer.
func shortestPath(b *vault.Bundle) []*x509.Certificate {
	first := b.Issuers
	if b.Issuing != nil {
		first = []*x509.Certificate{b.Issuing}
	}
	links := 0
	issued := func(by, cert *x509.Certificate) bool {
		if string(by.RawSubject) != string(cert.RawIssuer) || pki.CheckPublicKey(by.PublicKey, 0) != nil || links == maxLinks {
			return false
		}
		links++
		return cert.CheckSignatureFrom(by) == nil
	}
	seen := map[string]bool{string(b.Leaf.Raw): true}
	paths := [][]*x509.Certificate{{b.Leaf}}
	var longest []*x509.Certificate
	for candidates := first; len(paths) > 0; candidates = b.Issuers {
		path := paths[0]
		paths = paths[1:]
		last := path[len(path)-1]
		if len(path) > 1 && issued(last, last) {
			return path
		}
		if len(path) > len(longest) {
			longest = path
		}
		for _, by := range candidates {
			if !seen[string(by.Raw)] && issued(by, last) {
				seen[string(by.Raw)] = true
				paths = append(paths, append(path[:len(path):len(path)], by))
			}
		}
	}
	return longest
}
