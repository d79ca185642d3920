package vault_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr/funcr"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
)

const omitted = "the Vault server returned an HTTP %d response which is not a Vault error response; the response body has been omitted and can be found in the certplane logs"

// No text shows the body of a server that is not Vault, and no more than is
// needed of one that is.
func TestTexts(t *testing.T) {
	tests := []struct {
		reason string
		status int
		body   string
		want   string
	}{
		{"Vault", 400, `{"errors":["common name x not allowed by this role"]}`,
			"failed to sign certificate by vault: Error making API request.\n\nNamespace: team\nURL: POST SERVER/v1/pki/sign/web\nCode: 400. Errors:\n\n* common name x not allowed by this role"},
		{"a page", 502, "<html>inner secrets</html>", fmt.Sprintf(omitted, 502)},
		{"JSON of another server", 400, `{"kind":"Status","message":"inner secrets"}`, fmt.Sprintf(omitted, 400)},
		{"nothing", 403, "", fmt.Sprintf(omitted, 403)},
		{"errors of another form", 400, `{"errors":[{"message":"inner secrets"}]}`, fmt.Sprintf(omitted, 400)},
		{"a very long error", 400, `{"errors":["` + strings.Repeat("é", 5000) + `"]}`, "failed to sign certificate by vault: Error making API request.\n\nNamespace: team\nURL: POST SERVER/v1/pki/sign/web\nCode: 400. Errors:\n\n* éé"},
		{"a page with 200", 200, "<html>inner secrets</html>", "failed to decode response returned by vault: invalid character '<' looking for beginning of value"},
		{"no certificate", 200, `{"data":{"certificate":"inner secrets"}}`, "failed to decode response returned by vault: certificate: is not a certificate in PEM"},
		{"too much", 200, strings.Repeat("x", 2<<20), "failed to decode response returned by vault: the answer is larger than 1048576 bytes"},
		{"too much of an error", 400, strings.Repeat("x", 2<<20), fmt.Sprintf(omitted, 400)},
		{"a hundred certificates", 200, `{"data":{"certificate":PEM,"ca_chain":[` + strings.Repeat("PEM,", 99) + `PEM]}}`, "failed to parse certificate chain from vault: more than 20 certificates"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.answerSigning(func(rw http.ResponseWriter, _ *http.Request) {
				rw.WriteHeader(tc.status)
				_, _ = rw.Write([]byte(strings.ReplaceAll(tc.body, "PEM", fmt.Sprintf("%q", vaulttest.PEM(w.CA.Root)))))
			})
			_, err := w.sign(t, w.issuer(nil))
			got := strings.ReplaceAll(textOf(err), w.URL, "SERVER")
			if !strings.HasPrefix(got, tc.want) || len(textOf(err)) > 1024 || !utf8.ValidString(got) || strings.Contains(got, "inner") {
				t.Errorf("%d bytes %q\nwant %q", len(got), got, tc.want)
			}
		})
	}
}

// A server that sends back what it got shows no credential in any text or log.
func TestEcho(t *testing.T) {
	for _, operation := range []string{"/login", "/sign/", "/renew-self"} {
		for _, form := range []string{`{"errors":[%q]}`, `<html>%s</html>`} {
			w := newWorld(t)
			w.put("role", "id", `secret-"id"-with-quotes`)
			i := w.issuer(nil)
			if operation == "/renew-self" {
				w.mustSign(t, i)
				w.clock.Step(35 * 60e9)
			}
			w.With(func(s *vaulttest.State) {
				s.Answer = func(rw http.ResponseWriter, r *http.Request, c vaulttest.Call) bool {
					if !strings.Contains(c.Path, operation) {
						return false
					}
					rw.WriteHeader(http.StatusBadRequest)
					fmt.Fprintf(rw, form, fmt.Sprint(c.Token, c.Body["secret_id"]))
					return true
				}
			})
			var logged strings.Builder
			logger := funcr.New(func(prefix, args string) { logged.WriteString(args) }, funcr.Options{Verbosity: 10})
			_, err := w.pool.Sign(klog.NewContext(t.Context(), logger), i, w.access(), order(t))
			if logged.Len() == 0 {
				t.Errorf("%s: nothing is logged", operation)
			}
			for _, shown := range []string{textOf(err), fmt.Sprintf("%v %+v %#v", err, err, err), logged.String()} {
				if strings.Contains(shown, "hvs.token") || strings.Contains(shown, "with-quotes") {
					t.Errorf("%s: %s", operation, shown)
				}
			}
		}
	}
}

// What holds credentials can be printed.
func TestPrinting(t *testing.T) {
	w := newWorld(t)
	w.mustSign(t, w.issuer(nil))
	if shown := fmt.Sprintf("%v %+v", w.pool, w.pool); strings.Contains(shown, "hvs.") || strings.Contains(shown, "secret-id") {
		t.Error("shows a credential")
	}
}

func TestPaths(t *testing.T) {
	tests := []struct{ reason, path, want string }{
		{"as it should be", "pki/sign/web", "/v1/pki/sign/web"},
		{"with the version", "/v1/pki/sign/web", "/v1/pki/sign/web"},
		{"with a slash", "/pki/sign/web", "/v1/pki/sign/web"},
		{"with what begins a query", "pki/sign/web?x=y", "/v1/pki/sign/web?x=y"},
		{"out of it", "pki/../../sys/raw", ""},
	}
	for _, tc := range tests {
		w := newWorld(t)
		_, err := w.sign(t, w.issuer(func(i *vault.Issuer) { i.Path, i.Server = tc.path, w.URL+"/" }))
		calls := w.Calls()
		switch {
		case tc.want == "" && (err == nil || len(calls) > 0):
			t.Errorf("%s: %v", tc.reason, calls)
		case tc.want != "" && (err != nil || calls[len(calls)-1].Path != tc.want):
			t.Errorf("%s: %v %v", tc.reason, err, calls)
		}
	}
}

func TestSettings(t *testing.T) {
	if err := vault.DefaultSettings().Validate(); err != nil {
		t.Error(err)
	}
	long := vault.DefaultSettings()
	long.Timeout.Duration *= 10
	if err := long.Validate(); err == nil || !strings.HasPrefix(err.Error(), "certManager.vault.timeout: ") {
		t.Error(err)
	}
}
