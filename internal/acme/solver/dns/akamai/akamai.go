// Package akamai writes TXT records at Akamai Edge DNS.
package akamai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/uuid"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

// ttl is the time to live of records, in seconds.
const ttl = 300

// Provider writes records with the credentials of one solver. It replaces whole record
// sets, and the API has no conditions: a set is read again after it was written, which
// detects some but not all concurrent changes. Only one value of a name should be written
// at a time.
type Provider struct {
	api *restcall.Client
	url string
}

// New returns a provider for a solver. It reads the Secrets of the solver.
func New(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderAkamai) (provider.Provider, error) {
	return newProvider(ctx, env, spec, uuid.NewString)
}

func newProvider(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderAkamai, nonce func() string) (provider.Provider, error) {
	var c credentials
	for _, part := range []struct {
		name string
		ref  cmmeta.SecretKeySelector
		to   *string
	}{{"client token", spec.ClientToken, &c.clientToken}, {"client secret", spec.ClientSecret, &c.clientSecret}, {"access token", spec.AccessToken, &c.accessToken}} {
		value, err := env.Secret(ctx, part.ref.Name, part.ref.Key)
		if err != nil {
			return nil, fmt.Errorf("error getting akamai %s: %w", part.name, err)
		}
		*part.to = strings.TrimSpace(string(value))
	}
	host, err := check(spec.ServiceConsumerDomain, c)
	if err != nil {
		return nil, fmt.Errorf("error instantiating akamai challenge solver: edgedns: %w", err)
	}
	return &Provider{
		url: "https://" + host + "/config-dns/v2",
		api: restcall.New(restcall.Config{
			HTTP: env.HTTP, Now: env.Now, Explain: explain, Secrets: []string{c.clientToken, c.clientSecret, c.accessToken},
			Authorize: func(request *http.Request, body []byte) error {
				sign(request, body, c, env.Now(), nonce())
				return nil
			},
		}),
	}, nil
}

// check returns the host of the API.
func check(domain string, c credentials) (string, error) {
	host := strings.TrimRight(strings.TrimPrefix(domain, "https://"), "/")
	if host == "" || c.clientToken == "" || c.clientSecret == "" || c.accessToken == "" {
		return "", errors.New("Provider creation failed. Missing required arguments")
	}
	if parsed, err := url.Parse("https://" + host); err != nil || parsed.Host != host {
		return "", fmt.Errorf("Provider config creation failed: serviceConsumerDomain %.100q is not the name of a host", domain)
	}
	for _, token := range []string{c.clientToken, c.accessToken} {
		if err := restcall.CheckHeader(token); err != nil {
			return "", fmt.Errorf("Provider config creation failed: a token is invalid: %w", err)
		}
	}
	return host, nil
}

// recordSet is a record set. Its values are in quotes.
type recordSet struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	TTL    int      `json:"ttl"`
	Values []string `json:"rdata"`
}

// without returns the values that are not value.
func (s *recordSet) without(value string) []string {
	return slices.DeleteFunc(slices.Clone(s.Values), func(v string) bool { return strings.Trim(v, `"`) == value })
}

// has reports whether a set, which can be nil, has a value.
func (s *recordSet) has(value string) bool {
	return s != nil && len(s.without(value)) < len(s.Values)
}

// Present adds a value to the record set.
func (p *Provider) Present(ctx context.Context, r provider.Record) error {
	address, set, err := p.find(ctx, r)
	if err != nil || set.has(r.Value) {
		return err
	}
	method := http.MethodPut
	if set == nil {
		method, set = http.MethodPost, &recordSet{Name: strings.TrimSuffix(r.FQDN, "."), Type: "TXT"}
	}
	set.TTL = ttl
	set.Values = append(set.Values, `"`+r.Value+`"`)
	_, err = p.api.JSON(ctx, method, address, nil, set, nil)
	switch {
	case method == http.MethodPost && restcall.HasStatus(err, http.StatusConflict):
		return otherWriter(err)
	case err != nil:
		return fmt.Errorf("edgedns: failed to write TXT record: %w", err)
	}
	return p.verify(ctx, r, true)
}

// CleanUp removes a value from the record set.
func (p *Provider) CleanUp(ctx context.Context, r provider.Record) error {
	address, set, err := p.find(ctx, r)
	if err != nil || !set.has(r.Value) {
		return err
	}
	if err := p.write(ctx, address, set, set.without(r.Value)); err != nil {
		return err
	}
	return p.verify(ctx, r, false)
}

// write replaces the values of a record set, or deletes it.
func (p *Provider) write(ctx context.Context, address string, set *recordSet, values []string) error {
	if len(values) > 0 {
		set.Values = values
		if _, err := p.api.JSON(ctx, http.MethodPut, address, nil, set, nil); err != nil {
			return fmt.Errorf("edgedns: TXT record update failed: %w", err)
		}
		return nil
	}
	_, err := p.api.JSON(ctx, http.MethodDelete, address, nil, nil, nil)
	if err != nil && !restcall.HasStatus(err, http.StatusNotFound) {
		return fmt.Errorf("edgedns: TXT record delete failed: %w", err)
	}
	return nil
}

// verify reads what was written: another writer could have replaced it.
func (p *Provider) verify(ctx context.Context, r provider.Record, want bool) error {
	_, set, err := p.find(ctx, r)
	if err != nil {
		return err
	}
	if set.has(r.Value) != want {
		return otherWriter(errors.New("the value that was written is not there"))
	}
	return nil
}

func otherWriter(err error) error {
	return &provider.TemporaryError{Err: fmt.Errorf("edgedns: the record set was changed by another writer at the same time: %w", err)}
}

// find returns the URL of the record set, and the set or nil.
func (p *Provider) find(ctx context.Context, r provider.Record) (string, *recordSet, error) {
	name, zone := strings.TrimSuffix(r.FQDN, "."), strings.TrimSuffix(r.Zone, ".")
	if !strings.HasSuffix("."+strings.ToLower(name), "."+strings.ToLower(zone)) || zone == "" {
		return "", nil, fmt.Errorf("edgedns: failed to create TXT record name: fqdn %q is not part of %q", r.FQDN, zone)
	}
	address := p.url + restcall.Path("zones", zone, "names", name, "types", "TXT")
	var set recordSet
	_, err := p.api.JSON(ctx, http.MethodGet, address, nil, nil, &set)
	switch {
	case restcall.HasStatus(err, http.StatusNotFound):
		return address, nil, nil
	case err != nil:
		return "", nil, fmt.Errorf("edgedns: failed to retrieve TXT record: %w", err)
	case len(set.Values) == 0:
		return "", nil, errors.New("edgedns: TXT record is invalid")
	}
	return address, &set, nil
}

// explain reads the problem documents of the API.
func explain(_ int, body []byte) restcall.Fault {
	var problem struct {
		Title  string `json:"title"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &problem) != nil {
		return restcall.Fault{}
	}
	return restcall.Fault{Code: problem.Title, Message: problem.Detail}
}
