package acmeserver_test

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/crypto/acme"

	"github.com/certplane/certplane/internal/acme/acmeserver"
	"github.com/certplane/certplane/internal/apitest"
)

// library returns the ACME client of golang.org/x/crypto, with an account.
func (w *world) library() *acme.Client {
	w.t.Helper()
	c := w.client()
	client := &acme.Client{Key: c.key, HTTPClient: c.http, DirectoryURL: c.url("directory")}
	if _, err := client.Register(w.t.Context(), &acme.Account{Contact: []string{"mailto:ops@corp.example"}}, acme.AcceptTOS); err != nil {
		w.t.Fatal(err)
	}
	return client
}

func TestLibraryGetsACertificate(t *testing.T) {
	w := newWorld(t)
	w.controllers()
	registry := prometheus.NewRegistry()
	w.serve(w.fronts[0].external, func(cfg *acmeserver.Config) { cfg.Metrics = registry })
	client := w.library()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	order, err := client.AuthorizeOrder(ctx, acme.DomainIDs("a.corp.example", "b.corp.example"))
	if err != nil {
		t.Fatal(err)
	}
	for _, url := range order.AuthzURLs {
		authz, err := client.GetAuthorization(ctx, url)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := client.Accept(ctx, authz.Challenges[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := client.WaitAuthorization(ctx, url); err != nil {
			t.Fatal(err)
		}
	}
	if order, err = client.WaitOrder(ctx, order.URI); err != nil || order.Status != acme.StatusReady {
		t.Fatalf("the order is %v: %v", order, err)
	}
	key := apitest.NewKey(t)
	der, err := x509.CreateCertificateRequest(nil, &x509.CertificateRequest{DNSNames: []string{"a.corp.example", "b.corp.example"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	chain, _, err := client.CreateOrderCert(ctx, order.FinalizeURL, der, true)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(chain[0])
	if err != nil {
		t.Fatal(err)
	}
	if len(chain) != 2 { // clients refuse a chain that is only the certificate
		t.Errorf("the chain of a root's certificate has %d certificates", len(chain))
	}
	if err := leaf.VerifyHostname("b.corp.example"); err != nil {
		t.Error(err)
	}
	apitest.Eventually(t, "the order is counted", func() bool {
		return strings.Contains(exported(t, registry), `certplane_acme_orders{endpoint="`+w.endpoint.Name+`",state="valid"} 1`)
	})
	if err := client.RevokeCert(ctx, key, chain[0], acme.CRLReasonKeyCompromise); err != nil {
		t.Errorf("revoking with the certificate's key: %v", err)
	}
}

// exported returns the metrics as they are scraped.
func exported(t *testing.T, registry *prometheus.Registry) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return answer.Body.String()
}
