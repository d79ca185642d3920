package vault_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/issuing/signer/vault"
)

func TestRevoke(t *testing.T) {
	for path, want := range map[string]string{
		"pki/sign/web":                        "/v1/pki/revoke",
		"/v1/pki/sign/web/":                   "/v1/pki/revoke",
		"a/pki/sign/sign":                     "/v1/a/pki/revoke",
		"pki/sign-verbatim":                   "/v1/pki/revoke",
		"pki/sign-verbatim/web":               "/v1/pki/revoke",
		"pki/issue/web":                       "/v1/pki/revoke",
		"pki/issuer/old/sign/web":             "/v1/pki/revoke",
		"pki/issuer/old/sign-intermediate":    "/v1/pki/revoke",
		"pki/root/sign-intermediate":          "/v1/pki/revoke",
		"corp/issuer/pki/issuer/x/sign/web":   "/v1/corp/issuer/pki/revoke",
		"pki/other/web":                       "",
		"sign/web":                            "",
		"pki/sign/../../sys/auth/token/x/web": "",
	} {
		w := newWorld(t)
		i := w.issuer(func(i *vault.Issuer) { i.Path = path })
		serial := new(big.Int).SetBytes([]byte{0, 1, 0xab, 0})
		err := w.pool.Revoke(t.Context(), i, w.access(), serial)
		calls := w.Calls()
		switch {
		case want == "" && (err == nil || len(calls) > 0 || !strings.Contains(err.Error(), path)):
			t.Errorf("%s: %v %v", path, err, calls)
		case want != "" && (err != nil || calls[len(calls)-1].Path != want || calls[len(calls)-1].Body["serial_number"] != "01:ab:00"):
			t.Errorf("%s: %v %+v", path, err, calls)
		}
	}
}

// A token that the server does not know any more is replaced, as for signing.
func TestRevokeWithOldToken(t *testing.T) {
	w := newWorld(t)
	i := w.issuer(nil)
	w.mustSign(t, i)
	w.clock.Step(1e9)
	w.Revoke()
	if err := w.pool.Revoke(t.Context(), i, w.access(), big.NewInt(7)); err != nil {
		t.Fatal(err)
	}
	if got := w.Server.Revoked(); len(got) != 1 || got[0] != "07" || w.Count("/login") != 2 {
		t.Errorf("revoked %q after %d logins", got, w.Count("/login"))
	}
}
