package controllermanager

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/acme/solver/dns/acmedns"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/process/linklocal"
)

// An issuer cannot name a metadata service as its acme-dns server.
func TestProviderClientRefusesMetadata(t *testing.T) {
	env := provider.Env{HTTP: providerClient(), Now: time.Now, Secret: func(context.Context, string, string) ([]byte, error) {
		return []byte(`{"example.com":{"fulldomain":"a.example.net","subdomain":"a","username":"user","password":"password"}}`), nil
	}}
	for host, want := range map[string]string{
		"http://169.254.169.254":          "169.254.169.254 is a link-local or metadata address, which no issuer may use",
		"http://[::ffff:169.254.169.254]": "169.254.169.254 is a link-local or metadata address, which no issuer may use",
		"http://127.0.0.1:1":              "connection refused",
	} {
		p, err := acmedns.NewSlots().New(t.Context(), env, &acmev1.ACMEIssuerDNS01ProviderAcmeDNS{
			Host:          host,
			AccountSecret: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "accounts"}, Key: "json"},
		})
		if err != nil {
			t.Fatal(err)
		}
		err = p.Present(t.Context(), provider.Record{FQDN: "_acme-challenge.example.com.", Zone: "example.com.", Value: "v", Domain: "example.com"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", host, err, want)
		}
	}
}

// The client for providers of Issuers refuses loopback addresses, unless they are allowed.
func TestGuardedClient(t *testing.T) {
	if guardedClient(nil) != nil {
		t.Error("there is one though loopback addresses are allowed")
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	_, err = guardedClient(linklocal.RefuseLoopback("acme")).Do(request)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1 is a loopback address, which only ClusterIssuers may use") {
		t.Errorf("error %v", err)
	}
}

// Metadata services are asked without the proxy of the process.
func TestMetadataClientHasNoProxy(t *testing.T) {
	for _, url := range []string{"http://169.254.169.254/", "http://[fd00:ec2::23]/", "http://metadata.google.internal/"} {
		request, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("HTTP_PROXY", "http://proxy.example.com")
		if proxy, err := metadataClient().Transport.(*http.Transport).Proxy(request); proxy != nil || err != nil {
			t.Errorf("%s: proxy %v, error %v", url, proxy, err)
		}
	}
}
