package crl

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// SignConfig selects the list to sign, and the key.
type SignConfig struct {
	// CAFile and KeyFile are the certificate of the CA and its key.
	CAFile, KeyFile string
	// Connect returns a client, as from certificates.Connect.
	Connect func() (client.Client, error)
	Stdout  io.Writer
}

// Sign signs the next list of a CA with a key that the server does not have. Of the key, only
// the signature leaves this process.
func Sign(ctx context.Context, cfg SignConfig) error {
	by, err := cfg.open()
	if err != nil {
		return err
	}
	api, err := cfg.Connect()
	if err != nil {
		return err
	}
	signatures, list := api.SubResource("signature"), &inventoryv1alpha1.RevocationList{}
	list.Name = revocation.ListID(by.Certificate())
	if err := signatures.Get(ctx, list, list); err != nil {
		return exit.Advise("reading the unsigned revocation list of "+by.Certificate().Subject.String(), err)
	}
	if list.Signature, err = cfg.sign(ctx, by, list.Unsigned); err != nil {
		return err
	}
	list.Unsigned = nil // the server makes it again
	if err := signatures.Update(ctx, list); err != nil {
		return exit.Advise("storing the signature", err)
	}
	fmt.Fprintf(cfg.Stdout, "Signed list %d of %s\n", list.Number, by.Certificate().Subject)
	return nil
}

// open returns the CA, whose key can sign lists only.
func (cfg SignConfig) open() (*pki.ListAuthority, error) {
	certPEM, certErr := os.ReadFile(cfg.CAFile)
	keyPEM, keyErr := os.ReadFile(cfg.KeyFile)
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, err
	}
	by, err := pki.ParseListAuthority(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("--ca %s, --key %s: %w", cfg.CAFile, cfg.KeyFile, err)
	}
	return by, nil
}

// sign checks an unsigned list, shows it, and returns its signature.
func (cfg SignConfig) sign(ctx context.Context, by *pki.ListAuthority, unsigned []byte) ([]byte, error) {
	linted, err := by.LintEncoded(unsigned)
	if err != nil {
		return nil, fmt.Errorf("checking the unsigned revocation list: %w", err)
	}
	content, err := linted.Content()
	if err != nil {
		return nil, fmt.Errorf("reading the unsigned revocation list: %w", err)
	}
	fmt.Fprint(cfg.Stdout, describe(content))
	shown := func(context.Context, pki.SignedList) error { return nil } // it is recorded by the server
	der, err := linted.Sign(ctx, rand.Reader, shown)
	if err != nil {
		return nil, err
	}
	signed, err := x509.ParseRevocationList(der)
	if err != nil {
		return nil, fmt.Errorf("reading back the signed list: %w", err)
	}
	return signed.Signature, nil
}

// describe returns what a list says.
func describe(list *x509.RevocationList) string {
	p := &print.Page{}
	p.Table([][]string{
		{"CA", list.Issuer.String()}, {"number", list.Number.String()},
		{"thisUpdate", list.ThisUpdate.Format(time.RFC3339)}, {"nextUpdate", list.NextUpdate.Format(time.RFC3339)},
		{"entries", fmt.Sprint(len(list.RevokedCertificateEntries))},
	})
	for _, e := range list.RevokedCertificateEntries {
		p.Line(fmt.Sprintf("%x revoked %s, %s", e.SerialNumber, e.RevocationTime.Format(time.RFC3339), pki.Reason(e.ReasonCode)))
	}
	return p.String()
}
