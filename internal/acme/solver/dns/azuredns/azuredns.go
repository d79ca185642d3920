//lint:file-ignore ST1005 the texts of errors are those that users of cert-manager know

// Package azuredns writes TXT records at Azure DNS.
package azuredns

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/ambient"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

// ttl is the time to live of new records, in seconds.
const ttl = 60

// kind is a kind of zones: its name in URLs, its version of the API, and the
// names of fields.
type kind struct {
	zones, version, ttl, records string
}

var (
	publicZones  = kind{zones: "dnsZones", version: "2018-05-01", ttl: "TTL", records: "TXTRecords"}
	privateZones = kind{zones: "privateDnsZones", version: "2020-06-01", ttl: "ttl", records: "txtRecords"}
)

// Provider writes records with the credentials of one solver. It replaces whole record
// sets: a change names the ETag of the set that it replaces, and the API refuses it if the
// set has changed since.
type Provider struct {
	api  *restcall.Client
	kind kind
	// url is the URL of the zones.
	url string
	// zone is the zone with all records, without a final dot; empty: the zone of
	// the record.
	zone string
}

// New returns a provider for a solver. It reads the Secret of the solver.
func New(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderAzureDNS) (provider.Provider, error) {
	return newProvider(ctx, env, spec, ambient.Process(), defaultMetadata)
}

func newProvider(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderAzureDNS, host ambient.Host, metadata string) (provider.Provider, error) {
	secret := ""
	if ref := spec.ClientSecret; spec.ClientID != "" && ref != nil {
		content, err := env.Secret(ctx, ref.Name, ref.Key)
		if err != nil {
			return nil, fmt.Errorf("error getting azuredns client secret: %w", err)
		}
		secret = strings.TrimRight(string(content), "\r\n")
	}
	cloud, err := findCloud(spec.Environment)
	if err != nil {
		return nil, instantiating(err)
	}
	fetch, err := source{env: env, host: host, cloud: cloud, metadata: metadata}.choose(spec, secret)
	if err != nil {
		return nil, instantiating(err)
	}
	kind := publicZones
	if spec.ZoneType == acmev1.PrivateAzureZone {
		kind = privateZones
	}
	return &Provider{
		api:  restcall.New(restcall.Config{HTTP: env.HTTP, Now: env.Now, Explain: explain, Authorize: restcall.NewBearer(fetch, env.Now).Authorize}),
		kind: kind,
		url:  cloud.management + restcall.Path("subscriptions", spec.SubscriptionID, "resourceGroups", spec.ResourceGroupName, "providers", "Microsoft.Network", kind.zones),
		zone: strings.TrimSuffix(spec.HostedZoneName, "."),
	}, nil
}

func instantiating(err error) error {
	return fmt.Errorf("error instantiating azuredns challenge solver: %w", err)
}

// recordSet is a record set as the API returns it.
type recordSet struct {
	ETag       string `json:"etag"`
	Properties struct {
		TTL      int               `json:"ttl"`
		Metadata map[string]string `json:"metadata"`
		Records  []txtRecord       `json:"txtRecords"`
	} `json:"properties"`
}

// txtRecord holds a value in parts of at most 255 bytes.
type txtRecord struct {
	Value []string `json:"value"`
}

func (r txtRecord) is(value string) bool { return strings.Join(r.Value, "") == value }

// Present adds a value to the record set.
func (p *Provider) Present(ctx context.Context, r provider.Record) error {
	address, set, err := p.find(ctx, r)
	if err != nil || slices.ContainsFunc(set.Properties.Records, func(t txtRecord) bool { return t.is(r.Value) }) {
		return err
	}
	set.Properties.Records = append(set.Properties.Records, txtRecord{Value: []string{r.Value}})
	return p.put(ctx, address, set)
}

// CleanUp removes a value from the record set.
func (p *Provider) CleanUp(ctx context.Context, r provider.Record) error {
	address, set, err := p.find(ctx, r)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(set.Properties.Records), func(t txtRecord) bool { return t.is(r.Value) })
	switch {
	case len(left) == len(set.Properties.Records):
		return nil
	case len(left) == 0:
		return p.remove(ctx, address, set)
	}
	set.Properties.Records = left
	return p.put(ctx, address, set)
}

// find returns the URL of the record set, and the set. A set that does not exist
// has no ETag.
func (p *Provider) find(ctx context.Context, r provider.Record) (string, recordSet, error) {
	zone, err := p.findZone(ctx, r)
	if err != nil {
		return "", recordSet{}, err
	}
	name, err := relativeName(r.FQDN, zone)
	if err != nil {
		return "", recordSet{}, err
	}
	address := p.address(zone, "TXT", name)
	var set recordSet
	_, err = p.api.JSON(ctx, http.MethodGet, address, nil, nil, &set)
	switch {
	case restcall.HasStatus(err, http.StatusNotFound):
		set = recordSet{}
		set.Properties.TTL = ttl
		return address, set, nil
	case err != nil:
		return "", recordSet{}, fmt.Errorf("reading the record set at Azure DNS: %w", err)
	case set.ETag == "":
		return "", recordSet{}, errors.New("reading the record set at Azure DNS: the answer has no ETag")
	}
	return address, set, nil
}

func (p *Provider) address(segments ...string) string {
	return p.url + restcall.Path(segments...) + "?api-version=" + p.kind.version
}

// findZone returns the zone without its final dot. A zone that follows from the
// record must exist.
func (p *Provider) findZone(ctx context.Context, r provider.Record) (string, error) {
	if p.zone != "" {
		return p.zone, nil
	}
	zone := strings.TrimSuffix(r.Zone, ".")
	if _, err := p.api.JSON(ctx, http.MethodGet, p.address(zone), nil, nil, &struct{}{}); err != nil {
		return "", fmt.Errorf("Zone %s not found in AzureDNS for domain %s. Err: %w", r.Zone, r.FQDN, err)
	}
	return zone, nil
}

// relativeName returns the name of a record in its zone.
func relativeName(fqdn, zone string) (string, error) {
	name := strings.TrimSuffix(fqdn, ".")
	if strings.EqualFold(name, zone) {
		return "@", nil
	}
	end := len(name) - len(zone) - 1
	if end < 1 || !strings.EqualFold(name[end:], "."+zone) {
		return "", fmt.Errorf("%s is not in the zone %s", fqdn, zone)
	}
	return name[:end], nil
}

func (p *Provider) put(ctx context.Context, address string, set recordSet) error {
	condition := http.Header{"If-Match": {set.ETag}}
	if set.ETag == "" {
		condition = http.Header{"If-None-Match": {"*"}}
	}
	properties := map[string]any{p.kind.ttl: set.Properties.TTL, p.kind.records: set.Properties.Records}
	if len(set.Properties.Metadata) > 0 {
		properties["metadata"] = set.Properties.Metadata
	}
	_, err := p.api.JSON(ctx, http.MethodPut, address, condition, map[string]any{"properties": properties}, &recordSet{})
	return written(err)
}

func (p *Provider) remove(ctx context.Context, address string, set recordSet) error {
	_, err := p.api.JSON(ctx, http.MethodDelete, address, http.Header{"If-Match": {set.ETag}}, nil, nil)
	if restcall.HasStatus(err, http.StatusNotFound) {
		return nil
	}
	return written(err)
}

// written returns the error of a change.
func written(err error) error {
	switch {
	case err == nil:
		return nil
	case restcall.HasStatus(err, http.StatusPreconditionFailed):
		return &provider.TemporaryError{Err: fmt.Errorf("the record set was changed by another writer at the same time: %w", err)}
	}
	return fmt.Errorf("changing the record set at Azure DNS: %w", err)
}
