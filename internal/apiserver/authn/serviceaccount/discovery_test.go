package serviceaccount

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func fetch(t *testing.T, handler http.Handler, method string) *httptest.ResponseRecorder {
	t.Helper()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, "/", nil))
	return recorder
}

// Another library must be able to verify a token with only the documents.
func TestDocumentsVerifyTokens(t *testing.T) {
	for _, keyType := range []pki.KeyType{pki.ECDSAP256, pki.ECDSAP384, pki.RSA2048} {
		t.Run(string(keyType), func(t *testing.T) {
			keys := newKeys(t, newSigner(t, keyType), newSigner(t, pki.RSA2048).Public())
			documents, err := Issuer{Name: testIssuer, Keys: keys}.Documents("https://keys.example/jwks")
			if err != nil {
				t.Fatal(err)
			}
			answer := fetch(t, documents[KeysPath], http.MethodGet)
			if got := answer.Header().Get("Content-Type"); got != "application/jwk-set+json" {
				t.Errorf("Content-Type is %q", got)
			}
			var set jose.JSONWebKeySet
			if err := json.Unmarshal(answer.Body.Bytes(), &set); err != nil {
				t.Fatal(err)
			}
			if len(set.Keys) != 2 {
				t.Errorf("there are %d keys, want the signing one and the former one", len(set.Keys))
			}
			signed, err := jose.ParseSignedCompact(issue(t, keys, grant()), []jose.SignatureAlgorithm{jose.ES256, jose.ES384, jose.RS256})
			if err != nil {
				t.Fatal(err)
			}
			matching := set.Key(signed.Signatures[0].Header.KeyID)
			if len(matching) != 1 {
				t.Fatalf("%d keys have the token's kid", len(matching))
			}
			if _, err := signed.Verify(matching[0]); err != nil {
				t.Errorf("verifying: %v", err)
			}
			if matching[0].Use != "sig" || matching[0].Algorithm != signed.Signatures[0].Header.Algorithm || !matching[0].IsPublic() {
				t.Errorf("the key is %+v", matching[0])
			}
		})
	}
}

func TestConfigDocument(t *testing.T) {
	keys := newKeys(t, newSigner(t, pki.RSA2048), newSigner(t, pki.RSA2048).Public(), newSigner(t, pki.ECDSAP256).Public())
	documents, err := Issuer{Name: testIssuer, Keys: keys}.Documents("https://keys.example/jwks")
	if err != nil {
		t.Fatal(err)
	}
	answer := fetch(t, documents[ConfigPath], http.MethodGet)
	const want = `{"issuer":"https://issuer.example","jwks_uri":"https://keys.example/jwks",` +
		`"response_types_supported":["id_token"],"subject_types_supported":["public"],` +
		`"id_token_signing_alg_values_supported":["ES256","RS256"]}`
	if diff := cmp.Diff(want, answer.Body.String()); diff != "" {
		t.Errorf("document (-want +got):\n%s", diff)
	}
	if got := answer.Header().Get("Cache-Control"); got != "public, max-age=3600" {
		t.Errorf("Cache-Control is %q", got)
	}
	if got := fetch(t, documents[ConfigPath], http.MethodPost).Code; got != http.StatusMethodNotAllowed {
		t.Errorf("POST is answered with %d", got)
	}
}
