// Package acme implements the issuers that have an account of an ACME server.
package acme

import (
	"context"
	"fmt"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/pki"
)

// Type is the type of issuers with spec.acme.
var Type = issuing.Type{
	Name:      certmanager.TypeACME,
	Component: "cert-manager-certificaterequests-issuer-acme",
	Watches:   []issuing.Watch{OrderWatch},
}

// AccountSettings are the settings of issuers in the stanza "acme".
type AccountSettings struct {
	// accountKey is the type of the keys that are generated for accounts:
	// rsa2048, rsa3072, rsa4096, ecdsa-p256 or ecdsa-p384. cert-manager reads RSA
	// keys only. Keys that exist are kept. Default: rsa2048.
	AccountKey pki.KeyType `json:"accountKey"`
	// requireTermsAgreement makes issuers register an account only if their
	// annotation acme.certplane.dev/agreed-terms has the URL of the CA's terms of
	// service. If false, registering agrees to them. Default: false.
	RequireTermsAgreement bool `json:"requireTermsAgreement"`
	// nameRenewed has orders name the certificate that they renew, to CAs with
	// renewal information (RFC 9773): Let's Encrypt does not count such orders
	// against its limits. Default: true.
	NameRenewed bool `json:"nameRenewed"`
}

// DefaultAccountSettings returns the defaults.
func DefaultAccountSettings() AccountSettings {
	return AccountSettings{AccountKey: pki.RSA2048, NameRenewed: true}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s AccountSettings) Validate() error {
	if known := account.KeyTypes(); !slices.Contains(known, s.AccountKey) {
		var names []string
		for _, t := range known {
			names = append(names, string(t))
		}
		return fmt.Errorf("acme.accountKey: %q must be one of %s", s.AccountKey, strings.Join(names, ", "))
	}
	return nil
}

// Config contains the dependencies of the backend.
type Config struct {
	issuing.Config
	// Accounts are the accounts of the issuers, Settings the settings in the stanza "acme".
	Accounts *account.Accounts
	Settings AccountSettings
	// Answers lists the types of challenges that this process answers.
	Answers Answers
	// CopiedAnnotations returns the annotations that Orders inherit from
	// CertificateSigningRequests; nil means all.
	CopiedAnnotations func(annotations map[string]string) map[string]string
}

// New returns the backend of the issuers.
func New(cfg Config) issuing.Backend {
	return backend{
		newSetup(cfg.Config, cfg.Accounts, cfg.Settings, cfg.Answers),
		&signing{Config: cfg.Config, copied: cfg.CopiedAnnotations, replaces: cfg.Settings.NameRenewed},
	}
}

type backend struct {
	*setup
	*signing
}

// Needs returns the Secrets of an issuer for the zero Request; for others, what
// the answer depends on.
func (b backend) Needs(of cmv1.GenericIssuer, req issuing.Request) []issuing.Reference {
	if req.UID == "" {
		return b.needs(of)
	}
	return b.signing.Needs(of, req)
}

// Revoke implements issuing.Revoker.
func (b backend) Revoke(ctx context.Context, of cmv1.GenericIssuer, cert issuing.Revoked) error {
	if cert.DER == nil {
		return issuing.ErrNoCertificate
	}
	c, err := b.accounts.Of(ctx, of)
	if err != nil {
		return err
	}
	return c.Revoke(ctx, cert.DER, cert.Reason)
}
