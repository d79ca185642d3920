package azuredns

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme/solver/dns/ambient"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
)

type azureSpec = acmev1.ACMEIssuerDNS01ProviderAzureDNS

func spec(change func(*azureSpec)) *azureSpec {
	s := &azureSpec{
		SubscriptionID: "my-subscription", ResourceGroupName: "my-group", TenantID: "my-tenant", ClientID: "my-client",
		ClientSecret: &cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "azure"}, Key: "secret"},
	}
	change(s)
	return s
}

func TestConformance(t *testing.T) {
	tests := []struct {
		reason string
		kind   kind
		change func(*azureSpec)
	}{
		{reason: "public zone", kind: publicZones, change: func(*azureSpec) {}},
		{reason: "private zone that is named", kind: privateZones, change: func(s *azureSpec) { s.ZoneType, s.HostedZoneName = acmev1.PrivateAzureZone, "example.com" }},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			providertest.Run(t, providertest.Case{
				New: func(ctx context.Context, env provider.Env) (provider.Provider, error) {
					return New(ctx, env, spec(test.change))
				},
				API: func(valid *providertest.Secrets) providertest.API {
					return &standIn{t: t, kind: test.kind, metadata: map[string]any{"owner": "somebody"}, valid: func(client, secret string) bool {
						return client == "my-client" && secret == valid.Value("azure/secret")
					}}
				},
				Secrets:     map[string]string{"azure/secret": "first-secret"},
				Rotated:     map[string]string{"azure/secret": "other-secret"},
				Sensitive:   []string{tokenPrefix},
				Conditional: true,
				Refusal: func(status int, message string) string {
					body, _ := json.Marshal(map[string]any{"error": map[string]string{"code": "Refused", "message": message}})
					return string(body)
				},
			})
		})
	}
}

func TestErrors(t *testing.T) {
	const prefix = "error instantiating azuredns challenge solver: "
	tests := []struct {
		reason string
		change func(*azureSpec)
		want   string
	}{
		{reason: "a cloud that was closed", change: func(s *azureSpec) { s.Environment = acmev1.AzureGermanCloud }, want: prefix + "unknown cloud configuration name: AzureGermanCloud"},
		{reason: "no client", change: func(s *azureSpec) { s.ClientID = "" }, want: prefix + "ClientID was omitted without providing one of `--cluster-issuer-ambient-credentials` or `--issuer-ambient-credentials`. These are necessary to enable Azure Managed Identities"},
		{reason: "no reference", change: func(s *azureSpec) { s.ClientSecret = nil }, want: prefix + "clientID needs tenantID and clientSecretSecretRef"},
		{reason: "missing key", change: func(s *azureSpec) { s.ClientSecret.Key = "other" }, want: `error getting azuredns client secret: specified key "other" not found in secret ns/azure`},
		{reason: "another zone", change: func(*azureSpec) {}, want: "Zone example.org. not found in AzureDNS for domain _acme-challenge.example.org.. Err: HTTP status 404 Not Found: ParentResourceNotFound: The zone 'example.org' was not found."},
		{reason: "a zone without the name", change: func(s *azureSpec) { s.HostedZoneName = "example.com" }, want: "_acme-challenge.example.org. is not in the zone example.com"},
		{reason: "what Entra ID adds is removed", change: func(s *azureSpec) { s.ClientID = "another"; s.HostedZoneName = "example.org" },
			want: "reading the record set at Azure DNS: getting a token of Entra ID: HTTP status 401 Unauthorized: invalid_client: AADSTS7000215: Invalid client secret provided."},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			api := &standIn{t: t, kind: publicZones, valid: func(client, _ string) bool { return client == "my-client" }}
			env := providertest.Env(providertest.Client(t, api), providertest.NewSecrets(map[string]string{"azure/secret": "s3cr3t-value"}))
			p, err := New(t.Context(), env, spec(test.change))
			if err == nil {
				err = p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.example.org.", Zone: "example.org.", Value: "v"})
			}
			if err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

func TestAmbientCredentials(t *testing.T) {
	workload := map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "/token", "AZURE_CLIENT_ID": "pod-client", "AZURE_TENANT_ID": "my-tenant"}
	tests := []struct {
		reason   string
		identity *acmev1.AzureManagedIdentity
		env      map[string]string
		query    []string
		want     string
	}{
		{reason: "workload identity", env: workload},
		{reason: "workload identity of the solver", env: map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "/token", "AZURE_CLIENT_ID": "x", "AZURE_TENANT_ID": "y"},
			identity: &acmev1.AzureManagedIdentity{ClientID: "pod-client", TenantID: "my-tenant"}},
		{reason: "workload identity elsewhere", env: map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "/token", "AZURE_CLIENT_ID": "pod-client", "AZURE_TENANT_ID": "my-tenant", "AZURE_AUTHORITY_HOST": "https://login.example.net"}},
		{reason: "workload identity without a client", env: map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "/token"},
			want: "error instantiating azuredns challenge solver: AZURE_FEDERATED_TOKEN_FILE is set, but AZURE_CLIENT_ID and AZURE_TENANT_ID are not, nor are these in managedIdentity"},
		{reason: "workload identity without TLS", env: map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "/token", "AZURE_CLIENT_ID": "a", "AZURE_TENANT_ID": "b", "AZURE_AUTHORITY_HOST": "http://login.example.net"},
			want: "error instantiating azuredns challenge solver: AZURE_AUTHORITY_HOST must begin with https://"},
		{reason: "workload identity, the file is missing", env: map[string]string{"AZURE_FEDERATED_TOKEN_FILE": "/missing", "AZURE_CLIENT_ID": "a", "AZURE_TENANT_ID": "b"},
			want: "Zone example.com. not found in AzureDNS for domain _acme-challenge.example.com.. Err: reading AZURE_FEDERATED_TOKEN_FILE: no file"},
		{reason: "identity of the machine", query: []string{"api-version=2018-02-01&resource=https%3A%2F%2Fmanagement.core.windows.net%2F"}},
		{reason: "a client of the machine", identity: &acmev1.AzureManagedIdentity{ClientID: "c"}, query: []string{"api-version=2018-02-01&client_id=c&resource=https%3A%2F%2Fmanagement.core.windows.net%2F"}},
		{reason: "a resource of the machine", identity: &acmev1.AzureManagedIdentity{ResourceID: "/r"}, query: []string{"api-version=2018-02-01&msi_res_id=%2Fr&resource=https%3A%2F%2Fmanagement.core.windows.net%2F"}},
	}
	for _, test := range tests {
		t.Run(test.reason, func(t *testing.T) {
			api := &standIn{t: t, kind: publicZones, valid: func(client, secret string) bool { return client == "pod-client" && secret == federated }}
			env := providertest.Env(providertest.Client(t, api, "169.254.169.254"), providertest.NewSecrets(nil))
			env.Ambient = true
			host := ambient.Host{Getenv: func(name string) string { return test.env[name] }, ReadFile: func(path string) ([]byte, error) {
				if path == "/token" {
					return []byte(federated + "\n"), nil
				}
				return nil, errors.New("no file")
			}}
			s := spec(func(s *azureSpec) {
				s.ClientID, s.TenantID, s.ClientSecret, s.ManagedIdentity = "", "", nil, test.identity
			})
			p, err := newProvider(t.Context(), env, s, host, defaultMetadata)
			if err == nil {
				err = p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.example.com.", Zone: "example.com.", Value: "v"})
			}
			if got := fmt.Sprint(err); got != test.want && (test.want != "" || err != nil) {
				t.Errorf("error is %v, want %s", err, test.want)
			}
			if diff := cmp.Diff(test.query, api.queries); diff != "" {
				t.Errorf("queries of the metadata service (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRelativeName(t *testing.T) {
	tests := []struct{ fqdn, zone, want string }{
		{"_acme-challenge.www.example.com.", "example.com", "_acme-challenge.www"},
		{"_acme-challenge.Example.COM.", "example.com", "_acme-challenge"},
		{"example.com.", "example.com", "@"},
		{"_acme-challenge.notexample.com.", "example.com", ""},
		{"com.", "example.com", ""},
	}
	for _, test := range tests {
		if got, err := relativeName(test.fqdn, test.zone); got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s in %s: %q, %v", test.fqdn, test.zone, got, err)
		}
	}
}

func TestClouds(t *testing.T) {
	tests := []struct {
		name acmev1.AzureDNSEnvironment
		want string
	}{
		{"", "https://management.azure.com"}, {acmev1.AzurePublicCloud, "https://management.azure.com"},
		{acmev1.AzureChinaCloud, "https://management.chinacloudapi.cn"}, {acmev1.AzureUSGovernmentCloud, "https://management.usgovcloudapi.net"},
	}
	for _, test := range tests {
		if got, err := findCloud(test.name); got.management != test.want || err != nil {
			t.Errorf("%q: %s, %v", test.name, got.management, err)
		}
	}
}
