package acmeissuer

import (
	"context"
	"fmt"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Thumbprint is the thumbprint of the key of an issuer's account, for JSON and YAML.
type Thumbprint struct {
	Issuer string `json:"issuer"`
	// Account is the URL of the account; empty if the issuer has none yet.
	Account string `json:"account,omitempty"`
	// Thumbprint is the thumbprint of the public key (RFC 7638), in base64url.
	Thumbprint string `json:"thumbprint"`
}

// PrintThumbprint writes the thumbprint of the key of an issuer's account. With it, a web
// server can answer HTTP-01 challenges statelessly (RFC 8555 section 8.1).
func PrintThumbprint(ctx context.Context, s Source) error {
	f, err := s.find(ctx)
	if err != nil {
		return err
	}
	if f.keyErr != nil {
		return fmt.Errorf("%s: %w", f, f.keyErr)
	}
	text, err := acme.Thumbprint(f.key)
	if err != nil {
		return fmt.Errorf("%s: %w", f, err)
	}
	t := Thumbprint{Issuer: f.String(), Account: f.uri(), Thumbprint: text}
	return print.Found(s.Stdout, s.Output, t, func() string {
		p := &print.Page{}
		p.Line(t.Thumbprint)
		p.Line("")
		p.Line("For nginx, in each server that listens at port 80, before any redirect:")
		p.Line("")
		p.Line("  location ~ ^" + rfc8555.HTTPPath + "([A-Za-z0-9_-]+)$ {")
		p.Line("    default_type text/plain;")
		p.Line(`    return 200 "$1.` + t.Thumbprint + `";`)
		p.Line("  }")
		p.Line("")
		p.Line("Anyone with the key of this account can then get certificates for the names of")
		p.Line("that server. The thumbprint changes with the key.")
		return p.String()
	})
}
