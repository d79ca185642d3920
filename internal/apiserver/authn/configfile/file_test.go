package configfile

import (
	"context"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticator"

	"github.com/certplane/certplane/internal/apiserver/authn/oidctest"
)

const head = `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthenticationConfiguration",`

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, content string) (*File, string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "authentication.yaml")
	write(t, path, content)
	file, err := Open(Config{
		Path:       path,
		Audiences:  authenticator.Audiences{"api"},
		OwnIssuers: []string{"https://own.example"},
		Anonymous:  []apiserver.AnonymousAuthCondition{{Path: "/healthz"}},
	})
	return file, path, err
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

func TestInvalidFiles(t *testing.T) {
	jwt := func(issuer, mappings string) string {
		return head + `"jwt":[{"issuer":` + issuer + `,"claimMappings":` + mappings + `}]}`
	}
	const mappings = `{"username":{"claim":"sub","prefix":""}}`
	tests := []struct{ reason, content, want string }{
		{"not YAML", "{", "unexpected end"},
		{"another kind", `{"apiVersion":"apiserver.config.k8s.io/v1","kind":"AuthorizationConfiguration","authorizers":[]}`, "kind is AuthorizationConfiguration"},
		{"unknown version", `{"apiVersion":"apiserver.config.k8s.io/v7","kind":"AuthenticationConfiguration"}`, "no kind"},
		{"unknown field", head + `"jwts":[]}`, `unknown field "jwts"`},
		{"issuer without TLS", jwt(`{"url":"http://a.example","audiences":["x"]}`, mappings), "jwt[0].issuer.url"},
		{"the server's own issuer", jwt(`{"url":"https://own.example","audiences":["x"]}`, mappings), "jwt[0].issuer.url"},
		{"no audience", jwt(`{"url":"https://a.example"}`, mappings), "jwt[0].issuer.audiences"},
		{"a broken CA", jwt(`{"url":"https://a.example","audiences":["x"],"certificateAuthority":"x"}`, mappings), "jwt[0].issuer.certificateAuthority"},
		{"an egress proxy", jwt(`{"url":"https://a.example","audiences":["x"],"egressSelectorType":"controlplane"}`, mappings), "jwt[0].issuer.egressSelectorType"},
		{"a broken expression", jwt(`{"url":"https://a.example","audiences":["x"]}`, `{"username":{"expression":"claims."}}`), "jwt[0].claimMappings.username.expression"},
		{"conditions of what is off", head + `"anonymous":{"enabled":false,"conditions":[{"path":"/x"}]}}`, "anonymous.conditions"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			_, path, err := open(t, tt.content)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error is %v, want %q in it", err, tt.want)
			}
			if !strings.Contains(err.Error(), path) {
				t.Errorf("error %q does not name the file", err)
			}
		})
	}
}

func TestAnonymous(t *testing.T) {
	tests := []struct {
		reason, content string
		want            []string
	}{
		{"the file says nothing", head + `"jwt":[]}`, []string{"/healthz"}},
		{"nowhere", head + `"anonymous":{"enabled":false}}`, nil},
		{"everywhere", head + `"anonymous":{"enabled":true}}`, []string{"/healthz", "/api", "/mine"}},
		{"somewhere", head + `"anonymous":{"enabled":true,"conditions":[{"path":"/mine"}]}}`, []string{"/mine"}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			file, _, err := open(t, tt.content)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, path := range []string{"/healthz", "/api", "/mine"} {
				answer, ok, err := file.AuthenticateRequest(httptest.NewRequest("GET", path, nil))
				if err != nil {
					t.Fatal(err)
				}
				if ok && answer.User.GetName() == "system:anonymous" {
					got = append(got, path)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("open paths (-want +got):\n%s", diff)
			}
		})
	}
}

// who returns the user of a token, or "" if it is not accepted.
func who(t *testing.T, file *File, token string) string {
	t.Helper()
	answer, ok, _ := file.AuthenticateToken(t.Context(), token)
	if !ok {
		return ""
	}
	return answer.User.GetName()
}

func TestTokens(t *testing.T) {
	known, stranger := oidctest.Start(t), oidctest.Start(t)
	file, _, err := open(t, known.Config(t, "oidc:"))
	if err != nil {
		t.Fatal(err)
	}
	good := known.Token(t, map[string]any{"groups": []string{"staff"}})
	if got := who(t, file, good); got != "" {
		t.Errorf("before the start the token is %s's", got)
	}
	file.Start(t.Context())
	eventually(t, "the issuer is known", func() bool { return who(t, file, good) == "oidc:ann" })

	ctx := authenticator.WithAudiences(t.Context(), authenticator.Audiences{"api", "other"})
	answer, _, err := file.AuthenticateToken(ctx, good)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"oidc:staff"}, answer.User.GetGroups()); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(authenticator.Audiences{"api"}, answer.Audiences); diff != "" {
		t.Errorf("audiences (-want +got):\n%s", diff)
	}

	impostor := &oidctest.Issuer{Server: known.Server, Key: stranger.Key}
	for reason, token := range map[string]string{
		"of another issuer":        stranger.Token(t, nil),
		"signed by somebody else":  impostor.Token(t, nil),
		"for another audience":     known.Token(t, map[string]any{"aud": "other"}),
		"expired":                  known.Token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}),
		"of no form":               "abcdef.0123456789abcdef",
		"of the empty form":        "",
		"truncated":                good[:len(good)-4],
		"with other than a string": known.Token(t, map[string]any{"sub": 7}),
	} {
		if got := who(t, file, token); got != "" {
			t.Errorf("a token %s is %s's", reason, got)
		}
	}
}

// settle polls often enough to notice a change.
func settle(ctx context.Context, file *File) {
	_ = file.changes.Look(ctx)
	_ = file.changes.Look(ctx)
}

// A broken change is not applied, and a valid one is applied without a gap.
func TestReload(t *testing.T) {
	first, second := oidctest.Start(t), oidctest.Start(t)
	file, path, err := open(t, first.Config(t, "a:"))
	if err != nil {
		t.Fatal(err)
	}
	file.load(t.Context())
	ofFirst, ofSecond := first.Token(t, nil), second.Token(t, nil)
	eventually(t, "the first issuer is known", func() bool { return who(t, file, ofFirst) == "a:ann" })

	check := func(reason, wantFirst, wantSecond string) {
		t.Helper()
		if got := who(t, file, ofFirst); got != wantFirst {
			t.Errorf("%s: the first issuer's token is %q's, want %q", reason, got, wantFirst)
		}
		if got := who(t, file, ofSecond); got != wantSecond {
			t.Errorf("%s: the second issuer's token is %q's, want %q", reason, got, wantSecond)
		}
	}
	write(t, path, "not a configuration")
	settle(t.Context(), file)
	check("a broken file", "a:ann", "")

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	settle(t.Context(), file)
	check("no file", "a:ann", "")

	write(t, path, second.Config(t, "b:"))
	second.Block()
	soon, cancel := context.WithTimeout(t.Context(), 3*healthPoll)
	defer cancel()
	settle(soon, file)
	check("an issuer that does not answer", "a:ann", "")

	second.Unblock()
	settle(t.Context(), file)
	check("it answers", "", "b:ann")

	write(t, path, second.Config(t, "c:"))
	settle(t.Context(), file)
	check("a change about the same issuer", "", "c:ann")
}

func TestChangesAreSeen(t *testing.T) {
	file, path, err := open(t, head+`"jwt":[]}`)
	if err != nil {
		t.Fatal(err)
	}
	file.Start(t.Context())
	write(t, path, head+`"anonymous":{"enabled":false}}`)
	eventually(t, "nobody is let in", func() bool {
		_, ok, _ := file.AuthenticateRequest(httptest.NewRequest("GET", "/healthz", nil))
		return !ok
	})
}
