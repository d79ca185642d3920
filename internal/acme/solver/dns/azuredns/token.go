package azuredns

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/ambient"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/restcall"
)

const (
	// defaultMetadata is the URL of the instance metadata service.
	defaultMetadata = "http://169.254.169.254"
	// metadataTimeout is the maximum time of a call: the service is on the same host or
	// does not exist.
	metadataTimeout = 5 * time.Second
	assertionType   = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
)

// noAmbient is cert-manager's text, which its users know.
const noAmbient = "ClientID was omitted without providing one of `--cluster-issuer-ambient-credentials` or `--issuer-ambient-credentials`. These are necessary to enable Azure Managed Identities"

// source fetches tokens.
type source struct {
	env   provider.Env
	host  ambient.Host
	cloud cloud
	// metadata is the URL of the instance metadata service.
	metadata string
}

type fetch func(ctx context.Context) (restcall.Token, error)

// choose returns where tokens come from: the secret of a client, or the identity
// of the process.
func (s source) choose(spec *acmev1.ACMEIssuerDNS01ProviderAzureDNS, secret string) (fetch, error) {
	identity := acmev1.AzureManagedIdentity{}
	if spec.ManagedIdentity != nil {
		identity = *spec.ManagedIdentity
	}
	switch {
	case spec.ClientID != "" && (spec.TenantID == "" || secret == ""):
		return nil, errors.New("clientID needs tenantID and clientSecretSecretRef")
	case spec.ClientID != "":
		return s.fromSecret(spec, secret), nil
	case !s.env.Ambient:
		return nil, errors.New(noAmbient)
	case s.host.Getenv("AZURE_FEDERATED_TOKEN_FILE") != "":
		return s.fromWorkload(identity)
	}
	return s.fromInstance(identity), nil
}

func (s source) fromSecret(spec *acmev1.ACMEIssuerDNS01ProviderAzureDNS, secret string) fetch {
	return func(ctx context.Context) (restcall.Token, error) {
		return s.exchange(ctx, s.cloud.login, spec.TenantID, url.Values{"client_id": {spec.ClientID}, "client_secret": {secret}}, secret)
	}
}

// fromWorkload fetches tokens for the service account of the pod. The file is
// read each time: the kubelet replaces it.
func (s source) fromWorkload(identity acmev1.AzureManagedIdentity) (fetch, error) {
	client := cmp.Or(identity.ClientID, s.host.Getenv("AZURE_CLIENT_ID"))
	tenant := cmp.Or(identity.TenantID, s.host.Getenv("AZURE_TENANT_ID"))
	login := strings.TrimRight(cmp.Or(s.host.Getenv("AZURE_AUTHORITY_HOST"), s.cloud.login), "/") + "/"
	switch {
	case client == "" || tenant == "":
		return nil, errors.New("AZURE_FEDERATED_TOKEN_FILE is set, but AZURE_CLIENT_ID and AZURE_TENANT_ID are not, nor are these in managedIdentity")
	case !strings.HasPrefix(login, "https://"):
		return nil, errors.New("AZURE_AUTHORITY_HOST must begin with https://")
	}
	return func(ctx context.Context) (restcall.Token, error) {
		content, err := s.host.ReadFile(s.host.Getenv("AZURE_FEDERATED_TOKEN_FILE"))
		if err != nil {
			return restcall.Token{}, fmt.Errorf("reading AZURE_FEDERATED_TOKEN_FILE: %w", err)
		}
		assertion := strings.TrimSpace(string(content))
		return s.exchange(ctx, login, tenant, url.Values{
			"client_id": {client}, "client_assertion_type": {assertionType}, "client_assertion": {assertion},
		}, assertion)
	}, nil
}

// fromInstance fetches tokens for the managed identity of the machine.
func (s source) fromInstance(identity acmev1.AzureManagedIdentity) fetch {
	query := url.Values{"api-version": {"2018-02-01"}, "resource": {s.cloud.audience}}
	switch {
	case identity.ResourceID != "":
		query.Set("msi_res_id", identity.ResourceID)
	case identity.ClientID != "":
		query.Set("client_id", identity.ClientID)
	}
	return func(ctx context.Context) (restcall.Token, error) {
		api := restcall.New(restcall.Config{HTTP: s.env.Metadata, Now: s.env.Now, Timeout: metadataTimeout, Explain: explain})
		var answer tokenAnswer
		_, err := api.JSON(ctx, http.MethodGet, s.metadata+"/metadata/identity/oauth2/token?"+query.Encode(), http.Header{"Metadata": {"true"}}, nil, &answer)
		if err != nil {
			return restcall.Token{}, fmt.Errorf("failed to create the managed service identity token: %w", err)
		}
		return answer.token(), nil
	}
}

// tokenAnswer is an answer of Entra ID, or of the metadata service, which has
// its numbers in quotes.
type tokenAnswer struct {
	AccessToken string          `json:"access_token"`
	ExpiresIn   json.RawMessage `json:"expires_in"`
}

func (a tokenAnswer) token() restcall.Token {
	seconds, err := strconv.Atoi(strings.Trim(string(a.ExpiresIn), `"`))
	if err != nil {
		seconds = 0
	}
	return restcall.Token{Value: a.AccessToken, Lifetime: time.Duration(min(max(seconds, 0), 24*60*60)) * time.Second}
}

func (s source) exchange(ctx context.Context, login, tenant string, form url.Values, secret string) (restcall.Token, error) {
	form.Set("grant_type", "client_credentials")
	form.Set("scope", s.cloud.audience+"/.default")
	api := restcall.New(restcall.Config{HTTP: s.env.HTTP, Now: s.env.Now, Explain: explain, Secrets: []string{secret}})
	var answer tokenAnswer
	address := strings.TrimSuffix(login, "/") + restcall.Path(tenant, "oauth2", "v2.0", "token")
	if err := api.Form(ctx, address, form, &answer); err != nil {
		return restcall.Token{}, fmt.Errorf("getting a token of Entra ID: %w", err)
	}
	return answer.token(), nil
}

// explain reads the errors of the Resource Manager, and those of Entra ID.
func explain(_ int, body []byte) restcall.Fault {
	var answer struct {
		Error       json.RawMessage `json:"error"`
		Description string          `json:"error_description"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return restcall.Fault{}
	}
	var text string
	if json.Unmarshal(answer.Error, &text) == nil {
		return restcall.Fault{Code: text, Message: answer.Description}
	}
	var object struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(answer.Error, &object) != nil {
		return restcall.Fault{}
	}
	return restcall.Fault{Code: object.Code, Message: object.Message}
}
