package issuing

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// Temporary returns a certificate in PEM for a request, to serve with until an
// issuer has answered. No verifier trusts it: its CA, with the name ca, is
// created only for this certificate, so neither is recorded.
func (r Request) Temporary(ctx context.Context, ca string, now time.Time) ([]byte, error) {
	csr, err := r.Parsed()
	if err != nil {
		return nil, err
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return nil, err
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, ca, key, r.Lifetime().Max, now)
	if err != nil {
		return nil, err
	}
	validity := pki.Validity{NotBefore: now, NotAfter: root.Validity().NotAfter}
	template, err := r.Template(csr.CertificateRequest, key.Public(), validity, pki.Locations{}, rand.Reader)
	if err != nil {
		return nil, err
	}
	lint := root.Lint
	if template.IsCA {
		lint = root.LintCA
	}
	linted, err := lint(template, pki.Policy{})
	if err != nil {
		return nil, err
	}
	cert, err := linted.Sign(ctx, pki.Unrecorded, r.Purpose())
	if err != nil {
		return nil, err
	}
	return pki.EncodeCertificates(cert), nil
}
