package crl

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"k8s.io/client-go/rest"

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
	// Name is the name of the RevocationList; empty for that of the CA.
	Name string
	// Connect returns the configuration of the connection.
	Connect func() (*rest.Config, error)
	Stdout  io.Writer
}

// Sign signs the next list of a CA with a key that the server does not have. Of the key, only
// the signature leaves this process.
func Sign(ctx context.Context, cfg SignConfig) error {
	by, err := cfg.open()
	if err != nil {
		return err
	}
	ca := by.Certificate()
	name := revocation.ListID(ca)
	if cfg.Name != "" && cfg.Name != name {
		return fmt.Errorf("the RevocationList %s is not that of %s, which is %s", cfg.Name, ca.Subject, name)
	}
	config, err := cfg.Connect()
	if err != nil {
		return err
	}
	server, err := connect(config)
	if err != nil {
		return err
	}
	answer := server.Get().Resource("revocationlists").Name(name).SubResource("signature").Do(ctx)
	if err := answer.Error(); err != nil { // Raw does not read it
		return exit.Advise("reading the unsigned revocation list of "+ca.Subject.String(), err)
	}
	data, err := answer.Raw()
	if err != nil {
		return err
	}
	list := &inventoryv1alpha1.RevocationList{}
	if err := json.Unmarshal(data, list); err != nil {
		return fmt.Errorf("reading the unsigned revocation list: %w", err)
	}
	if list.Signature, err = cfg.sign(ctx, by, list.Unsigned); err != nil {
		return err
	}
	list.Unsigned = nil // the server makes it again
	if data, err = json.Marshal(list); err != nil {
		return fmt.Errorf("encoding the signature: %w", err)
	}
	if err := server.Put().Resource("revocationlists").Name(name).SubResource("signature").SetHeader("Content-Type", "application/json").Body(data).Do(ctx).Error(); err != nil {
		return exit.Advise("storing the signature", err)
	}
	fmt.Fprintf(cfg.Stdout, "Signed list %d of %s\n", list.Number, ca.Subject)
	return nil
}

// open returns the CA, whose key can sign lists only.
func (cfg SignConfig) open() (*pki.ListAuthority, error) {
	certPEM, err := os.ReadFile(cfg.CAFile)
	if err != nil {
		return nil, fmt.Errorf("--ca: %w", err)
	}
	chain, err := pki.ParseBundle(certPEM)
	if err != nil {
		return nil, fmt.Errorf("--ca %s: %w", cfg.CAFile, err)
	}
	keyPEM, err := os.ReadFile(cfg.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("--key: %w", err)
	}
	key, err := pki.ParsePrivateKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w", cfg.KeyFile, err)
	}
	if !pki.SameKey(key.Public(), chain[0].PublicKey) {
		return nil, fmt.Errorf("--key %s: the key does not belong to %s", cfg.KeyFile, chain[0].Subject)
	}
	return pki.NewListAuthority(chain[0], key)
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
	text := print.Columns([][]string{
		{"CA", list.Issuer.String()}, {"number", list.Number.String()},
		{"thisUpdate", list.ThisUpdate.Format(time.RFC3339)}, {"nextUpdate", list.NextUpdate.Format(time.RFC3339)},
		{"entries", fmt.Sprint(len(list.RevokedCertificateEntries))},
	})
	if len(list.RevokedCertificateEntries) == 0 {
		return text
	}
	rows := [][]string{{"SERIAL", "REVOKED", "REASON"}}
	for _, e := range list.RevokedCertificateEntries {
		rows = append(rows, []string{e.SerialNumber.Text(16), e.RevocationTime.Format(time.RFC3339), pki.Reason(e.ReasonCode).String()})
	}
	return text + print.Columns(rows)
}
