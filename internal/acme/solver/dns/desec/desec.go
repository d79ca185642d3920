// Package desec writes TXT records at deSEC.
package desec

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
	"github.com/certplane/certplane/internal/api/certmanager"
)

const (
	apiURL = "https://desec.io/api/v1"
	// ttl is the time to live of new record sets, in seconds: the API accepts no
	// smaller one for most domains.
	ttl = 3600
)

// Provider writes records with the credentials of one solver. The API knows only
// whole record sets.
type Provider struct {
	api *restcall.Client
}

// New returns a provider for a solver. It reads the Secret of the solver.
func New(ctx context.Context, env provider.Env, config *certmanager.DeSEC) (provider.Provider, error) {
	secret, err := env.Secret(ctx, config.Token.Name, config.Token.Key)
	if err != nil {
		return nil, fmt.Errorf("reading the token for deSEC: %w", err)
	}
	token := strings.TrimSpace(string(secret))
	if token == "" {
		return nil, errors.New("the token for deSEC is empty")
	}
	if err := restcall.CheckHeader(token); err != nil {
		return nil, fmt.Errorf("the token for deSEC is invalid: %w", err)
	}
	return &Provider{api: restcall.New(restcall.Config{
		HTTP: env.HTTP, Now: env.Now, Explain: explain, Secrets: []string{token},
		Authorize: func(request *http.Request, _ []byte) error {
			request.Header.Set("Authorization", "Token "+token)
			return nil
		},
	})}, nil
}

// recordSet is a record set. Its values are in quotes.
type recordSet struct {
	Subname string   `json:"subname"` // empty: the name of the domain itself
	Type    string   `json:"type"`
	TTL     int      `json:"ttl"`
	Values  []string `json:"records"`
}

// without returns the values that are not value.
func (s recordSet) without(value string) []string {
	return slices.DeleteFunc(slices.Clone(s.Values), func(v string) bool { return strings.Trim(v, `"`) == value })
}

func (s recordSet) has(value string) bool { return len(s.without(value)) < len(s.Values) }

// Present adds a value to the record set.
func (p *Provider) Present(ctx context.Context, r provider.Record) error {
	set, err := p.find(ctx, r)
	if err != nil || set.has(r.Value) {
		return err
	}
	set.Values = append(set.Values, `"`+r.Value+`"`)
	return p.write(ctx, r, set)
}

// CleanUp removes a value from the record set.
func (p *Provider) CleanUp(ctx context.Context, r provider.Record) error {
	set, err := p.find(ctx, r)
	if err != nil || !set.has(r.Value) {
		return err
	}
	set.Values = set.without(r.Value)
	return p.write(ctx, r, set)
}

// find returns the record set, which has no values if it does not exist.
func (p *Provider) find(ctx context.Context, r provider.Record) (recordSet, error) {
	name, within := strings.CutSuffix("."+strings.ToLower(r.FQDN), "."+strings.ToLower(r.Zone))
	if !within {
		return recordSet{}, fmt.Errorf("%s is not in the zone %s", r.FQDN, r.Zone)
	}
	set := recordSet{Subname: strings.TrimPrefix(name, "."), Type: "TXT", TTL: ttl}
	var found recordSet
	_, err := p.api.JSON(ctx, http.MethodGet, recordSets(r, cmp.Or(set.Subname, "@"), "TXT"), nil, nil, &found)
	switch {
	case restcall.HasStatus(err, http.StatusNotFound):
		return set, nil
	case err != nil:
		return recordSet{}, fmt.Errorf("reading the record set at deSEC: %w", err)
	case found.Type != "TXT" || found.Subname != set.Subname || len(found.Values) == 0:
		return recordSet{}, errors.New("reading the record set at deSEC: the answer is another record set")
	}
	return found, nil
}

// write replaces the record set; without values, it is deleted. Then it is read
// again: another writer could have replaced it between our calls.
func (p *Provider) write(ctx context.Context, r provider.Record, set recordSet) error {
	// A list is made, changed or deleted as is needed.
	if _, err := p.api.JSON(ctx, http.MethodPut, recordSets(r), nil, []recordSet{set}, &[]recordSet{}); err != nil {
		return fmt.Errorf("changing the record set at deSEC: %w", err)
	}
	written, err := p.find(ctx, r)
	if err == nil && written.has(r.Value) != set.has(r.Value) {
		return &provider.TemporaryError{Err: errors.New("the record set at deSEC was changed by another writer at the same time")}
	}
	return err
}

// recordSets returns the URL of the record sets of the zone, or of one of them.
func recordSets(r provider.Record, one ...string) string {
	zone := strings.ToLower(strings.TrimSuffix(r.Zone, "."))
	return apiURL + restcall.Path(append([]string{"domains", zone, "rrsets"}, one...)...) + "/"
}

// explain reads the errors of the API: a text, or a document about the fields that
// were sent.
func explain(status int, body []byte) restcall.Fault {
	var answer struct {
		Detail string `json:"detail"`
	}
	switch err := json.Unmarshal(body, &answer); {
	case status == http.StatusTooManyRequests: // the text has the seconds to wait
		return restcall.Fault{}
	case err == nil && answer.Detail != "":
		return restcall.Fault{Message: answer.Detail}
	case json.Valid(body):
		return restcall.Fault{Message: string(body)}
	}
	return restcall.Fault{}
}
