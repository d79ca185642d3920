//lint:file-ignore ST1005 the texts of errors are those that users of cert-manager know

// Package clouddns writes TXT records at Google Cloud DNS.
package clouddns

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

	"github.com/certplane/certplane/internal/acme/solver/dns/ambient"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

const (
	apiURL = "https://dns.googleapis.com/dns/v1"
	// ttl is the time to live of new records, in seconds.
	ttl = 60
)

// Provider writes records with the credentials of one solver. It replaces whole record
// sets: a change names the set that it replaces, and the API refuses it if the set has
// changed since.
//
// It does not wait until a change has reached all servers of Cloud DNS: the self check
// does that.
type Provider struct {
	api *restcall.Client
	// url is the URL of the managed zones.
	url string
	// zone is the name of the managed zone; empty: looked up by its domain.
	zone string
}

// New returns a provider for a solver. It reads the Secret of the solver.
func New(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderCloudDNS) (provider.Provider, error) {
	return newProvider(ctx, env, spec, ambient.Process(), defaultEndpoints())
}

func newProvider(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderCloudDNS, host ambient.Host, endpoints endpoints) (provider.Provider, error) {
	var key []byte
	if ref := spec.ServiceAccount; ref != nil {
		var err error
		if key, err = env.Secret(ctx, ref.Name, ref.Key); err != nil {
			return nil, fmt.Errorf("error getting clouddns service account: %w", err)
		}
	}
	if spec.Project == "" {
		return nil, instantiating(errors.New("Google Cloud project name missing"))
	}
	source := source{env: env, host: host, endpoints: endpoints}
	fetch, err := source.choose(spec.ServiceAccount != nil, key)
	if err != nil {
		return nil, instantiating(err)
	}
	return &Provider{
		api:  restcall.New(restcall.Config{HTTP: env.HTTP, Now: env.Now, Explain: explain, Authorize: restcall.NewBearer(fetch, env.Now).Authorize}),
		url:  apiURL + restcall.Path("projects", spec.Project, "managedZones"),
		zone: spec.HostedZoneName,
	}, nil
}

func instantiating(err error) error {
	return fmt.Errorf("error instantiating google clouddns challenge solver: %w", err)
}

// choose returns where tokens come from: the key of the solver, or the process.
func (s source) choose(hasKey bool, key []byte) (fetch, error) {
	if !hasKey && !s.env.Ambient {
		return nil, errors.New("unable to construct clouddns provider: empty credentials; perhaps you meant to enable ambient credentials?")
	}
	choose := s.ambient
	if hasKey {
		choose = func() (fetch, error) { return s.fromKey(key) }
	}
	fetch, err := choose()
	if err != nil {
		return nil, fmt.Errorf("Unable to acquire config: %w", err)
	}
	return fetch, nil
}

type recordSet struct {
	Name    string   `json:"name"`
	Type    string   `json:"type"`
	TTL     int      `json:"ttl"`
	Values  []string `json:"rrdatas"`
	Routing any      `json:"routingPolicy,omitempty"`
}

// without returns the values that are not value, which the API has in quotes.
func (s recordSet) without(value string) []string {
	return slices.DeleteFunc(slices.Clone(s.Values), func(v string) bool { return strings.Trim(v, `"`) == value })
}

func (s recordSet) has(value string) bool { return len(s.without(value)) < len(s.Values) }

// existing is a record set with its exact text: a change has to repeat it.
type existing struct {
	recordSet
	raw json.RawMessage
}

// Present adds a value to the record set.
func (p *Provider) Present(ctx context.Context, r provider.Record) error {
	zone, set, err := p.find(ctx, r)
	if err != nil || set != nil && set.has(r.Value) {
		return err
	}
	added := recordSet{Name: r.FQDN, Type: "TXT", TTL: ttl, Values: []string{`"` + r.Value + `"`}}
	if set != nil {
		added.Values = append(slices.Clone(set.Values), added.Values...)
	}
	return p.replace(ctx, zone, set, &added)
}

// CleanUp removes a value from the record set.
func (p *Provider) CleanUp(ctx context.Context, r provider.Record) error {
	zone, set, err := p.find(ctx, r)
	if err != nil || set == nil || !set.has(r.Value) {
		return err
	}
	left := set.recordSet
	left.Values = set.without(r.Value)
	if len(left.Values) == 0 {
		return p.replace(ctx, zone, set, nil)
	}
	return p.replace(ctx, zone, set, &left)
}

// find returns the name of the zone, and the record set or nil.
func (p *Provider) find(ctx context.Context, r provider.Record) (string, *existing, error) {
	zone, err := p.findZone(ctx, r.Zone)
	if err != nil {
		return "", nil, err
	}
	var answer struct {
		Sets []json.RawMessage `json:"rrsets"`
	}
	query := url.Values{"name": {r.FQDN}, "type": {"TXT"}}
	if err := p.call(ctx, http.MethodGet, restcall.Path(zone, "rrsets")+"?"+query.Encode(), nil, &answer); err != nil {
		return "", nil, err
	}
	for _, raw := range answer.Sets {
		set := existing{raw: raw}
		if json.Unmarshal(raw, &set.recordSet) != nil {
			return "", nil, errors.New("reading the answer of Cloud DNS: a record set is not as expected")
		}
		if set.Type != "TXT" || !strings.EqualFold(set.Name, r.FQDN) {
			continue
		}
		if set.Routing != nil {
			return "", nil, fmt.Errorf("the TXT record set %s has a routing policy: no value can be added", r.FQDN)
		}
		return zone, &set, nil
	}
	return zone, nil, nil
}

// findZone returns the name of the managed zone with a domain. A public one is
// preferred.
func (p *Provider) findZone(ctx context.Context, domain string) (string, error) {
	if p.zone != "" {
		return p.zone, nil
	}
	var answer struct {
		Zones []struct {
			Name       string `json:"name"`
			Visibility string `json:"visibility"`
		} `json:"managedZones"`
	}
	if err := p.call(ctx, http.MethodGet, "?dnsName="+url.QueryEscape(domain), nil, &answer); err != nil {
		return "", err
	}
	for _, zone := range answer.Zones {
		if zone.Visibility == "public" {
			return zone.Name, nil
		}
	}
	if len(answer.Zones) == 0 {
		return "", fmt.Errorf("No matching GoogleCloud domain found for domain %s", domain)
	}
	return answer.Zones[0].Name, nil
}

// replace changes a record set in one step. Either set can be nil.
func (p *Provider) replace(ctx context.Context, zone string, old *existing, changed *recordSet) error {
	change := struct {
		Deletions []json.RawMessage `json:"deletions,omitempty"`
		Additions []*recordSet      `json:"additions,omitempty"`
	}{}
	if old != nil {
		change.Deletions = []json.RawMessage{old.raw}
	}
	if changed != nil {
		change.Additions = []*recordSet{changed}
	}
	err := p.call(ctx, http.MethodPost, restcall.Path(zone, "changes"), change, &struct{}{})
	// 404 is about the deletion: the zone was found a moment ago.
	if restcall.HasStatus(err, http.StatusConflict, http.StatusPreconditionFailed, http.StatusNotFound) {
		return &provider.TemporaryError{Err: fmt.Errorf("the record set was changed by another writer at the same time: %w", err)}
	}
	return err
}

func (p *Provider) call(ctx context.Context, method, path string, in, out any) error {
	if _, err := p.api.JSON(ctx, method, p.url+path, nil, in, out); err != nil {
		return fmt.Errorf("GoogleCloud API call failed: %w", err)
	}
	return nil
}

// temporaryReasons are errors of too many calls, whose status is 403.
var temporaryReasons = []string{"rateLimitExceeded", "userRateLimitExceeded"}

func explain(_ int, body []byte) restcall.Fault {
	var answer struct {
		Error struct {
			Message string `json:"message"`
			Errors  []struct {
				Reason string `json:"reason"`
			} `json:"errors"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return restcall.Fault{}
	}
	fault := restcall.Fault{Message: answer.Error.Message}
	if len(answer.Error.Errors) > 0 {
		fault.Code = answer.Error.Errors[0].Reason
	}
	fault.Temporary = slices.Contains(temporaryReasons, fault.Code)
	return fault
}
