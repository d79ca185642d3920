package check

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// credential checks the caller's identity and the expiry of its credential.
func credential(ctx context.Context, c *checker) []Check {
	var checks []Check
	if me, err := c.api.WhoAmI(ctx); err != nil {
		checks = append(checks, Check{Result: NotChecked, Text: "the server does not report your identity"})
	} else {
		checks = append(checks, ok("you are %s", me.Username)...)
	}
	const renew = "Get a new one before: 'certplane user create' makes kubeconfigs, 'certplane token create' tokens."
	if cert := c.clientCertificate(); len(cert) > 0 {
		if certs, err := pki.ParseBundle(cert); err == nil {
			checks = append(checks, Check{Result: c.ending(certs[0].NotBefore, certs[0].NotAfter), Text: "your client certificate " + c.until(certs[0].NotAfter)}.advised(renew))
		}
	}
	if begins, ends, ok := tokenLife(c.token()); ok {
		checks = append(checks, Check{Result: c.ending(begins, ends), Text: "your token " + c.until(ends)}.advised(renew))
	}
	return checks
}

func (c *checker) clientCertificate() []byte {
	if len(c.Client.CertData) > 0 || c.Client.CertFile == "" {
		return c.Client.CertData
	}
	data, _ := os.ReadFile(c.Client.CertFile) // the connection has read it
	return data
}

func (c *checker) token() string {
	if c.Client.BearerTokenFile == "" {
		return c.Client.BearerToken
	}
	data, _ := os.ReadFile(c.Client.BearerTokenFile) // the connection has read it
	return strings.TrimSpace(string(data))
}

// tokenLife returns the validity of a JSON Web Token (RFC 7519).
func tokenLife(token string) (begins, ends time.Time, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return begins, ends, false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return begins, ends, false
	}
	var claims struct {
		IssuedAt  float64 `json:"iat"`
		ExpiresAt float64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil || claims.ExpiresAt == 0 {
		return begins, ends, false
	}
	return time.Unix(int64(claims.IssuedAt), 0), time.Unix(int64(claims.ExpiresAt), 0), true
}
