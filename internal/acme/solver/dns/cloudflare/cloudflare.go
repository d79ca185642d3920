//lint:file-ignore ST1005 the texts of errors are those that users of cert-manager know

// Package cloudflare writes TXT records at Cloudflare.
package cloudflare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

const (
	apiURL = "https://api.cloudflare.com/client/v4"
	// ttl is the time to live of records, in seconds; the least that all plans
	// allow.
	ttl = 60
	// identicalRecord is the API's code for a record that exists already.
	identicalRecord = "81058"
)

// Provider writes records with the credentials of one solver. It adds and
// removes single records.
type Provider struct {
	api *restcall.Client
}

// New returns a provider for a solver. It reads the Secret of the solver.
func New(ctx context.Context, env provider.Env, spec *acmev1.ACMEIssuerDNS01ProviderCloudflare) (provider.Provider, error) {
	ref := spec.APIToken
	switch {
	case spec.APIKey != nil && spec.APIToken != nil:
		return nil, errors.New("API key and API token secret references are both present")
	case spec.APIKey != nil:
		ref = spec.APIKey
	case spec.APIToken == nil:
		return nil, instantiating(errors.New("no Cloudflare credential has been given (can be either an API key or an API token)"))
	}
	secret, err := env.Secret(ctx, ref.Name, ref.Key)
	if err != nil {
		return nil, fmt.Errorf("error getting cloudflare secret: %w", err)
	}
	header, err := credentials(spec, string(secret))
	if err != nil {
		return nil, instantiating(err)
	}
	return &Provider{api: restcall.New(restcall.Config{
		HTTP: env.HTTP, Now: env.Now, Explain: explain, Secrets: []string{string(secret)},
		Authorize: func(request *http.Request, _ []byte) error {
			for key, value := range header {
				request.Header.Set(key, value)
			}
			return nil
		},
	})}, nil
}

func instantiating(err error) error {
	return fmt.Errorf("error instantiating cloudflare challenge solver: %w", err)
}

// credentials returns the headers with the credentials.
func credentials(spec *acmev1.ACMEIssuerDNS01ProviderCloudflare, secret string) (map[string]string, error) {
	if secret == "" || (spec.APIKey != nil && spec.Email == "") {
		return nil, errors.New("no Cloudflare credential has been given (can be either an API key or an API token)")
	}
	kind, header := "token", map[string]string{"Authorization": "Bearer " + secret}
	if spec.APIKey != nil {
		kind, header = "key", map[string]string{"X-Auth-Email": spec.Email, "X-Auth-Key": secret}
		if err := restcall.CheckHeader(spec.Email); err != nil {
			return nil, fmt.Errorf("the Cloudflare email is invalid: %w", err)
		}
	}
	if restcall.CheckHeader(secret) != nil {
		return nil, fmt.Errorf("the Cloudflare API %s is invalid (does the API %s contain a newline?)", kind, kind)
	}
	return header, nil
}

type zone struct {
	ID string `json:"id"`
}

type record struct {
	ID      string `json:"id,omitempty"`
	Type    string `json:"type"`
	Name    string `json:"name"`
	Content string `json:"content"`
	TTL     int    `json:"ttl"`
}

// Present adds a record.
func (p *Provider) Present(ctx context.Context, r provider.Record) error {
	zoneID, found, err := p.find(ctx, r)
	if err != nil || len(found) > 0 {
		return err
	}
	added := record{Type: "TXT", Name: strings.TrimSuffix(r.FQDN, "."), Content: r.Value, TTL: ttl}
	err = p.call(ctx, http.MethodPost, restcall.Path("zones", zoneID, "dns_records"), added, &record{})
	if restcall.HasCode(err, identicalRecord) {
		return nil
	}
	return err
}

// CleanUp removes a record.
func (p *Provider) CleanUp(ctx context.Context, r provider.Record) error {
	zoneID, found, err := p.find(ctx, r)
	if err != nil {
		return err
	}
	for _, id := range found {
		err := p.call(ctx, http.MethodDelete, restcall.Path("zones", zoneID, "dns_records", id), nil, &record{})
		if err != nil && !restcall.HasStatus(err, http.StatusNotFound) {
			return err
		}
	}
	return nil
}

// find returns the zone, and the IDs of the records with the name and value.
func (p *Provider) find(ctx context.Context, r provider.Record) (zoneID string, found []string, err error) {
	zoneID, err = p.findZone(ctx, r.FQDN)
	if err != nil {
		return "", nil, err
	}
	name := strings.TrimSuffix(r.FQDN, ".")
	var records []record
	uri := restcall.Path("zones", zoneID, "dns_records") + "?per_page=100&type=TXT&name=" + url.QueryEscape(name)
	if err := p.call(ctx, http.MethodGet, uri, nil, &records); err != nil {
		return "", nil, err
	}
	for _, existing := range records {
		// The API returns contents with the quotes that they were stored with.
		if strings.EqualFold(existing.Name, name) && strings.Trim(existing.Content, `"`) == r.Value {
			found = append(found, existing.ID)
		}
	}
	return zoneID, found, nil
}

// findZone returns the ID of the nearest zone. An error ends the search: what a
// longer name would have given is unknown.
func (p *Provider) findZone(ctx context.Context, fqdn string) (string, error) {
	for name := strings.TrimSuffix(fqdn, "."); name != ""; _, name, _ = strings.Cut(name, ".") {
		if strings.HasPrefix(name, "*.") {
			continue
		}
		var zones []zone
		if err := p.call(ctx, http.MethodGet, "/zones?name="+url.QueryEscape(name), nil, &zones); err != nil {
			return "", fmt.Errorf("while attempting to find Zones for domain %s\n%w", fqdn, err)
		}
		if len(zones) > 0 && zones[0].ID != "" {
			return zones[0].ID, nil
		}
	}
	return "", fmt.Errorf("Found no Zones for domain %s (neither in the sub-domain nor in the SLD) please make sure your domain-entries in the config are correct and the API key is correctly setup with Zone.read rights.", fqdn)
}

// call makes a call and reads the result of the answer.
func (p *Provider) call(ctx context.Context, method, uri string, in, result any) error {
	var answer struct {
		answerErrors
		Success bool            `json:"success"`
		Result  json.RawMessage `json:"result"`
	}
	_, err := p.api.JSON(ctx, method, apiURL+uri, nil, in, &answer)
	switch {
	case err == nil && !answer.Success:
		err = errors.New(p.api.Clean(answer.text()))
	case err == nil && json.Unmarshal(answer.Result, result) != nil:
		err = errors.New("reading the answer: the result is not as expected")
	}
	if err == nil {
		return nil
	}
	return &callError{text: fmt.Sprintf("while querying the Cloudflare API for %s %q \n\t %s", method, uri, text(err)), err: err}
}

// callError has cert-manager's text, which its users know.
type callError struct {
	text string
	err  error
}

func (e *callError) Error() string { return e.text }
func (e *callError) Unwrap() error { return e.err }

// text returns the errors of the API alone where it gave any.
func text(err error) string {
	var refused *restcall.StatusError
	if errors.As(err, &refused) && refused.Message != "" {
		return refused.Message
	}
	return err.Error()
}

type apiError struct {
	Code    int        `json:"code"`
	Message string     `json:"message"`
	Chain   []apiError `json:"error_chain"`
}

type answerErrors struct {
	Errors []apiError `json:"errors"`
}

// text returns the errors as "Error: <code>: <message>", each with its chain.
func (a answerErrors) text() string {
	var b strings.Builder
	for _, e := range a.Errors {
		fmt.Fprintf(&b, " Error: %d: %s", e.Code, e.Message)
		for _, cause := range e.Chain {
			fmt.Fprintf(&b, "<- %d: %s", cause.Code, cause.Message)
		}
	}
	return b.String()
}

func explain(_ int, body []byte) restcall.Fault {
	var answer answerErrors
	if json.Unmarshal(body, &answer) != nil || len(answer.Errors) == 0 {
		return restcall.Fault{}
	}
	return restcall.Fault{Code: fmt.Sprint(answer.Errors[0].Code), Message: answer.text()}
}
