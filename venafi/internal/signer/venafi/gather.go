package venafi

import (
	"cmp"
	"context"
	"fmt"
	"strings"
)

// The keys of Secrets.
const (
	keyUser         = "username"
	keyPassword     = "password"
	keyAccessToken  = "access-token"
	keyClientID     = "client-id"
	keyClientSecret = "client-secret"
	keyAPIKey       = "api-key"
	keyCA           = "ca.crt"
)

// credentials are the contents of the Secret of an issuer.
type credentials struct {
	user, password, accessToken credential // TPP
	clientID                    string     // TPP and NGTS
	apiKey                      credential // Cloud
	clientSecret                credential // NGTS
}

// all returns what no text may show.
func (c credentials) all() []credential {
	return []credential{c.password, c.accessToken, c.apiKey, c.clientSecret}
}

// material contains the objects that an issuer refers to, read for one attempt.
type material struct {
	credentials credentials
	bundle      []byte
	// versions are the versions of all Secrets that were read.
	versions string
}

// gather reads all that an issuer refers to. Its errors are *InitError.
func gather(ctx context.Context, i Issuer, access Access) (material, error) {
	secret, err := access(ctx, i.Credentials)
	if err != nil {
		return material{}, &InitError{Err: err}
	}
	value := func(key string) string { return strings.TrimSpace(string(secret.Data[key])) }
	m := material{versions: secret.Version, credentials: credentials{
		user: credential(value(keyUser)), password: credential(value(keyPassword)), accessToken: credential(value(keyAccessToken)),
		clientID: value(keyClientID), clientSecret: credential(value(keyClientSecret)), apiKey: credential(value(cmp.Or(i.APIKey, keyAPIKey))),
	}}
	if err := m.credentials.check(i); err != nil {
		return material{}, &InitError{Err: err, Refused: true}
	}
	m.bundle = i.CABundle
	if ref := i.CABundleRef; len(m.bundle) == 0 && ref != nil {
		// That this Secret is missing is shown as text only: clients of
		// cert-manager.io expect another outcome than for the credentials.
		secret, err := access(ctx, ref.Name)
		if err != nil {
			return material{}, &InitError{Err: fmt.Errorf("could not access secret '%s/%s': %v", i.SecretNamespace, ref.Name, err)}
		}
		key := cmp.Or(ref.Key, keyCA)
		if m.bundle = secret.Data[key]; len(m.bundle) == 0 {
			return material{}, &InitError{Err: fmt.Errorf("no data for %q in secret '%s/%s'", key, i.SecretNamespace, ref.Name)}
		}
		m.versions += "," + secret.Version
	}
	return m, nil
}

// check refuses credentials with which no call can succeed.
func (c credentials) check(i Issuer) error {
	missing := func(keys string) error {
		return fmt.Errorf("the Secret %s/%s has no %s", i.SecretNamespace, i.Credentials, keys)
	}
	switch {
	case i.Product == TPP && c.accessToken == "" && (c.user == "" || c.password == ""):
		return fmt.Errorf("no TPP credentials configured: %w", missing(keyAccessToken+", nor "+keyUser+" and "+keyPassword))
	case i.Product == Cloud && c.apiKey == "":
		return missing(cmp.Or(i.APIKey, keyAPIKey))
	case i.Product == NGTS && (c.clientID == "" || c.clientSecret == ""):
		return missing(keyClientID + " and " + keyClientSecret)
	}
	return nil
}
