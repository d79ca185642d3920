package desec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
	"github.com/certplane/certplane/internal/api/certmanager"
)

// standIn is the API of deSEC with the domain example.com.
type standIn struct {
	providertest.Records
	valid *providertest.Secrets
	// after is called after a record set was written, with this TTL.
	after func()
	ttl   int
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, found := strings.CutPrefix(r.URL.Path, "/api/v1/domains/example.com/rrsets/")
	switch {
	case r.Header.Get("Authorization") != "Token "+strings.TrimSpace(s.valid.Value("desec/token")):
		s.refuse(w, http.StatusUnauthorized, "Invalid token.")
	case r.Host != "desec.io" || !found:
		s.refuse(w, http.StatusNotFound, "Not found.")
	case r.Method == http.MethodGet:
		s.get(w, strings.TrimSuffix(path, "/TXT/"))
	case r.Method == http.MethodPut && path == "":
		s.put(w, r)
	default:
		s.refuse(w, http.StatusMethodNotAllowed, "Method not allowed.")
	}
}

func (s *standIn) refuse(w http.ResponseWriter, status int, detail string) {
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"detail":%q}`, detail)
}

// fqdn returns the name of a record set. The domain itself is "@" in a URL, and
// an empty text in a document.
func fqdn(subname, apex string) string {
	return strings.TrimPrefix(strings.TrimSuffix(subname, apex)+".example.com.", ".")
}

func (s *standIn) get(w http.ResponseWriter, subname string) {
	values := s.Values(fqdn(subname, "@"))
	if subname == "" || len(values) == 0 {
		s.refuse(w, http.StatusNotFound, "Not found.")
		return
	}
	for i, value := range values {
		values[i] = `"` + value + `"`
	}
	json.NewEncoder(w).Encode(map[string]any{
		"created": "2019-09-18T16:32:16.510368Z", "domain": "example.com", "subname": strings.Trim(subname, "@"), "name": fqdn(subname, "@"),
		"type": "TXT", "records": values, "ttl": 7200, "touched": "2020-04-06T09:24:09.987436Z",
	})
}

// put replaces record sets. Those without records are deleted.
func (s *standIn) put(w http.ResponseWriter, r *http.Request) {
	var sets []struct {
		Subname, Type *string
		TTL           *int
		Records       []string
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if decoder.Decode(&sets) != nil || len(sets) != 1 || sets[0].Subname == nil || sets[0].Type == nil || *sets[0].Type != "TXT" || sets[0].TTL == nil || sets[0].Records == nil {
		s.refuse(w, http.StatusBadRequest, "JSON parse error")
		return
	}
	set := sets[0]
	name := fqdn(*set.Subname, "")
	if s.ttl = *set.TTL; s.ttl < 3600 || *set.Subname != strings.ToLower(*set.Subname) {
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `[{"ttl":["Ensure this value is greater than or equal to 3600."]}]`)
		return
	}
	for i, value := range set.Records {
		if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
			s.refuse(w, http.StatusBadRequest, "Cannot parse record contents")
			return
		}
		set.Records[i] = value[1 : len(value)-1]
	}
	s.Set(name, set.Records...)
	if s.after != nil {
		s.after()
	}
	json.NewEncoder(w).Encode(sets)
}

func config() *certmanager.DeSEC {
	return &certmanager.DeSEC{Token: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "desec"}, Key: "token"}}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Case{
		New:       func(ctx context.Context, env provider.Env) (provider.Provider, error) { return New(ctx, env, config()) },
		API:       func(valid *providertest.Secrets) providertest.API { return &standIn{valid: valid} },
		Secrets:   map[string]string{"desec/token": "first-token\n"}, // the newline is removed
		Rotated:   map[string]string{"desec/token": "other-token"},
		Sensitive: []string{"first-token"},
		Refusal: func(_ int, message string) string {
			body, _ := json.Marshal(map[string]string{"detail": message})
			return string(body)
		},
	})
}

func open(t *testing.T, api http.Handler, token string) (provider.Provider, error) {
	t.Helper()
	return New(t.Context(), providertest.Env(providertest.Client(t, api), providertest.NewSecrets(map[string]string{"desec/token": token})), config())
}

// TestApex: the name of the domain itself is written in two ways.
func TestApex(t *testing.T) {
	api := &standIn{valid: providertest.NewSecrets(map[string]string{"desec/token": "valid"})}
	api.Set("example.com.", "other")
	p, err := open(t, api, "valid")
	if err != nil {
		t.Fatal(err)
	}
	record := provider.Record{FQDN: "Example.com.", Zone: "example.COM.", Value: "value"}
	if err := p.Present(t.Context(), record); err != nil || api.ttl != 7200 || !slices.Equal(api.Values("example.com."), []string{"other", "value"}) {
		t.Errorf("values %q, error %v", api.Values("example.com."), err)
	}
	if err := p.CleanUp(t.Context(), record); err != nil || !slices.Equal(api.Values("example.com."), []string{"other"}) {
		t.Errorf("values %q, error %v", api.Values("example.com."), err)
	}
}

func TestErrors(t *testing.T) {
	const limit = `HTTP status 429 Too Many Requests`
	tests := []struct {
		reason, token, zone string
		answer              http.HandlerFunc // instead of the API's
		want                string
	}{
		{reason: "empty token", token: " \n", want: "the token for deSEC is empty"},
		{reason: "control character", token: "a\x01b", want: "the token for deSEC is invalid: it contains a control character, such as a newline at its end"},
		{reason: "another token", token: "other", want: "reading the record set at deSEC: HTTP status 401 Unauthorized: Invalid token."},
		{reason: "another zone", zone: "www.example.com.", want: "changing the record set at deSEC: HTTP status 404 Not Found: Not found."},
		{reason: "a name elsewhere", zone: "xample.com.", want: "_acme-challenge.www.example.com. is not in the zone xample.com."},
		{reason: "no zone", zone: "-", want: "_acme-challenge.www.example.com. is not in the zone -"},
		{reason: "a wait", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			io.WriteString(w, `{"detail":"Request was throttled. Expected available in 5 seconds."}`)
		}, want: "reading the record set at deSEC: " + limit},
		{reason: "errors of fields", answer: func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `[{"ttl":["Ensure this value is greater than or equal to 3600."]}]`)
		}, want: `reading the record set at deSEC: HTTP status 400 Bad Request: [{"ttl":["Ensure this value is greater than or equal to 3600."]}]`},
		{reason: "another document", answer: func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{}`) }, want: "reading the record set at deSEC: the answer is another record set"},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			var api http.Handler = &standIn{valid: providertest.NewSecrets(map[string]string{"desec/token": "valid"})}
			if test.answer != nil {
				api = test.answer
			}
			if test.token == "" {
				test.token = "valid"
			}
			if test.zone == "" {
				test.zone = "example.com."
			}
			p, err := open(t, api, test.token)
			if err == nil {
				err = p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.www.example.com.", Zone: test.zone, Value: "value"})
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("error  %v\nwanted %s", err, test.want)
			}
		})
	}
}

// TestOtherWriter: another writer replaces the record set right after us.
func TestOtherWriter(t *testing.T) {
	const name = "_acme-challenge.example.com."
	api := &standIn{valid: providertest.NewSecrets(map[string]string{"desec/token": "valid"})}
	p, err := open(t, api, "valid")
	if err != nil {
		t.Fatal(err)
	}
	api.after = func() { api.Set(name, "hers") }
	record := provider.Record{FQDN: name, Zone: "example.com.", Value: "ours"}
	if err := p.Present(t.Context(), record); !errors.As(err, new(*provider.TemporaryError)) {
		t.Errorf("Present: %v", err)
	}
	api.after = nil
	if err := p.Present(t.Context(), record); err != nil || !slices.Equal(api.Values(name), []string{"hers", "ours"}) {
		t.Errorf("values %q, error %v", api.Values(name), err)
	}
}
