package acmedns

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

// standIn is an acme-dns server with one account. It keeps two values: an
// update replaces the oldest.
type standIn struct {
	providertest.Records
	valid *providertest.Secrets
}

const fqdn = "_acme-challenge.www.example.com."

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var accounts map[string]account
	json.Unmarshal([]byte(s.valid.Value("dns/accounts")), &accounts)
	want := accounts["www.example.com"]
	var update struct{ Subdomain, Txt string }
	switch {
	case r.Host != "dns.example.net" || r.Method != http.MethodPost || r.URL.Path != "/api/update":
		http.NotFound(w, r)
	case r.Header.Get("X-Api-User") != want.Username || r.Header.Get("X-Api-Key") != want.Password:
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error": "forbidden"}`)
	case json.NewDecoder(r.Body).Decode(&update) != nil || update.Subdomain != want.Subdomain || len(update.Txt) != 43:
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error": "bad_txt"}`)
	default:
		values := append(s.Values(fqdn), update.Txt)
		s.Set(fqdn, values[max(0, len(values)-2):]...)
		json.NewEncoder(w).Encode(map[string]string{"txt": update.Txt})
	}
}

func spec(key string) *acmev1.ACMEIssuerDNS01ProviderAcmeDNS {
	return &acmev1.ACMEIssuerDNS01ProviderAcmeDNS{
		Host:          "https://dns.example.net/api/",
		AccountSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "dns"}, Key: key},
	}
}

func accounts(password string) map[string]string {
	return map[string]string{"dns/accounts": `{"www.example.com": {"fulldomain": "abc.dns.example.net", "subdomain": "abc", "username": "user-1", "password": "` + password + `", "allowfrom": []}}`}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Case{
		New: func(ctx context.Context, env provider.Env) (provider.Provider, error) {
			return NewSlots().New(ctx, env, spec("accounts"))
		},
		API:       func(valid *providertest.Secrets) providertest.API { return &standIn{valid: valid} },
		Secrets:   accounts("first-password"),
		Rotated:   accounts("other-password"),
		Sensitive: []string{"user-1", "first-password"},
		Refusal: func(_ int, message string) string {
			body, _ := json.Marshal(map[string]string{"error": message})
			return string(body)
		},
		KeepsRecords: true,
	})
}

func TestErrors(t *testing.T) {
	tests := []struct {
		reason  string
		host    string
		key     string
		content string
		want    string
	}{
		{reason: "bad JSON, whose content stays secret", content: `{"a": pass`, want: "error instantiating acmedns challenge solver: Error unmarshalling accountJSON: not valid JSON at byte 7"},
		{reason: "another document", content: `["password"]`, want: "error instantiating acmedns challenge solver: Error unmarshalling accountJSON: not a map of domains to accounts"},
		{reason: "missing key", key: "other", want: `error getting acmedns accounts secret: specified key "other" not found in secret ns/dns`},
		{reason: "host without a scheme", host: "dns.example.net", content: "{}", want: `error instantiating acmedns challenge solver: Error creating acme-dns client: host must be a URL that begins with https:// or http://, not "dns.example.net"`},
		{reason: "no account", content: "{}", want: "account credentials not found for domain www.example.com"},
		{reason: "newline in the password", content: accounts(`a\n`)["dns/accounts"], want: "the account for domain www.example.com is invalid: it contains a control character, such as a newline at its end"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			s := spec("accounts")
			if test.key != "" {
				s.AccountSecret.Key = test.key
			}
			if test.host != "" {
				s.Host = test.host
			}
			env := providertest.Env(http.DefaultClient, providertest.NewSecrets(map[string]string{"dns/accounts": test.content}))
			p, err := NewSlots().New(t.Context(), env, s)
			if err == nil {
				err = p.Present(t.Context(), provider.Record{Domain: "www.example.com", Value: "v"})
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

// Three challenges for one name: the third waits, and nobody's value is
// replaced while it is needed.
func TestThirdValueWaits(t *testing.T) {
	secrets := providertest.NewSecrets(accounts("p"))
	api := &standIn{valid: secrets}
	env := providertest.Env(providertest.Client(t, api), secrets)
	now := providertest.Now
	env.Now = func() time.Time { return now }
	slots := NewSlots()
	value := func(letter string) string { return letter + strings.Repeat("x", 42) }
	act := func(letter string, clean bool) error {
		p, err := slots.New(t.Context(), env, spec("accounts"))
		if err != nil {
			t.Fatal(err)
		}
		record := provider.Record{FQDN: fqdn, Domain: "www.example.com", Value: value(letter)}
		if clean {
			return p.CleanUp(t.Context(), record)
		}
		return p.Present(t.Context(), record)
	}
	steps := []struct {
		reason string
		letter string
		clean  bool
		pass   time.Duration
		wait   bool
		want   []string
	}{
		{reason: "the first value", letter: "a", want: []string{"a"}},
		{reason: "the only value is written again", letter: "a", want: []string{"a", "a"}},
		{reason: "the second value", letter: "b", want: []string{"a", "b"}},
		{reason: "the newer value again would replace the older", letter: "b", want: []string{"a", "b"}},
		{reason: "the older value replaces itself", letter: "a", want: []string{"b", "a"}},
		{reason: "a third value has to wait", letter: "c", wait: true, want: []string{"b", "a"}},
		{reason: "one ends", letter: "b", clean: true, want: []string{"b", "a"}},
		{reason: "the third has its place", letter: "c", want: []string{"a", "c"}},
		{reason: "a fourth has to wait", letter: "d", wait: true, want: []string{"a", "c"}},
		{reason: "values that nobody cleaned up count no longer", letter: "d", pass: time.Hour, want: []string{"c", "d"}},
	}
	for _, step := range steps {
		now = now.Add(step.pass)
		err := act(step.letter, step.clean)
		if temporary := (*provider.TemporaryError)(nil); errors.As(err, &temporary) != step.wait || (err != nil) != step.wait {
			t.Fatalf("%s: %v", step.reason, err)
		}
		var got []string
		for _, v := range api.Values(fqdn) {
			got = append(got, v[:1])
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", step.reason, diff)
		}
	}
}
