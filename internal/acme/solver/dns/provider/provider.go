// Package provider defines how TXT records are written at DNS providers. Each
// provider is a package below it.
package provider

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"time"
)

// Provider writes TXT records at one DNS provider, with the credentials of one
// solver. It must be safe for concurrent use.
type Provider interface {
	// Present adds a record. Other records with the same name stay. It changes
	// nothing if the record exists.
	Present(ctx context.Context, record Record) error
	// CleanUp removes a record. Other records with the same name stay. It returns no error
	// if the record does not exist.
	CleanUp(ctx context.Context, record Record) error
}

// Record is a TXT record.
type Record struct {
	// FQDN is the name of the record, with a final dot.
	FQDN string
	// Zone is the zone with the record, with a final dot.
	Zone string
	// Value is the content, without quotes.
	Value string
	// Domain is the name for which a certificate is ordered, without "*.".
	Domain string
}

// Env is the environment of providers in the process.
type Env struct {
	// HTTP is the client for the provider's API. Tests replace its transport.
	// It refuses the addresses that RefuseAddress refuses, and link-local and metadata
	// addresses.
	HTTP *http.Client
	// RefuseAddress, if not nil, returns why the solvers of this issuer must not name an
	// address. Providers that do not use HTTP ask it.
	RefuseAddress func(netip.Addr) error
	// Metadata is the client for metadata services, which provide ambient credentials. It
	// must not be used for addresses that an issuer names.
	Metadata *http.Client
	// Secret returns the value of a key of a Secret in the namespace of the
	// issuer's Secrets.
	Secret func(ctx context.Context, name, key string) ([]byte, error)
	// Token returns a token of a service account in the same namespace.
	Token func(ctx context.Context, serviceAccount string, audiences []string, lifetime time.Duration) (string, error)
	// Ambient allows credentials of the environment of the process: variables,
	// files, and the metadata service of a cloud.
	Ambient bool
	// Now returns the present time, for signatures.
	Now func() time.Time
}

// KeyError means that a Secret does not have a key.
type KeyError struct {
	Secret string // namespace/name
	Key    string
}

func (e *KeyError) Error() string {
	return fmt.Sprintf("specified key %q not found in secret %s", e.Key, e.Secret)
}
