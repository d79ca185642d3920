// Package digitalocean writes TXT records at DigitalOcean.
package digitalocean

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

const (
	apiURL = "https://api.digitalocean.com/v2"
	// ttl is the time to live of records, in seconds.
	ttl = 60
	// pageSize is how many records are asked for at once; the most that the API
	// gives.
	pageSize = 200
	// maxPages ends the search in a zone with more records of one name.
	maxPages = 20
)

// Provider writes records with the credentials of one solver. It adds and
// removes single records.
type Provider struct {
	api *restcall.Client
}

// New returns a provider for a solver. It reads the Secret of the solver.
func New(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderDigitalOcean) (provider.Provider, error) {
	secret, err := env.Secret(ctx, spec.Token.Name, spec.Token.Key)
	if err != nil {
		return nil, fmt.Errorf("error getting digitalocean token: %w", err)
	}
	token := strings.TrimSpace(string(secret))
	if token == "" {
		return nil, instantiating(errors.New("DigitalOcean token missing"))
	}
	if err := restcall.CheckHeader(token); err != nil {
		return nil, instantiating(fmt.Errorf("the DigitalOcean token is invalid: %w", err))
	}
	return &Provider{api: restcall.New(restcall.Config{
		HTTP: env.HTTP, Now: env.Now, Explain: explain, Secrets: []string{token},
		Authorize: func(request *http.Request, _ []byte) error {
			request.Header.Set("Authorization", "Bearer "+token)
			return nil
		},
	})}, nil
}

func instantiating(err error) error {
	return fmt.Errorf("error instantiating digitalocean challenge solver: %w", err)
}

type record struct {
	ID   int64  `json:"id,omitempty"`
	Type string `json:"type"`
	Name string `json:"name"`
	Data string `json:"data"`
	TTL  int    `json:"ttl"`
}

// Present adds a record.
func (p *Provider) Present(ctx context.Context, r provider.Record) error {
	found, err := p.find(ctx, r)
	if err != nil || len(found) > 0 {
		return err
	}
	var answer struct {
		Record record `json:"domain_record"`
	}
	_, err = p.api.JSON(ctx, http.MethodPost, records(r), nil, record{Type: "TXT", Name: r.FQDN, Data: r.Value, TTL: ttl}, &answer)
	if err != nil {
		return fmt.Errorf("adding a record at DigitalOcean: %w", err)
	}
	return nil
}

// CleanUp removes a record.
func (p *Provider) CleanUp(ctx context.Context, r provider.Record) error {
	found, err := p.find(ctx, r)
	if err != nil {
		return err
	}
	for _, id := range found {
		_, err := p.api.JSON(ctx, http.MethodDelete, records(r)+"/"+strconv.FormatInt(id, 10), nil, nil, nil)
		if err != nil && !restcall.HasStatus(err, http.StatusNotFound) {
			return fmt.Errorf("removing a record at DigitalOcean: %w", err)
		}
	}
	return nil
}

// find returns the IDs of the records with the name and value.
func (p *Provider) find(ctx context.Context, r provider.Record) ([]int64, error) {
	var found []int64
	for page := 1; page <= maxPages; page++ {
		query := url.Values{"type": {"TXT"}, "name": {strings.TrimSuffix(r.FQDN, ".")}, "per_page": {strconv.Itoa(pageSize)}, "page": {strconv.Itoa(page)}}
		var answer struct {
			Records []record `json:"domain_records"`
		}
		if _, err := p.api.JSON(ctx, http.MethodGet, records(r)+"?"+query.Encode(), nil, nil, &answer); err != nil {
			return nil, fmt.Errorf("listing records at DigitalOcean: %w", err)
		}
		for _, existing := range answer.Records {
			if existing.Type == "TXT" && existing.Data == r.Value {
				found = append(found, existing.ID)
			}
		}
		if len(answer.Records) < pageSize {
			return found, nil
		}
	}
	return nil, fmt.Errorf("listing records at DigitalOcean: more than %d TXT records have the name %s", maxPages*pageSize, r.FQDN)
}

// records returns the URL of the records of the zone.
func records(r provider.Record) string {
	return apiURL + restcall.Path("domains", strings.TrimSuffix(r.Zone, "."), "records")
}

func explain(_ int, body []byte) restcall.Fault {
	var answer struct {
		ID      string `json:"id"`
		Message string `json:"message"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return restcall.Fault{}
	}
	return restcall.Fault{Code: answer.ID, Message: answer.Message}
}
