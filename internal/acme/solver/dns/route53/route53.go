// Package route53 writes TXT records at Amazon Route 53.
package route53

import (
	"cmp"
	"context"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/ambient"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
	"github.com/certplane/certplane/internal/process/sigv4"
)

const (
	// ttl is the time to live of records, in seconds.
	ttl       = 10
	comment   = "Managed by cert-manager"
	namespace = "https://route53.amazonaws.com/doc/2013-04-01/"
	// invalidChange is the API's code for a change of a record set that does not exist.
	invalidChange = "InvalidChangeBatch"
)

// Provider writes records with the credentials of one solver. Each value is a separate
// multivalue record set, which is added and removed alone.
//
// It does not wait until a change has reached all servers of Route 53: the self check does
// that.
type Provider struct {
	api    *restcall.Client
	url    string
	zoneID string // empty: looked up by name
}

// New returns a provider for a solver. It reads the Secrets of the solver, and
// assumes its role.
func New(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderRoute53) (provider.Provider, error) {
	return newProvider(ctx, env, spec, ambient.Process(), defaultMetadata())
}

func newProvider(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderRoute53, host ambient.Host, metadata metadata) (provider.Provider, error) {
	configured, err := readConfigured(ctx, env, spec)
	if err != nil {
		return nil, err
	}
	if err := configured.check(env.Ambient); err != nil {
		return nil, instantiating(err)
	}
	region := cmp.Or(host.Getenv("AWS_REGION"), host.Getenv("AWS_DEFAULT_REGION"))
	place, err := findPlace(spec, region, configured.usesAmbient())
	if err != nil {
		return nil, instantiating(err)
	}
	source := source{env: env, host: host, metadata: metadata, place: place}
	credentials, err := source.credentials(ctx, configured)
	if err != nil {
		return nil, instantiating(err)
	}
	return &Provider{
		api: newAPI(env, place, credentials), url: place.route53URL(), zoneID: strings.TrimPrefix(spec.HostedZoneID, "/hostedzone/"),
	}, nil
}

func instantiating(err error) error {
	return fmt.Errorf("error instantiating route53 challenge solver: %w", err)
}

func newAPI(env provider.Env, place place, c sigv4.Credentials) *restcall.Client {
	return restcall.New(restcall.Config{
		HTTP: env.HTTP, Now: env.Now, Explain: explain, Secrets: []string{c.KeyID, c.Secret, c.Session},
		Authorize: func(request *http.Request, body []byte) error {
			sigv4.Sign(request, body, c, place.home, "route53", env.Now())
			return nil
		},
	})
}

// Present adds a record.
func (p *Provider) Present(ctx context.Context, r provider.Record) error {
	return p.change(ctx, "UPSERT", r)
}

// CleanUp removes a record.
func (p *Provider) CleanUp(ctx context.Context, r provider.Record) error {
	err := p.change(ctx, "DELETE", r)
	if restcall.HasCode(err, invalidChange) {
		return nil
	}
	return err
}

type changeRequest struct {
	XMLName   xml.Name `xml:"ChangeResourceRecordSetsRequest"`
	Namespace string   `xml:"xmlns,attr"`
	Comment   string   `xml:"ChangeBatch>Comment"`
	Changes   []change `xml:"ChangeBatch>Changes>Change"`
}

type change struct {
	Action    string
	RecordSet recordSet `xml:"ResourceRecordSet"`
}

// recordSet lists its fields in the order of the API's schema.
type recordSet struct {
	Name             string
	Type             string
	SetIdentifier    string
	MultiValueAnswer bool
	TTL              int
	Values           []string `xml:"ResourceRecords>ResourceRecord>Value"`
}

func (p *Provider) change(ctx context.Context, action string, r provider.Record) error {
	zoneID, err := p.findZone(ctx, r)
	if err != nil {
		return fmt.Errorf("failed to determine Route 53 hosted zone ID: %w", err)
	}
	value := `"` + r.Value + `"`
	body, err := xml.Marshal(changeRequest{Namespace: namespace, Comment: comment, Changes: []change{{
		Action:    action,
		RecordSet: recordSet{Name: r.FQDN, Type: "TXT", SetIdentifier: value, MultiValueAnswer: true, TTL: ttl, Values: []string{value}},
	}}})
	if err != nil {
		return fmt.Errorf("encoding the change: %w", err)
	}
	var answer struct {
		XMLName xml.Name `xml:"ChangeResourceRecordSetsResponse"`
	}
	err = p.api.XML(ctx, restcall.Request{
		Method: http.MethodPost, URL: p.url + restcall.Path("hostedzone", zoneID, "rrset"), Body: body,
		Header: http.Header{"Content-Type": {"application/xml"}},
	}, &answer)
	if err != nil {
		return fmt.Errorf("failed to change Route 53 record set: %w", err)
	}
	return nil
}

type hostedZone struct {
	ID      string `xml:"Id"`
	Name    string
	Private bool `xml:"Config>PrivateZone"`
}

// findZone returns the ID of the public zone with the longest name that the
// record is in. The API lists zones from the record's zone on.
func (p *Provider) findZone(ctx context.Context, r provider.Record) (string, error) {
	if p.zoneID != "" {
		return p.zoneID, nil
	}
	var answer struct {
		XMLName xml.Name     `xml:"ListHostedZonesByNameResponse"`
		Zones   []hostedZone `xml:"HostedZones>HostedZone"`
	}
	query := url.Values{"dnsname": {strings.TrimSuffix(r.Zone, ".")}}
	err := p.api.XML(ctx, restcall.Request{Method: http.MethodGet, URL: p.url + "/hostedzonesbyname?" + query.Encode()}, &answer)
	if err != nil {
		return "", err
	}
	best := hostedZone{}
	for _, zone := range answer.Zones {
		if !zone.Private && inZone(r.FQDN, zone.Name) && len(zone.Name) > len(best.Name) {
			best = zone
		}
	}
	if best.ID == "" {
		return "", fmt.Errorf("zone %s not found in Route 53 for domain %s", r.Zone, r.FQDN)
	}
	return strings.TrimPrefix(best.ID, "/hostedzone/"), nil
}

func inZone(fqdn, zone string) bool {
	fqdn, zone = strings.ToLower(fqdn), strings.ToLower(zone)
	return zone != "" && (fqdn == zone || strings.HasSuffix(fqdn, "."+zone))
}
