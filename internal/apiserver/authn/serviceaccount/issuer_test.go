package serviceaccount

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

// decode returns a part of a token as it is encoded.
func decode(t testing.TB, part string) map[string]any {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(part)
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTokenOnTheWire(t *testing.T) {
	keys := newKeys(t, newSigner(t, pki.ECDSAP256))
	start := float64(testNow.Unix())
	account := map[string]any{"name": "builder", "uid": "u-builder"}
	tests := []struct {
		reason string
		change func(*Grant)
		want   map[string]any // the claims that are different
	}{
		{"bound to the account alone", func(*Grant) {}, nil},
		{"several audiences", func(g *Grant) { g.Audiences = []string{"api", "vault"} }, map[string]any{"aud": []any{"api", "vault"}}},
		{"bound to a pod on a node", func(g *Grant) {
			g.Pod, g.Node = &Ref{"web", "u-web"}, &Ref{"n1", "u-n1"}
		}, map[string]any{"kubernetes.io": map[string]any{
			"namespace": "ci", "serviceaccount": account,
			"pod": map[string]any{"name": "web", "uid": "u-web"}, "node": map[string]any{"name": "n1", "uid": "u-n1"},
		}}},
		{"the pod's node does not exist", func(g *Grant) {
			g.Pod, g.Node = &Ref{"web", "u-web"}, &Ref{Name: "n1"}
		}, map[string]any{"kubernetes.io": map[string]any{
			"namespace": "ci", "serviceaccount": account,
			"pod": map[string]any{"name": "web", "uid": "u-web"}, "node": map[string]any{"name": "n1"},
		}}},
		{"bound to a secret", func(g *Grant) { g.Secret = &Ref{"s", "u-s"} }, map[string]any{"kubernetes.io": map[string]any{
			"namespace": "ci", "serviceaccount": account, "secret": map[string]any{"name": "s", "uid": "u-s"},
		}}},
		{"extended", func(g *Grant) { g.Lifetime, g.WarnAfter = 24*time.Hour, time.Hour }, map[string]any{
			"exp": start + 86400,
			"kubernetes.io": map[string]any{
				"namespace": "ci", "serviceaccount": account, "warnafter": start + 3600,
			},
		}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			g := grant()
			tt.change(&g)
			parts := strings.Split(issue(t, keys, g), ".")
			if diff := cmp.Diff(map[string]any{"alg": "ES256", "kid": keys.signing.id}, decode(t, parts[0])); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			want := map[string]any{
				"iss": testIssuer, "sub": "system:serviceaccount:ci:builder", "aud": []any{"api"},
				"exp": start + 3600, "nbf": start, "iat": start,
				"kubernetes.io": map[string]any{"namespace": "ci", "serviceaccount": account},
			}
			for claim, value := range tt.want {
				want[claim] = value
			}
			got := decode(t, parts[1])
			if id, _ := got["jti"].(string); len(id) != 36 {
				t.Errorf("jti is %v, want a UUID", got["jti"])
			}
			delete(got, "jti")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTokensHaveDifferentIDs(t *testing.T) {
	issuer := Issuer{Name: testIssuer, Keys: newKeys(t, newSigner(t, pki.ECDSAP256))}
	_, first, err := issuer.Issue(grant(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	_, second, err := issuer.Issue(grant(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	if first == second || !strings.HasPrefix(first, "JTI=") {
		t.Errorf("credential IDs are %q and %q", first, second)
	}
}

// The identifier was computed with openssl: pkey -pubin -outform DER, dgst
// -sha256 -binary, base64url without padding.
func TestKeyIDIsKubernetes(t *testing.T) {
	const public = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgevZzL1gdAFr88hb2
OF/2NxApJCzGCEDdfSp6VQO30hyhRANCAAQRWz+jn65BtOMvdyHKcvjBeBSDZH2r
1RTwjmYSi9R/zpBnuQ4EiMnCqfMPWiZqB4QdbAd0E7oH50VpuZ1P087G
-----END PRIVATE KEY-----`
	signer, err := pki.ParsePrivateKey([]byte(public))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := newKeys(t, signer).signing.id, "pA8PLil03HaoLfb_4I7Q15lVx5560MINl66Pkkat4cE"; got != want {
		t.Errorf("key ID is %s, want %s", got, want)
	}
}

func TestKeysThatCannotSignTokens(t *testing.T) {
	tests := []struct {
		reason  string
		keyType pki.KeyType
		want    string // the algorithm, or "" if there is none
	}{
		{"P-256", pki.ECDSAP256, "ES256"},
		{"P-384", pki.ECDSAP384, "ES384"},
		{"RSA", pki.RSA2048, "RS256"},
		{"not an algorithm of Kubernetes", pki.Ed25519, ""},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			keys, err := NewKeys(newSigner(t, tt.keyType))
			if (err == nil) != (tt.want != "") {
				t.Fatalf("error is %v", err)
			}
			if err == nil && keys.signing.method.Alg() != tt.want {
				t.Errorf("algorithm is %s, want %s", keys.signing.method.Alg(), tt.want)
			}
		})
	}
}
