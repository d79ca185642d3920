package serviceaccount

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/internal/pki"
)

// existing returns the objects of all tokens in these tests.
func existing() objects {
	return objects{
		"serviceaccounts/ci/builder": object("u-builder"),
		"pods/ci/web":                object("u-web"),
		"secrets/ci/s":               object("u-s"),
		"nodes//n1":                  object("u-n1"),
	}
}

func newAuthenticator(keys *Keys, found objects, now time.Time) Authenticator {
	return Authenticator{
		Issuers:   []string{testIssuer, "https://former.example"},
		Keys:      keys,
		Audiences: authenticator.Audiences{"api"},
		Lookup:    found.find,
		Now:       func() time.Time { return now },
	}
}

func onPod(g *Grant)    { g.Pod, g.Node = &Ref{"web", "u-web"}, &Ref{"n1", "u-n1"} }
func onSecret(g *Grant) { g.Secret = &Ref{"s", "u-s"} }
func onNode(g *Grant)   { g.Node = &Ref{"n1", "u-n1"} }

func TestAuthenticateToken(t *testing.T) {
	keys := newKeys(t, newSigner(t, pki.ECDSAP256))
	long := func(g *Grant) { g.Lifetime = 10 * time.Hour }
	tests := []struct {
		reason string
		grant  func(*Grant)
		after  time.Duration         // between issue and use
		change func(objects objects) // what has changed since
		want   string                // part of the error, or "" for success
	}{
		{reason: "bound to the account alone"},
		{reason: "bound to a pod", grant: onPod},
		{reason: "bound to a secret", grant: onSecret},
		{reason: "bound to a node", grant: onNode},
		{reason: "clocks differ", after: time.Hour + 30*time.Second},
		{reason: "expired", after: time.Hour + 2*time.Minute, want: "has expired"},
		{reason: "not valid yet", after: -2 * time.Minute, want: "not valid yet"},
		{reason: "audience of another service", grant: func(g *Grant) { g.Audiences = []string{"vault"} }, want: `["vault"] is invalid for the target audiences ["api"]`},
		{reason: "no audience", grant: func(g *Grant) { g.Audiences = nil }, want: "is invalid for the target audiences"},

		{reason: "account gone", change: func(o objects) { delete(o, "serviceaccounts/ci/builder") }, want: "service account ci/builder does not exist"},
		{reason: "account made again", change: func(o objects) { o["serviceaccounts/ci/builder"] = object("u-2") }, want: `UID of serviceaccounts "builder" does not match`},
		{reason: "account being deleted", change: func(o objects) {
			o["serviceaccounts/ci/builder"] = deleted("u-builder", testNow.Add(-2*time.Minute))
		}, want: "has been deleted"},

		{reason: "pod gone", grant: onPod, change: func(o objects) { delete(o, "pods/ci/web") }, want: "invalidated"},
		{reason: "pod made again", grant: onPod, change: func(o objects) { o["pods/ci/web"] = object("u-2") }, want: `UID of pods "web" does not match`},
		{reason: "pod has time to shut down", grant: onPod, change: func(o objects) {
			o["pods/ci/web"] = deleted("u-web", testNow.Add(30*time.Second))
		}},
		{reason: "pod should be gone", grant: func(g *Grant) { onPod(g); long(g) }, after: 2 * time.Hour, change: func(o objects) {
			o["pods/ci/web"] = deleted("u-web", testNow.Add(30*time.Second))
		}, want: "invalidated"},
		{reason: "a pod outlives its node", grant: onPod, change: func(o objects) { delete(o, "nodes//n1") }},

		{reason: "secret gone", grant: onSecret, change: func(o objects) { delete(o, "secrets/ci/s") }, want: "invalidated"},
		{reason: "node gone", grant: onNode, change: func(o objects) { delete(o, "nodes//n1") }, want: "invalidated"},
		{reason: "node made again", grant: onNode, change: func(o objects) { o["nodes//n1"] = object("u-2") }, want: `UID of nodes "n1" does not match`},
		{reason: "objects that it is not bound to are gone", change: func(o objects) {
			delete(o, "pods/ci/web")
			delete(o, "secrets/ci/s")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			g := grant()
			if tt.grant != nil {
				tt.grant(&g)
			}
			found := existing()
			if tt.change != nil {
				tt.change(found)
			}
			who := newAuthenticator(keys, found, testNow.Add(tt.after))
			answer, ok, err := who.AuthenticateToken(t.Context(), issue(t, keys, g))
			switch {
			case tt.want == "" && (err != nil || !ok):
				t.Errorf("refused: %v", err)
			case tt.want != "" && (err == nil || ok || answer != nil):
				t.Errorf("honoured, want an error with %q", tt.want)
			case tt.want != "" && !strings.Contains(err.Error(), tt.want):
				t.Errorf("error is %q, want %q in it", err, tt.want)
			}
		})
	}
}

func TestUser(t *testing.T) {
	keys := newKeys(t, newSigner(t, pki.ECDSAP256))
	tests := []struct {
		reason string
		grant  func(*Grant)
		extra  map[string][]string // besides the credential's ID
	}{
		{"account alone", func(*Grant) {}, nil},
		{"pod on a node", onPod, map[string][]string{
			"authentication.kubernetes.io/pod-name": {"web"}, "authentication.kubernetes.io/pod-uid": {"u-web"},
			"authentication.kubernetes.io/node-name": {"n1"}, "authentication.kubernetes.io/node-uid": {"u-n1"},
		}},
		{"node", onNode, map[string][]string{
			"authentication.kubernetes.io/node-name": {"n1"}, "authentication.kubernetes.io/node-uid": {"u-n1"},
		}},
		{"secret", onSecret, nil},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			g := grant()
			tt.grant(&g)
			token, id, err := Issuer{Name: testIssuer, Keys: keys}.Issue(g, testNow)
			if err != nil {
				t.Fatal(err)
			}
			answer, _, err := newAuthenticator(keys, existing(), testNow).AuthenticateToken(t.Context(), token)
			if err != nil {
				t.Fatal(err)
			}
			want := &user.DefaultInfo{
				Name: "system:serviceaccount:ci:builder", UID: "u-builder",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ci"},
				Extra:  map[string][]string{"authentication.kubernetes.io/credential-id": {id}},
			}
			for key, values := range tt.extra {
				want.Extra[key] = values
			}
			if diff := cmp.Diff(user.Info(want), answer.User); diff != "" {
				t.Errorf("user (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAudiencesOfTheRequest(t *testing.T) {
	keys := newKeys(t, newSigner(t, pki.ECDSAP256))
	g := grant()
	g.Audiences = []string{"vault", "api", "db"}
	who := newAuthenticator(keys, existing(), testNow)
	ctx := authenticator.WithAudiences(context.Background(), authenticator.Audiences{"db", "vault", "web"})
	answer, ok, err := who.AuthenticateToken(ctx, issue(t, keys, g))
	if err != nil || !ok {
		t.Fatalf("refused: %v", err)
	}
	if diff := cmp.Diff(authenticator.Audiences{"db", "vault"}, answer.Audiences); diff != "" {
		t.Errorf("audiences (-want +got):\n%s", diff)
	}
}

// Tokens of other issuers are not for this authenticator: it must let later
// authenticators check them.
func TestTokensOfOthers(t *testing.T) {
	keys := newKeys(t, newSigner(t, pki.ECDSAP256))
	other, _, err := Issuer{Name: "https://other.example", Keys: keys}.Issue(grant(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	for reason, token := range map[string]string{
		"another issuer": other, "no JWT": "abcdef.0123456789abcdef", "nothing": "", "garbage": "a.b.c", "dots": "..",
	} {
		answer, ok, err := newAuthenticator(keys, existing(), testNow).AuthenticateToken(t.Context(), token)
		if answer != nil || ok || err != nil {
			t.Errorf("%s: got %v, %v, %v, want no opinion", reason, answer, ok, err)
		}
	}
}

func TestForgedTokens(t *testing.T) {
	signer := newSigner(t, pki.ECDSAP256)
	keys := newKeys(t, signer)
	rsaKeys := newKeys(t, newSigner(t, pki.RSA2048))
	token := issue(t, keys, grant())
	parts := strings.Split(token, ".")
	// sign creates a token with the claims of a valid one.
	sign := func(method jwt.SigningMethod, key any, header map[string]any) string {
		forged := jwt.NewWithClaims(method, grant().claims(testIssuer, "id", testNow))
		for name, value := range header {
			forged.Header[name] = value
		}
		text, err := forged.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	kid := map[string]any{"kid": keys.signing.id}
	tests := map[string]string{
		"key of somebody else":          issue(t, newKeys(t, newSigner(t, pki.ECDSAP256)), grant()),
		"key of somebody else, our kid": sign(jwt.SigningMethodES256, newSigner(t, pki.ECDSAP256), kid),
		"no signature":                  parts[0] + "." + parts[1] + ".",
		"signature of nothing":          sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, kid),
		"public key as HMAC secret":     sign(jwt.SigningMethodHS256, []byte(keys.signing.id), kid),
		"other claims":                  parts[0] + "." + strings.Split(issue(t, keys, grant()), ".")[1] + "." + parts[2],
		"algorithm of another key":      sign(jwt.SigningMethodRS256, rsaKeys.signer, kid),
		"no kid":                        sign(jwt.SigningMethodES256, signer, nil),
		"kid of another type":           sign(jwt.SigningMethodES256, signer, map[string]any{"kid": 7}),
	}
	for reason, forged := range tests {
		t.Run(reason, func(t *testing.T) {
			answer, ok, err := newAuthenticator(keys, existing(), testNow).AuthenticateToken(t.Context(), forged)
			if ok || answer != nil || err == nil {
				t.Errorf("got %v, %v, %v, want an error", answer, ok, err)
			}
		})
	}
}

// A key has one algorithm, even if it could sign with others.
func TestOtherAlgorithmOfOurKey(t *testing.T) {
	signer := newSigner(t, pki.RSA2048)
	keys := newKeys(t, signer)
	token := jwt.NewWithClaims(jwt.SigningMethodPS256, grant().claims(testIssuer, "id", testNow))
	token.Header["kid"] = keys.signing.id
	text, err := token.SignedString(signer)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := newAuthenticator(keys, existing(), testNow).AuthenticateToken(t.Context(), text); ok || err == nil {
		t.Error("a token with another algorithm is honoured")
	}
}

func TestTokensWithoutEnd(t *testing.T) {
	keys := newKeys(t, newSigner(t, pki.ECDSAP256))
	claims := grant().claims(testIssuer, "id", testNow)
	claims.ExpiresAt = nil
	token, err := keys.sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := newAuthenticator(keys, existing(), testNow).AuthenticateToken(t.Context(), token); ok || err == nil {
		t.Errorf("a token that never expires is honoured")
	}
}

func TestFormerIssuersAndKeys(t *testing.T) {
	old := newSigner(t, pki.RSA2048)
	keys := newKeys(t, newSigner(t, pki.ECDSAP256), old.Public())
	token, _, err := Issuer{Name: "https://former.example", Keys: newKeys(t, old)}.Issue(grant(), testNow)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok, err := newAuthenticator(keys, existing(), testNow).AuthenticateToken(t.Context(), token); !ok {
		t.Errorf("refused: %v", err)
	}
}

func FuzzAuthenticateToken(f *testing.F) {
	keys := newKeys(f, newSigner(f, pki.ECDSAP256))
	who := newAuthenticator(keys, existing(), testNow)
	token := issue(f, keys, grant())
	f.Add(token)
	f.Add("abcdef.0123456789abcdef")
	f.Add("e30.e30.e30")
	f.Fuzz(func(t *testing.T, text string) {
		_, ok, _ := who.AuthenticateToken(t.Context(), text)
		if ok && text != token {
			t.Errorf("honoured %q", text)
		}
	})
}
