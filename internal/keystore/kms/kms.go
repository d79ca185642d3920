// Package kms signs with private keys in the key management services of AWS,
// Google Cloud and Azure.
//
// The vendors' libraries are large, and cost memory in a program that never
// calls them. The program is built without them by default. Each build tag,
// named like the URI scheme of its keys, adds one:
//
//	go build -tags awskms,cloudkms,azurekms ./cmd/certplane
//
// The credentials for the service come from the same sources as for the
// vendor's other tools: the environment, a file, the machine's own identity.
package kms

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/certplane/certplane/internal/pki"
)

// Service is the key management service of one cloud.
type Service struct {
	// Prefix is the prefix of the URIs of its keys.
	Prefix string

	tag     string // of builds that include it
	uri     *regexp.Regexp
	example string
	open    func(ctx context.Context, uri string) (*Key, error) // nil: not in this build
}

// Services are the services of all clouds.
var Services = []Service{
	{
		Prefix: "awskms:", tag: "awskms", open: openAWS,
		uri: regexp.MustCompile(`^awskms:(.*;)?key-id=[^;?]+`), example: "awskms:key-id=KEY-ID?region=REGION",
	},
	{
		Prefix: "cloudkms:", tag: "cloudkms", open: openGoogle,
		uri:     regexp.MustCompile(`^cloudkms:projects/[^/]+/locations/[^/]+/keyRings/[^/]+/cryptoKeys/[^/]+/cryptoKeyVersions/[0-9]+(\?|$)`),
		example: "cloudkms:projects/P/locations/L/keyRings/R/cryptoKeys/K/cryptoKeyVersions/1",
	},
	{
		Prefix: "azurekms:", tag: "azurekms", open: openAzure,
		uri: regexp.MustCompile(`^azurekms:(name=[^;?]+;vault=[^;?]+|vault=[^;?]+;name=[^;?]+)`), example: "azurekms:name=KEY;vault=VAULT",
	},
}

// Validate reports whether a key can be used by this URI. Its error does not
// show the URI, in which the library would accept a password.
func (s Service) Validate(uri string) error {
	switch {
	case !s.uri.MatchString(uri):
		return errors.New("must look like " + s.example)
	case strings.Contains(uri, "client-secret"):
		return errors.New("has a client-secret in it: give that in the environment, as AZURE_CLIENT_SECRET")
	case s.open == nil:
		return fmt.Errorf("this certplane was built without %s keys; build one that has them: go build -tags %s ./cmd/certplane", s.tag, s.tag)
	}
	return nil
}

// Open finds a key. The libraries limit the time themselves.
func (s Service) Open(ctx context.Context, uri string) (*Key, error) {
	if err := s.Validate(uri); err != nil {
		return nil, err
	}
	// The context has no end: a library may keep it for later logins.
	key, err := s.open(context.WithoutCancel(ctx), uri)
	if err != nil {
		return nil, fmt.Errorf("opening the key %s: %w", withoutQuery(uri), err)
	}
	return key, nil
}

func withoutQuery(uri string) string {
	path, _, _ := strings.Cut(uri, "?")
	return path
}

// Key is a private key that stays in its service. It is safe for concurrent
// use.
type Key struct {
	uri    string
	signer crypto.Signer
	close  func() error
}

// Find returns the key if it matches a public key.
func (k *Key) Find(_ context.Context, public crypto.PublicKey) (crypto.Signer, error) {
	if !pki.SameKey(k.signer.Public(), public) {
		return nil, fmt.Errorf("the key %s does not belong to the CA certificate", withoutQuery(k.uri))
	}
	return k.signer, nil
}

// Close closes the service.
func (k *Key) Close() error { return k.close() }
