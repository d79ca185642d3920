package akamai

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

const apiHost = "akab-host.luna.akamaiapis.net"

// standIn is Edge DNS with the zone example.com.
type standIn struct {
	providertest.Records
	t      *testing.T
	valid  *providertest.Secrets
	nonces []string
	// afterWrite is called after a change, as another writer.
	afterWrite func()
	// beforeWrite is called before a change, as another writer.
	beforeWrite func()
}

func refuse(w http.ResponseWriter, status int, title, detail string) {
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"type": "https://problems.luna.akamaiapis.net/x", "title": title, "detail": detail, "status": status, "instance": "0a1b", "requestId": "2c3d"})
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := providertest.ReadBody(r)
	rest, found := strings.CutPrefix(r.URL.Path, "/config-dns/v2/zones/example.com/names/")
	name, isTXT := strings.CutSuffix(rest, "/types/TXT")
	switch {
	case r.Host != apiHost || !s.signed(r, body):
		refuse(w, http.StatusUnauthorized, "Not authorized", "The signature does not match")
	case !found || !isTXT:
		refuse(w, http.StatusNotFound, "Not Found", "The requested zone was not found")
	default:
		s.recordSet(w, r.Method, name, body)
	}
}

// signed checks a signature by its parts, as the description of the scheme has
// it.
func (s *standIn) signed(r *http.Request, body []byte) bool {
	unsigned, signature, _ := strings.Cut(r.Header.Get("Authorization"), "signature=")
	parts := map[string]string{}
	for _, part := range strings.Split(strings.TrimPrefix(unsigned, "EG1-HMAC-SHA256 "), ";") {
		key, value, _ := strings.Cut(part, "=")
		parts[key] = value
	}
	if slices.Contains(s.nonces, parts["nonce"]) {
		s.t.Errorf("the nonce %q was used before", parts["nonce"])
	}
	s.nonces = append(s.nonces, parts["nonce"])
	mac := func(key, text string) string {
		h := hmac.New(sha256.New, []byte(key))
		h.Write([]byte(text))
		return base64.StdEncoding.EncodeToString(h.Sum(nil))
	}
	bodyHash := ""
	if r.Method == http.MethodPost {
		sum := sha256.Sum256(body)
		bodyHash = base64.StdEncoding.EncodeToString(sum[:])
	}
	text := r.Method + "\thttps\t" + r.Host + "\t" + r.RequestURI + "\t\t" + bodyHash + "\t" + unsigned
	return parts["timestamp"] == providertest.Now.Format("20060102T15:04:05")+"+0000" &&
		parts["client_token"] == s.valid.Value("akamai/client") && parts["access_token"] == s.valid.Value("akamai/access") &&
		signature == mac(mac(s.valid.Value("akamai/secret"), parts["timestamp"]), text)
}

func (s *standIn) recordSet(w http.ResponseWriter, method, name string, body []byte) {
	fqdn := name + "."
	if method != http.MethodGet && s.beforeWrite != nil {
		s.beforeWrite()
	}
	exists := len(s.Values(fqdn)) > 0
	switch {
	case method == http.MethodPost && exists:
		refuse(w, http.StatusConflict, "Conflict", "The record set exists")
		return
	case method != http.MethodPost && !exists:
		refuse(w, http.StatusNotFound, "Not Found", "The record set was not found")
		return
	case method == http.MethodGet:
		s.show(w, fqdn)
		return
	case method == http.MethodDelete:
		s.Set(fqdn)
		w.WriteHeader(http.StatusNoContent)
	default:
		var set recordSet
		if json.Unmarshal(body, &set) != nil || set.Name != name || set.Type != "TXT" || set.TTL != 300 || len(set.Values) == 0 {
			refuse(w, http.StatusUnprocessableEntity, "Invalid", "wrong record set")
			return
		}
		var values []string
		for _, value := range set.Values {
			values = append(values, strings.Trim(value, `"`))
		}
		s.Set(fqdn, values...)
		s.show(w, fqdn)
	}
	if s.afterWrite != nil {
		s.afterWrite()
		s.afterWrite = nil
	}
}

func (s *standIn) show(w http.ResponseWriter, fqdn string) {
	set := recordSet{Name: strings.TrimSuffix(fqdn, "."), Type: "TXT", TTL: 300}
	for _, value := range s.Values(fqdn) {
		set.Values = append(set.Values, `"`+value+`"`)
	}
	json.NewEncoder(w).Encode(set)
}

func ref(key string) cmmeta.SecretKeySelector {
	return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "akamai"}, Key: key}
}

func spec() *acmev1.ACMEIssuerDNS01ProviderAkamai {
	return &acmev1.ACMEIssuerDNS01ProviderAkamai{ServiceConsumerDomain: apiHost, ClientToken: ref("client"), ClientSecret: ref("secret"), AccessToken: ref("access")}
}

func secrets(prefix string) map[string]string {
	return map[string]string{"akamai/client": prefix + "-client-token", "akamai/secret": prefix + "-secret", "akamai/access": prefix + "-access-token"}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Case{
		New:     func(ctx context.Context, env provider.Env) (provider.Provider, error) { return New(ctx, env, spec()) },
		API:     func(valid *providertest.Secrets) providertest.API { return &standIn{t: t, valid: valid} },
		Secrets: secrets("first"),
		Rotated: secrets("other"),
		Refusal: func(_ int, message string) string {
			body, _ := json.Marshal(map[string]string{"title": "Refused", "detail": message})
			return string(body)
		},
	})
}

// A value that another writer has replaced is noticed.
func TestOtherWriter(t *testing.T) {
	const fqdn = "_acme-challenge.example.com."
	tests := []struct {
		reason string
		before []string
		other  []string
		act    func(provider.Provider, context.Context, provider.Record) error
		lost   bool
	}{
		{reason: "our new set was replaced", other: []string{"other"}, act: provider.Provider.Present, lost: true},
		{reason: "our larger set was replaced", before: []string{"old"}, other: []string{"old", "other"}, act: provider.Provider.Present, lost: true},
		{reason: "the other writer kept our value", other: []string{"mine", "other"}, act: provider.Provider.Present},
		{reason: "the other writer restored our value", before: []string{"mine", "old"}, other: []string{"mine", "old", "other"}, act: provider.Provider.CleanUp, lost: true},
		{reason: "the other writer kept our value out", before: []string{"mine", "old"}, other: []string{"old", "other"}, act: provider.Provider.CleanUp},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			valid := providertest.NewSecrets(secrets("first"))
			api := &standIn{t: t, valid: valid}
			api.Set(fqdn, test.before...)
			api.afterWrite = func() { api.Set(fqdn, test.other...) }
			p, err := New(t.Context(), providertest.Env(providertest.Client(t, api), valid), spec())
			if err != nil {
				t.Fatal(err)
			}
			err = test.act(p, t.Context(), provider.Record{FQDN: fqdn, Zone: "example.com.", Value: "mine"})
			if temporary := (*provider.TemporaryError)(nil); errors.As(err, &temporary) != test.lost || (err != nil) != test.lost {
				t.Errorf("error is %v", err)
			}
		})
	}
}

// Two writers create the same record set.
func TestOtherWriterIsFirst(t *testing.T) {
	const fqdn = "_acme-challenge.example.com."
	valid := providertest.NewSecrets(secrets("first"))
	api := &standIn{t: t, valid: valid}
	api.beforeWrite = func() { api.Set(fqdn, "other") }
	p, err := New(t.Context(), providertest.Env(providertest.Client(t, api), valid), spec())
	if err != nil {
		t.Fatal(err)
	}
	err = p.Present(t.Context(), provider.Record{FQDN: fqdn, Zone: "example.com.", Value: "mine"})
	if temporary := (*provider.TemporaryError)(nil); !errors.As(err, &temporary) {
		t.Errorf("error is %v", err)
	}
}

func TestErrors(t *testing.T) {
	const prefix = "error instantiating akamai challenge solver: edgedns: "
	tests := []struct {
		reason string
		change func(*acmev1.ACMEIssuerDNS01ProviderAkamai, map[string]string)
		fqdn   string
		want   string
	}{
		{reason: "no host", change: func(s *acmev1.ACMEIssuerDNS01ProviderAkamai, _ map[string]string) { s.ServiceConsumerDomain = "" }, want: prefix + "Provider creation failed. Missing required arguments"},
		{reason: "empty token", change: func(_ *acmev1.ACMEIssuerDNS01ProviderAkamai, v map[string]string) { v["akamai/access"] = "" }, want: prefix + "Provider creation failed. Missing required arguments"},
		{reason: "a host with a path", change: func(s *acmev1.ACMEIssuerDNS01ProviderAkamai, _ map[string]string) {
			s.ServiceConsumerDomain = "example.net/x?"
		}, want: prefix + `Provider config creation failed: serviceConsumerDomain "example.net/x?" is not the name of a host`},
		{reason: "newline in a token", change: func(_ *acmev1.ACMEIssuerDNS01ProviderAkamai, v map[string]string) { v["akamai/client"] = "a\nb" }, want: prefix + "Provider config creation failed: a token is invalid: it contains a control character, such as a newline at its end"},
		{reason: "missing key", change: func(s *acmev1.ACMEIssuerDNS01ProviderAkamai, _ map[string]string) { s.ClientSecret.Key = "other" }, want: `error getting akamai client secret: specified key "other" not found in secret ns/akamai`},
		{reason: "another zone", fqdn: "_acme-challenge.notexample.com.", want: `edgedns: failed to create TXT record name: fqdn "_acme-challenge.notexample.com." is not part of "example.com"`},
		{reason: "an error of the API that is not 404", change: func(_ *acmev1.ACMEIssuerDNS01ProviderAkamai, v map[string]string) { v["akamai/client"] = "unknown" }, want: "edgedns: failed to retrieve TXT record: HTTP status 401 Unauthorized: Not authorized: The signature does not match"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			spec, values := spec(), secrets("first")
			if test.change != nil {
				test.change(spec, values)
			}
			api := &standIn{t: t, valid: providertest.NewSecrets(secrets("first"))}
			p, err := New(t.Context(), providertest.Env(providertest.Client(t, api), providertest.NewSecrets(values)), spec)
			if err == nil {
				fqdn := test.fqdn
				if fqdn == "" {
					fqdn = "_acme-challenge.example.com."
				}
				err = p.Present(t.Context(), provider.Record{FQDN: fqdn, Zone: "example.com.", Value: "v"})
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}
