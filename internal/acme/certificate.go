package acme

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/pki"
)

const (
	// maxChain is how many certificates a chain has.
	maxChain = 32
	// maxAlternates is how many other chains a server offers.
	maxAlternates = 16
)

// Certificate returns a chain, as DER with the leaf first, and the URLs of other
// chains to the same leaf.
func (c *Client) Certificate(ctx context.Context, at string) (chain [][]byte, alternates []string, err error) {
	got, err := c.post(ctx, message{action: actionCertificate, url: at, accept: "application/pem-certificate-chain"})
	if err != nil {
		return nil, nil, err
	}
	if chain, err = chainOf(got); err != nil {
		return nil, nil, err
	}
	from, err := url.Parse(got.url)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing the URL of a certificate: %w", err)
	}
	for _, alternate := range links(got.header, "alternate", from) {
		if len(alternates) < maxAlternates && c.server.checkURL(alternate) == nil {
			alternates = append(alternates, alternate)
		}
	}
	return chain, alternates, nil
}

// ErrNoRevocation means that a server does not revoke certificates.
var ErrNoRevocation = errors.New("the ACME server revokes no certificates: its directory has no revokeCert")

type revocation struct {
	Certificate string     `json:"certificate"`
	Reason      pki.Reason `json:"reason,omitempty"`
}

// Revoke revokes a certificate (RFC 8555 section 7.6), in DER, by the right of the account. If
// the server refuses the reason, no reason is given. That the certificate was revoked before
// is no error.
func (c *Client) Revoke(ctx context.Context, der []byte, reason pki.Reason) error {
	d, err := c.directory(ctx)
	switch {
	case err != nil:
		return err
	case d.RevokeCert == "":
		return ErrNoRevocation
	}
	for {
		_, err = c.post(ctx, message{action: actionUnnamed, url: d.RevokeCert, payload: revocation{encode(der), reason}})
		problem, ok := problemIn(err)
		switch {
		case ok && problem.HasType(rfc8555.ProblemAlreadyRevoked):
			return nil
		case ok && problem.HasType(rfc8555.ProblemBadRevocationReason) && reason != pki.ReasonUnspecified:
			reason = pki.ReasonUnspecified
		default:
			return err
		}
	}
}

func chainOf(got answer) ([][]byte, error) {
	blocks, err := pki.Blocks(got.body)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates of %s: %w", got.url, err)
	}
	var chain [][]byte
	for _, block := range blocks {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("the answer of %s has a PEM block of another type than CERTIFICATE", got.url)
		}
		if len(chain) == maxChain {
			return nil, fmt.Errorf("the answer of %s has more than %d certificates", got.url, maxChain)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err != nil {
			return nil, fmt.Errorf("parsing certificate %d of %s: %w", len(chain)+1, got.url, err)
		}
		chain = append(chain, block.Bytes)
	}
	if len(chain) == 0 {
		return nil, fmt.Errorf("the answer of %s (%s) has no certificate", got.url, mediaType(got.header))
	}
	return chain, nil
}
