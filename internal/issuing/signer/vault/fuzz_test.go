package vault

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

// FuzzAnswers reads what a server of others answers. No error shows a token.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte(`{"data":{"certificate":"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----","issuing_ca":"x","ca_chain":["y"]}}`))
	f.Add([]byte(`{"auth":{"client_token":"hvs.secret","lease_duration":-1,"renewable":true,"num_uses":-3,"token_type":"batch"}}`))
	f.Add([]byte(`{"errors":["permission denied",""],"warnings":null}`))
	f.Add([]byte(`<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>a</AccessKeyId></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if b, err := readBundle(body); err == nil && (b.Leaf == nil || len(b.Issuers) > maxBundle || pki.EncodeCertificates(b.Leaf) == nil) {
			t.Errorf("%+v", b)
		}
		switch l, err := readLease(body); {
		case err == nil && (l.token == "" || l.duration < 0 || l.uses < 0):
			t.Errorf("%+v", l)
		case err != nil && strings.Contains(err.Error(), "hvs.secret"):
			t.Errorf("the error shows the token: %v", err)
		}
		if lines, ok := readErrors(body); !ok && len(lines) > 0 {
			t.Errorf("%q", lines)
		}
		for _, status := range []int{200, 403, 500} {
			_, _ = readSTS(status, body, "token") // for its panics
		}
	})
}
