package digitalocean

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

// standIn is the API of DigitalOcean with the zone example.com. IDs of records
// are their places among the values of their name.
type standIn struct {
	providertest.Records
	valid *providertest.Secrets
	last  string // the name that was last listed or written
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id, found := strings.CutPrefix(r.URL.EscapedPath(), "/v2/domains/example.com/records")
	switch {
	case r.Header.Get("Authorization") != "Bearer "+strings.TrimSpace(s.valid.Value("do/token")):
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"id":"unauthorized","message":"Unable to authenticate you."}`)
	case r.Host != "api.digitalocean.com" || !found:
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"id":"not_found","message":"The resource you were accessing could not be found."}`)
	case r.Method == http.MethodGet:
		s.list(w, r)
	case r.Method == http.MethodPost:
		s.add(w, r)
	case r.Method == http.MethodDelete:
		i, _ := strconv.Atoi(strings.TrimPrefix(id, "/"))
		values := s.Values(s.last)
		s.Set(s.last, append(values[:i-1], values[i:]...)...)
		w.WriteHeader(http.StatusNoContent)
	}
}

func (s *standIn) list(w http.ResponseWriter, r *http.Request) {
	s.last = r.URL.Query().Get("name") + "."
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	page, _ := strconv.Atoi(r.URL.Query().Get("page"))
	records := []record{}
	for i, value := range s.Values(s.last) {
		if i >= (page-1)*size && i < page*size {
			records = append(records, record{ID: int64(i + 1), Type: "TXT", Name: "_acme-challenge.www", Data: value, TTL: 60})
		}
	}
	json.NewEncoder(w).Encode(map[string]any{"domain_records": records})
}

func (s *standIn) add(w http.ResponseWriter, r *http.Request) {
	var added record
	if json.NewDecoder(r.Body).Decode(&added) != nil || added.Type != "TXT" || added.TTL != 60 {
		http.Error(w, "{}", http.StatusUnprocessableEntity)
		return
	}
	s.Add(added.Name, added.Data)
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(map[string]any{"domain_record": added})
}

func spec() *acmev1.ACMEIssuerDNS01ProviderDigitalOcean {
	return &acmev1.ACMEIssuerDNS01ProviderDigitalOcean{Token: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "do"}, Key: "token"}}
}

func TestConformance(t *testing.T) {
	providertest.Run(t, providertest.Case{
		New:       func(ctx context.Context, env provider.Env) (provider.Provider, error) { return New(ctx, env, spec()) },
		API:       func(valid *providertest.Secrets) providertest.API { return &standIn{valid: valid} },
		Secrets:   map[string]string{"do/token": "first-token\n"}, // the newline is removed
		Rotated:   map[string]string{"do/token": "other-token"},
		Sensitive: []string{"first-token"},
		Refusal: func(_ int, message string) string {
			body, _ := json.Marshal(map[string]string{"id": "refused", "message": message, "request_id": "4d9d8375-3c56-4925-a3e7-eb137fed17e9"})
			return string(body)
		},
	})
}

func TestErrors(t *testing.T) {
	tests := []struct {
		reason string
		token  string
		zone   string
		want   string
	}{
		{reason: "empty token", token: " \n", want: "error instantiating digitalocean challenge solver: DigitalOcean token missing"},
		{reason: "control character", token: "a\x01b", want: "error instantiating digitalocean challenge solver: the DigitalOcean token is invalid: it contains a control character, such as a newline at its end"},
		{reason: "another token", token: "other", zone: "example.com.", want: "listing records at DigitalOcean: HTTP status 401 Unauthorized: unauthorized: Unable to authenticate you."},
		{reason: "another zone", token: "valid", zone: "example.org.", want: "listing records at DigitalOcean: HTTP status 404 Not Found: not_found: The resource you were accessing could not be found."},
		{reason: "a zone that leads elsewhere", token: "valid", zone: "example.com/records/../../../account", want: "listing records at DigitalOcean: HTTP status 404 Not Found: not_found: The resource you were accessing could not be found."},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			api := &standIn{valid: providertest.NewSecrets(map[string]string{"do/token": "valid"})}
			env := providertest.Env(providertest.Client(t, api), providertest.NewSecrets(map[string]string{"do/token": test.token}))
			p, err := New(t.Context(), env, spec())
			if err == nil {
				err = p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge." + test.zone, Zone: test.zone, Value: "v"})
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

// A record is found on whichever page it is.
func TestPages(t *testing.T) {
	secrets := providertest.NewSecrets(map[string]string{"do/token": "valid"})
	api := &standIn{valid: secrets}
	const fqdn = "_acme-challenge.example.com."
	var values []string
	for i := range 401 {
		values = append(values, fmt.Sprint("value-", i))
	}
	api.Set(fqdn, values...)
	p, err := New(t.Context(), providertest.Env(providertest.Client(t, api), secrets), spec())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CleanUp(t.Context(), provider.Record{FQDN: fqdn, Zone: "example.com.", Value: "value-400"}); err != nil {
		t.Fatal(err)
	}
	if got := len(api.Values(fqdn)); got != 400 {
		t.Errorf("%d records are left", got)
	}
}
