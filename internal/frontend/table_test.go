package frontend

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/frontend/admissionwebhook"
	"github.com/certplane/certplane/internal/rights"
)

func TestOpen(t *testing.T) {
	for _, tc := range []struct {
		reason string
		cfg    Config
		want   []string
	}{
		{"nothing", Config{}, nil},
		{"a cluster", Config{Metrics: MetricsConfig{BindAddress: "127.0.0.1:0"}, Webhook: &admissionwebhook.Server{}}, []string{"metrics", "webhook"}},
		{"an ACME server", Config{ACME: &listener.Server{}}, []string{"acme"}},
		{"a cluster without metrics", Config{Metrics: MetricsConfig{BindAddress: Off}, Webhook: &admissionwebhook.Server{}}, []string{"webhook"}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			var accounts, names []string
			as := func(account string) (*rest.Config, error) {
				accounts = append(accounts, account)
				return &rest.Config{}, nil
			}
			kinds, mapper := ownKinds(t)
			all, err := Open(Process{As: as, Own: &rest.Config{}, Scheme: kinds, Mapper: mapper, Now: time.Now, Metrics: prometheus.NewRegistry()}, tc.cfg)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range all {
				names = append(names, f.Name)
				if f.Serve == nil || (f.Ready != nil) != (f.Name == "webhook" || f.Name == "acme") {
					t.Errorf("%s: serves %t, has a probe %t", f.Name, f.Serve != nil, f.Ready != nil)
				}
			}
			if !slices.Equal(names, tc.want) {
				t.Errorf("opened %v, want %v", names, tc.want)
			}
			if tc.cfg.Webhook != nil && !slices.Equal(accounts, []string{rights.WebhookAccount}) {
				t.Errorf("the webhook acts as %v", accounts)
			}
			if tc.cfg.ACME != nil && (!slices.Equal(accounts, []string{rights.ACMEServerAccount}) || tc.cfg.ACME.Handler == nil) {
				t.Errorf("the ACME server acts as %v", accounts)
			}
		})
	}
}

// ownKinds returns our own kinds, as clients need them.
func ownKinds(t *testing.T) (*runtime.Scheme, func(*rest.Config, *http.Client) (meta.RESTMapper, error)) {
	t.Helper()
	kinds, mapper := runtime.NewScheme(), meta.NewDefaultRESTMapper(nil)
	if err := v1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	for kind := range kinds.KnownTypes(v1alpha1.GroupVersion) {
		mapper.Add(v1alpha1.GroupVersion.WithKind(kind), meta.RESTScopeRoot)
	}
	return kinds, func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return mapper, nil }
}

func TestOpenFails(t *testing.T) {
	missing := errors.New("no such account")
	as := func(string) (*rest.Config, error) { return nil, missing }
	_, err := Open(Process{As: as}, Config{Webhook: &admissionwebhook.Server{}})
	if !errors.Is(err, missing) || !strings.Contains(err.Error(), "webhook") {
		t.Errorf("error %v", err)
	}
}
