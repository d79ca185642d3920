package pki_test

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestParsePublicKey(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	cert := selfSigned(t, caTemplate("a"), key)
	request, err := pki.NewRequest(pki.Subject{CommonName: "a"}, key)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := pki.EncodeTraditionalPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	public := block("PUBLIC KEY", cert.RawSubjectPublicKeyInfo)
	certPEM, encrypted := block("CERTIFICATE", cert.Raw), block("ENCRYPTED PRIVATE KEY", []byte("secret"))
	for _, tc := range []struct{ reason, data, want string }{
		{"a certificate and the rest of its chain", certPEM + block("CERTIFICATE", newRoot(t).Certificate().Raw), ""},
		{"a request", string(request), ""},
		{"a request of older programs", strings.ReplaceAll(string(request), " CERTIFICATE", " NEW CERTIFICATE"), ""},
		{"a public key", public, ""},
		{"a private key", string(pkcs8), ""},
		{"an older private key, behind its parameters", block("EC PARAMETERS", []byte("p")) + string(sec1), ""},
		{"a certificate behind an encrypted key", encrypted + certPEM, ""},
		{"an encrypted key alone", encrypted, "the private key is encrypted: give its public key"},
		{"nothing", "", "no key was found"},
		{"a damaged key", block("PRIVATE KEY", []byte("secret")), "the block PRIVATE KEY: parsing PRIVATE KEY: "},
		{"a damaged block", strings.Replace(certPEM, "-----END", "END", 1), "line 1: the PEM block cannot be read"},
	} {
		got, err := pki.ParsePublicKey([]byte(tc.data))
		switch {
		case (err == nil) != (tc.want == "") || !strings.HasPrefix(text(err), tc.want) || strings.Contains(text(err), "secret"):
			t.Errorf("%s: %v, want %q", tc.reason, err, tc.want)
		case err == nil && !pki.SameKey(got, key.Public()):
			t.Errorf("%s: it is another key", tc.reason)
		}
	}
}
