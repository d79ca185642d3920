package cloudflare

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

// standIn is the API of Cloudflare with the zone example.com.
type standIn struct {
	providertest.Records
	authorized func(*http.Request) bool
	quote      string // put around contents in answers
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, found := strings.CutPrefix(r.URL.Path, "/client/v4/zones")
	switch {
	case r.Host != "api.cloudflare.com" || !found:
		http.Error(w, "no such API", http.StatusNotFound)
	case !s.authorized(r):
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"success":false,"errors":[{"code":9109,"message":"Invalid access token"}],"result":null}`)
	case rest == "":
		s.zones(w, r)
	default:
		s.records(w, r, strings.TrimPrefix(rest, "/zone-1/dns_records"))
	}
}

func (s *standIn) zones(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("name") == "example.com" {
		answer(w, []map[string]any{{"id": "zone-1", "name": "example.com"}})
		return
	}
	answer(w, []any{})
}

func (s *standIn) records(w http.ResponseWriter, r *http.Request, id string) {
	switch {
	case r.Method == http.MethodGet && id == "":
		fqdn, records := r.URL.Query().Get("name")+".", []map[string]any{}
		for i, value := range s.Values(fqdn) {
			records = append(records, map[string]any{"id": fmt.Sprintf("%d-%s", i, fqdn), "type": "TXT", "name": strings.TrimSuffix(fqdn, "."), "content": s.quote + value + s.quote})
		}
		answer(w, records)
	case r.Method == http.MethodPost && id == "":
		var added struct {
			Type, Name, Content string
			TTL                 int
		}
		if json.NewDecoder(r.Body).Decode(&added) != nil || added.Type != "TXT" || added.TTL != 60 {
			http.Error(w, "{}", http.StatusBadRequest)
			return
		}
		s.Add(added.Name+".", added.Content)
		answer(w, map[string]any{"id": "new"})
	case r.Method == http.MethodDelete:
		index, fqdn, _ := strings.Cut(strings.TrimPrefix(id, "/"), "-")
		i, _ := strconv.Atoi(index)
		values := s.Values(fqdn)
		s.Set(fqdn, append(values[:i], values[i+1:]...)...)
		answer(w, map[string]any{"id": id})
	}
}

func answer(w http.ResponseWriter, result any) {
	json.NewEncoder(w).Encode(map[string]any{"success": true, "errors": []any{}, "result": result})
}

func ref(name, key string) *cmmeta.SecretKeySelector {
	return &cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name}, Key: key}
}

func refusal(_ int, message string) string {
	body, _ := json.Marshal(map[string]any{"success": false, "errors": []any{map[string]any{"code": 1, "message": message}}})
	return string(body)
}

func TestConformance(t *testing.T) {
	tests := []struct {
		reason string
		spec   acmev1.ACMEIssuerDNS01ProviderCloudflare
		header func(r *http.Request) string
		want   string
		quote  string
	}{
		{reason: "token", spec: acmev1.ACMEIssuerDNS01ProviderCloudflare{APIToken: ref("cf", "secret")}, want: "Bearer %s",
			header: func(r *http.Request) string { return r.Header.Get("Authorization") + r.Header.Get("X-Auth-Key") }},
		{reason: "key, contents in quotes", spec: acmev1.ACMEIssuerDNS01ProviderCloudflare{APIKey: ref("cf", "secret"), Email: "me@example.com"}, want: "me@example.com %s", quote: `"`,
			header: func(r *http.Request) string {
				return r.Header.Get("X-Auth-Email") + " " + r.Header.Get("X-Auth-Key") + r.Header.Get("Authorization")
			}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			providertest.Run(t, providertest.Case{
				New: func(ctx context.Context, env provider.Env) (provider.Provider, error) {
					return New(ctx, env, &test.spec)
				},
				API: func(valid *providertest.Secrets) providertest.API {
					return &standIn{quote: test.quote, authorized: func(r *http.Request) bool {
						return test.header(r) == fmt.Sprintf(test.want, valid.Value("cf/secret"))
					}}
				},
				Secrets: map[string]string{"cf/secret": "first-secret"},
				Rotated: map[string]string{"cf/secret": "other-secret"},
				Refusal: refusal,
			})
		})
	}
}

func TestCredentials(t *testing.T) {
	tests := []struct {
		reason string
		spec   acmev1.ACMEIssuerDNS01ProviderCloudflare
		secret string
		want   string
	}{
		{reason: "both", spec: acmev1.ACMEIssuerDNS01ProviderCloudflare{APIToken: ref("cf", "secret"), APIKey: ref("cf", "secret")}, want: "API key and API token secret references are both present"},
		{reason: "none", want: "error instantiating cloudflare challenge solver: no Cloudflare credential has been given (can be either an API key or an API token)"},
		{reason: "key without email", spec: acmev1.ACMEIssuerDNS01ProviderCloudflare{APIKey: ref("cf", "secret")}, secret: "k", want: "error instantiating cloudflare challenge solver: no Cloudflare credential has been given (can be either an API key or an API token)"},
		{reason: "empty token", spec: acmev1.ACMEIssuerDNS01ProviderCloudflare{APIToken: ref("cf", "secret")}, want: "error instantiating cloudflare challenge solver: no Cloudflare credential has been given (can be either an API key or an API token)"},
		{reason: "newline in token", spec: acmev1.ACMEIssuerDNS01ProviderCloudflare{APIToken: ref("cf", "secret")}, secret: "token\n", want: "error instantiating cloudflare challenge solver: the Cloudflare API token is invalid (does the API token contain a newline?)"},
		{reason: "newline in key", spec: acmev1.ACMEIssuerDNS01ProviderCloudflare{APIKey: ref("cf", "secret"), Email: "me@example.com"}, secret: "to\nken", want: "error instantiating cloudflare challenge solver: the Cloudflare API key is invalid (does the API key contain a newline?)"},
		{reason: "missing key of the Secret", spec: acmev1.ACMEIssuerDNS01ProviderCloudflare{APIToken: ref("cf", "other")}, want: `error getting cloudflare secret: specified key "other" not found in secret ns/cf`},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			env := providertest.Env(http.DefaultClient, providertest.NewSecrets(map[string]string{"cf/secret": test.secret}))
			if _, err := New(t.Context(), env, &test.spec); err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

// The search for the zone ends at the first error: it must not go on to a
// parent that is another zone.
func TestZoneSearch(t *testing.T) {
	tests := []struct {
		reason string
		body   string
		status int
		want   string
	}{
		{reason: "an error with its chain", status: 400, body: `{"success":false,"errors":[{"code":6003,"message":"Invalid request headers","error_chain":[{"code":6103,"message":"Invalid format for X-Auth-Key header"}]}]}`,
			want: "while attempting to find Zones for domain _acme-challenge.example.com.\nwhile querying the Cloudflare API for GET \"/zones?name=_acme-challenge.example.com\" \n\t Error: 6003: Invalid request headers<- 6103: Invalid format for X-Auth-Key header"},
		{reason: "an error with status 200", status: 200, body: `{"success":false,"errors":[{"code":9109,"message":"Invalid access token"}]}`,
			want: "while attempting to find Zones for domain _acme-challenge.example.com.\nwhile querying the Cloudflare API for GET \"/zones?name=_acme-challenge.example.com\" \n\t Error: 9109: Invalid access token"},
		{reason: "an error that quotes the token", status: 200, body: `{"success":false,"errors":[{"code":1,"message":"bad: to-ken"}]}`,
			want: "while attempting to find Zones for domain _acme-challenge.example.com.\nwhile querying the Cloudflare API for GET \"/zones?name=_acme-challenge.example.com\" \n\t Error: 1: bad: [hidden]"},
		{reason: "no zone at any level", status: 200, body: `{"success":true,"result":[]}`,
			want: "Found no Zones for domain _acme-challenge.example.com. (neither in the sub-domain nor in the SLD) please make sure your domain-entries in the config are correct and the API key is correctly setup with Zone.read rights."},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			client := providertest.Client(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.WriteHeader(test.status)
				io.WriteString(w, test.body)
			}))
			env := providertest.Env(client, providertest.NewSecrets(map[string]string{"cf/secret": "to-ken"}))
			p, err := New(t.Context(), env, &acmev1.ACMEIssuerDNS01ProviderCloudflare{APIToken: ref("cf", "secret")})
			if err != nil {
				t.Fatal(err)
			}
			err = p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.example.com.", Value: "v"})
			if err == nil || err.Error() != test.want {
				t.Errorf("error is %q, want %q", err, test.want)
			}
		})
	}
}
