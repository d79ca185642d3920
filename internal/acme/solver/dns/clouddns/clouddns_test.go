package clouddns

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme/solver/dns/ambient"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

// newKey returns the JSON key of a service account.
func newKey(t *testing.T, id string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	file, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "my-project", "private_key_id": id, "client_email": "dns@my-project.iam.gserviceaccount.com",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "token_uri": "https://oauth2.googleapis.com/token",
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(file)
}

func spec() *acmev1.ACMEIssuerDNS01ProviderCloudDNS {
	return &acmev1.ACMEIssuerDNS01ProviderCloudDNS{
		Project:        "my-project",
		ServiceAccount: &cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "gcp"}, Key: "key.json"},
	}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Case{
		New:         func(ctx context.Context, env provider.Env) (provider.Provider, error) { return New(ctx, env, spec()) },
		API:         func(valid *providertest.Secrets) providertest.API { return &standIn{t: t, valid: valid} },
		Secrets:     map[string]string{"gcp/key.json": newKey(t, "first-key")},
		Rotated:     map[string]string{"gcp/key.json": newKey(t, "other-key")},
		Sensitive:   []string{tokenPrefix, "eyJhbGci"},
		Conditional: true,
		Refusal: func(status int, message string) string {
			body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "errors": []any{map[string]string{"reason": "forbidden"}}}, "error_description": message})
			return string(body)
		},
	})
}

func TestErrors(t *testing.T) {
	const prefix = "error instantiating google clouddns challenge solver: "
	key := func(change string, to any) string {
		file := map[string]any{}
		json.Unmarshal([]byte(newKey(t, "id")), &file)
		file[change] = to
		data, _ := json.Marshal(file)
		return string(data)
	}
	tests := []struct {
		reason string
		change func(*acmev1.ACMEIssuerDNS01ProviderCloudDNS)
		secret string
		want   string
	}{
		{reason: "no project", change: func(s *acmev1.ACMEIssuerDNS01ProviderCloudDNS) { s.Project = "" }, want: prefix + "Google Cloud project name missing"},
		{reason: "no credentials", change: func(s *acmev1.ACMEIssuerDNS01ProviderCloudDNS) { s.ServiceAccount = nil }, want: prefix + "unable to construct clouddns provider: empty credentials; perhaps you meant to enable ambient credentials?"},
		{reason: "missing key", change: func(s *acmev1.ACMEIssuerDNS01ProviderCloudDNS) { s.ServiceAccount.Key = "other" }, want: `error getting clouddns service account: specified key "other" not found in secret ns/gcp`},
		{reason: "not JSON, and not quoted", secret: "-----BEGIN", want: prefix + "Unable to acquire config: the credentials are not a JSON object"},
		{reason: "a kind that names files and URLs", secret: `{"type":"external_account","credential_source":{"file":"/etc/shadow"}}`, want: prefix + `Unable to acquire config: the credentials have the type "external_account", not service_account`},
		{reason: "a token endpoint without TLS", secret: key("token_uri", "http://169.254.169.254/"), want: prefix + "Unable to acquire config: token_uri of the credentials must be a URL that begins with https://"},
		{reason: "no PEM", secret: key("private_key", "x"), want: prefix + "Unable to acquire config: private_key of the credentials is not PEM"},
		{reason: "no zone", secret: newKey(t, "id"), want: "No matching GoogleCloud domain found for domain example.org."},
		{reason: "another zone by name", secret: newKey(t, "id"), change: func(s *acmev1.ACMEIssuerDNS01ProviderCloudDNS) { s.HostedZoneName = "missing" }, want: "GoogleCloud API call failed: HTTP status 404 Not Found: notFound: The 'parameters.managedZone' resource named 'missing' does not exist."},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			secrets := providertest.NewSecrets(map[string]string{"gcp/key.json": test.secret})
			env := providertest.Env(providertest.Client(t, &standIn{t: t, valid: secrets}), secrets)
			spec := spec()
			if test.change != nil {
				test.change(spec)
			}
			p, err := New(t.Context(), env, spec)
			if err == nil {
				err = p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.example.org.", Zone: "example.org.", Value: "v"})
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

func TestZoneByName(t *testing.T) {
	secrets := providertest.NewSecrets(map[string]string{"gcp/key.json": newKey(t, "id")})
	api := &standIn{t: t, valid: secrets}
	fixed := spec()
	fixed.HostedZoneName = "fixed-zone"
	for _, s := range []*acmev1.ACMEIssuerDNS01ProviderCloudDNS{fixed, spec()} {
		p, err := New(t.Context(), providertest.Env(providertest.Client(t, api), secrets), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.example.com.", Zone: "example.com.", Value: "value of " + s.HostedZoneName}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"fixed-zone", "public-zone"}, api.zones); diff != "" {
		t.Errorf("changed zones (-want +got):\n%s", diff)
	}
}

func TestAmbientCredentials(t *testing.T) {
	files := map[string]string{
		"/key":        newKey(t, "file-key"),
		"/user":       `{"type":"authorized_user","client_id":"id","client_secret":"user-secret","refresh_token":"refresh"}`,
		"/other":      `{"type":"gdch_service_account"}`,
		"/external":   `{"type":"external_account","audience":"//iam/pool","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","token_url":"https://sts.googleapis.com/v1/token","credential_source":{"file":"/token"}}`,
		"/account":    `{"type":"external_account","audience":"//iam/pool","subject_token_type":"urn:ietf:params:oauth:token-type:jwt","service_account_impersonation_url":"https://iamcredentials.googleapis.com/v1/x:generateAccessToken","credential_source":{"file":"/token.json","format":{"type":"json","subject_token_field_name":"id"}}}`,
		"/nofield":    `{"type":"external_account","credential_source":{"file":"/token.json","format":{"type":"json","subject_token_field_name":"other"}}}`,
		"/plain":      `{"type":"external_account","token_url":"http://sts.googleapis.com/","credential_source":{"file":"/token"}}`,
		"/url":        `{"type":"external_account","credential_source":{"url":"http://169.254.169.254/"}}`,
		"/token":      "foreign-token\n",
		"/token.json": `{"id":"foreign-token"}`,
	}
	const prefix = "error instantiating google clouddns challenge solver: Unable to acquire config: reading GOOGLE_APPLICATION_CREDENTIALS: "
	tests := []struct {
		reason string
		file   string
		want   string
	}{
		{reason: "the metadata server"},
		{reason: "a service account in a file", file: "/key"},
		{reason: "a user in a file", file: "/user"},
		{reason: "an identity of another provider", file: "/external"},
		{reason: "an identity of another provider that acts as a service account", file: "/account"},
		{reason: "an identity without its token", file: "/nofield", want: `GoogleCloud API call failed: reading credential_source.file: it has no text in the field "other"`},
		{reason: "an exchange without TLS", file: "/plain", want: "error instantiating google clouddns challenge solver: Unable to acquire config: token_url of the credentials must be a URL that begins with https://"},
		{reason: "a token from elsewhere", file: "/url", want: prefix + "credential_source must name a file; other sources are not supported"},
		{reason: "another kind", file: "/other", want: prefix + `the type "gdch_service_account" is not supported; it must be service_account, authorized_user or external_account`},
		{reason: "no file", file: "/missing", want: prefix + "no file"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			api := &standIn{t: t, valid: providertest.NewSecrets(map[string]string{"gcp/key.json": files["/key"]})}
			env := providertest.Env(providertest.Client(t, api, "metadata.google.internal"), providertest.NewSecrets(nil))
			env.Ambient = true
			host := ambient.Host{
				Getenv: func(name string) string { return map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": test.file}[name] },
				ReadFile: func(path string) ([]byte, error) {
					if content, found := files[path]; found {
						return []byte(content), nil
					}
					return nil, errors.New("no file")
				},
			}
			s := spec()
			s.ServiceAccount = nil
			p, err := newProvider(t.Context(), env, s, host, defaultEndpoints())
			if err == nil {
				err = p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.example.com.", Zone: "example.com.", Value: "v"})
			}
			if got := fmt.Sprint(err); got != test.want && (test.want != "" || err != nil) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

// A token is used until shortly before its end.
func TestTokenIsKept(t *testing.T) {
	secrets := providertest.NewSecrets(nil)
	api := &standIn{t: t, valid: secrets}
	tokens := 0
	client := providertest.Client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "metadata.google.internal" {
			tokens++
		}
		api.ServeHTTP(w, r)
	}), "metadata.google.internal")
	env := providertest.Env(client, secrets)
	now := providertest.Now
	env.Ambient, env.Now = true, func() time.Time { return now }
	s := spec()
	s.ServiceAccount = nil
	p, err := newProvider(t.Context(), env, s, ambient.Host{Getenv: func(string) string { return "" }}, defaultEndpoints())
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		pass time.Duration
		want int
	}{{0, 1}, {58 * time.Minute, 1}, {time.Minute, 2}} {
		now = now.Add(step.pass)
		if err := p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.example.com.", Zone: "example.com.", Value: "v"}); err != nil {
			t.Fatal(err)
		}
		if tokens != step.want {
			t.Errorf("after %s: %d tokens, want %d", step.pass, tokens, step.want)
		}
	}
}
