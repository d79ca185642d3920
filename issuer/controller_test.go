package issuer_test

import (
	"context"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/issuer"
)

// What cannot work is refused before anything starts, by its field.
func TestRunRefuses(t *testing.T) {
	never := func(context.Context, *issuer.Request) ([]byte, error) { return nil, nil }
	tests := []struct {
		reason string
		change func(*issuer.Controller)
		want   string
	}{
		{"no name", func(c *issuer.Controller) { c.Name = "" }, `Name: ""`},
		{"no name of a domain", func(c *issuer.Controller) { c.Name = "my/issuer" }, `Name: "my/issuer"`},
		{"too long a name", func(c *issuer.Controller) { c.Name = strings.Repeat("a", 64) }, "longer than 63"},
		{"no kinds", func(c *issuer.Controller) { c.Kinds = nil }, "Kinds: name at least one"},
		{"a kind that is nil", func(c *issuer.Controller) { c.Kinds = []issuer.Issuer{(*Remote)(nil)} }, "Kinds: entry 0 is nil"},
		{"no kind at all", func(c *issuer.Controller) { c.Kinds = []issuer.Issuer{nil} }, "Kinds: entry 0 is nil"},
		{"a kind twice", func(c *issuer.Controller) { c.Kinds = append(c.Kinds, &Remote{}) }, "the kind Remote is listed twice"},
		{"no check", func(c *issuer.Controller) { c.Check = nil }, "Check: missing"},
		{"nothing that signs", func(c *issuer.Controller) { c.Sign = nil }, "Sign: missing"},
		{"negative limit", func(c *issuer.Controller) { c.MaxDuration = -1 }, "MaxDuration"},
		{"negative time", func(c *issuer.Controller) { c.RetryFor = -1 }, "RetryFor"},
		{"kinds that nobody has registered", func(c *issuer.Controller) { c.AddToScheme = nil }, "Kinds: *issuer_test.Remote"},
		{"kinds of another group too", func(c *issuer.Controller) {
			c.Kinds = append(c.Kinds, &RemoteForAll{})
			c.AddToScheme = func(s *runtime.Scheme) error {
				s.AddKnownTypes(group, &Remote{})
				s.AddKnownTypes(schema.GroupVersion{Group: "other.example.com", Version: "v1"}, &RemoteForAll{})
				return nil
			}
		}, "make a controller for each"},
		{"kinds of cert-manager", func(c *issuer.Controller) {
			c.AddToScheme = func(s *runtime.Scheme) error {
				s.AddKnownTypes(schema.GroupVersion{Group: "cert-manager.io", Version: "v2"}, &Remote{})
				return nil
			}
		}, "contains built-in issuers"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			c := issuer.Controller{Name: controllerName, Kinds: []issuer.Issuer{&Remote{}}, AddToScheme: addToScheme, Check: always, Sign: never}
			tc.change(&c)
			// Nothing is dialled before a controller starts.
			options := ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}}
			err := issuer.Run(t.Context(), &rest.Config{Host: "http://127.0.0.1:1"}, c, options)
			if err == nil || !strings.Contains(err.Error(), "issuer.Controller: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

// A template has what was requested, within the limits of the CA.
func TestTemplate(t *testing.T) {
	c := newCA(t)
	key := apitest.NewKey(t)
	request := &issuer.Request{
		CSR: csrOf(t, "web", key), Duration: 1000 * 24 * time.Hour,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	template, err := request.Template(c.signing, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if !template.NotAfter.Equal(c.signing.NotAfter) || template.IsCA || template.KeyUsage != x509.KeyUsageDigitalSignature {
		t.Errorf("ends %v with a CA until %v; CA %v, usage %v", template.NotAfter, c.signing.NotAfter, template.IsCA, template.KeyUsage)
	}
	if _, err := request.Template(c.signing, c.signing.NotAfter.Add(time.Hour)); err == nil || !strings.Contains(err.Error(), "the CA") {
		t.Errorf("a CA that has expired: %v", err)
	}
}
