package dns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/dns"
	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
	"github.com/certplane/certplane/internal/acme/solver/dns/rfc2136"
	"github.com/certplane/certplane/internal/acme/solver/dns/webhook"
)

const (
	challengeName = "_acme-challenge.example.com."
	soa           = " 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60"
	account       = "https://ca.example/acct/1"
)

// world has the authoritative servers of example.com and other.test, and a
// recursive server that knows both.
type world struct {
	// refuse and guarded are those of dns.Config.
	refuse        func(netip.Addr) error
	guarded       *http.Client
	recursive     *dnstest.Server
	authoritative []*dnstest.Server
	settings      dns.Settings
	secrets       client.Client
	rows          []dns.Row
	calls         chan webhook.Request // of the webhook
}

// newWorld starts two authoritative servers. more are records of the recursive
// server.
func newWorld(t *testing.T, more ...string) *world {
	t.Helper()
	w := &world{settings: dns.DefaultSettings(), rows: []dns.Row{dns.NewRow("rfc2136", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderRFC2136 { return s.RFC2136 }, rfc2136.New)}, calls: make(chan webhook.Request, 10)}
	zones := []string{"example.com." + soa, "other.test." + soa}
	port := "0"
	for i := range 2 {
		server := dnstest.Start(t, dnstest.Options{IP: fmt.Sprintf("127.0.0.%d", i+2), Port: port, Authoritative: true}, zones...)
		w.authoritative, port = append(w.authoritative, server), server.Port
	}
	w.recursive = dnstest.Start(t, dnstest.Options{}, slices.Concat(zones, more, []string{
		"example.com. 300 IN NS ns1.example.com.", "example.com. 300 IN NS ns2.example.com.",
		"other.test. 300 IN NS ns1.example.com.", "other.test. 300 IN NS ns2.example.com.",
		"ns1.example.com. 300 IN A 127.0.0.2", "ns2.example.com. 300 IN A 127.0.0.3",
	})...)
	w.secrets = fake.NewClientBuilder().Build()
	return w
}

func (w *world) port() string { return w.authoritative[0].Port }

// solver returns a new Solver, as after a restart.
func (w *world) solver(t *testing.T) *dns.Solver {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Now())
	return dns.New(dns.Config{
		Settings: w.settings,
		Resolver: resolver.New(resolver.Config{Nameservers: []string{w.recursive.Addr}, Port: w.port(), Timeout: 200 * time.Millisecond, Clock: clock}),
		Client:   w.secrets, HTTP: http.DefaultClient, Providers: w.rows, Webhooks: w.webhooks(t), ClusterAmbient: true, Clock: clock,
		RefuseAddress: w.refuse, GuardedHTTP: w.guarded,
	})
}

// webhooks calls an API server that has one webhook, which is always content.
func (w *world) webhooks(t *testing.T) *webhook.Caller {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		var payload struct{ Request webhook.Request }
		if err := json.NewDecoder(in.Body).Decode(&payload); err != nil {
			t.Error(err)
		}
		w.calls <- payload.Request
		fmt.Fprint(out, `{"response":{"success":true}}`)
	}))
	t.Cleanup(server.Close)
	c, err := webhook.New(webhook.Config{API: &rest.Config{Host: server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// copyFirst copies the records of a name from the first authoritative server,
// which takes updates, to the second.
func (w *world) copyFirst(t *testing.T, zone, name string) {
	t.Helper()
	records := []string{zone + soa}
	for _, value := range w.authoritative[0].TXT(name) {
		records = append(records, fmt.Sprintf("%s 60 IN TXT %q", name, value))
	}
	w.authoritative[1].Set(t, records...)
}

// newTask is a challenge for example.com that is solved by dynamic updates at the
// first authoritative server.
func (w *world) newTask(change func(*acmev1.Challenge)) solver.Task {
	challenge := &acmev1.Challenge{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "u1"},
		Spec: acmev1.ChallengeSpec{
			Type: acmev1.ACMEChallengeTypeDNS01, DNSName: "example.com", Key: "value-1",
			IssuerRef: cmmeta.IssuerReference{Name: "i"},
			Solver:    acmev1.ACMEChallengeSolver{DNS01: &dns.Spec{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{Nameserver: w.authoritative[0].Addr}}},
		},
	}
	if change != nil {
		change(challenge)
	}
	issuer := &cmv1.Issuer{Status: cmv1.IssuerStatus{ACME: &acmev1.ACMEIssuerStatus{URI: account}}}
	return solver.Task{Challenge: challenge, Issuer: issuer, Secrets: "ns", Now: time.Unix(1e9, 0)}
}

// prepared returns the task with the note of Prepare.
func prepared(t *testing.T, s solver.Solver, task solver.Task) solver.Task {
	t.Helper()
	var err error
	if task.Where, err = s.Prepare(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	return task
}

func present(t *testing.T, s solver.Solver, task solver.Task) solver.Task {
	t.Helper()
	task = prepared(t, s, task)
	if err := s.Present(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	return task
}

func assertError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
		t.Errorf("error  %v\nwanted %s", err, want)
	}
}

// follows sets cnameStrategy: Follow.
func follows(c *acmev1.Challenge) { c.Spec.Solver.DNS01.CNAMEStrategy = acmev1.FollowStrategy }

// recorded is a provider that does nothing and shows its Env.
type recorded struct{ env provider.Env }

func (recorded) Present(context.Context, provider.Record) error { return nil }
func (recorded) CleanUp(context.Context, provider.Record) error { return nil }

// watchEnv replaces the provider cloudflare by one that shows what it was opened
// with.
func (w *world) watchEnv(use func(ctx context.Context, env provider.Env) error) {
	w.rows = append(w.rows, dns.NewRow("cloudflare", func(s *dns.Spec) *acmev1.ACMEIssuerDNS01ProviderCloudflare { return s.Cloudflare },
		func(ctx context.Context, env provider.Env, _ *acmev1.ACMEIssuerDNS01ProviderCloudflare) (provider.Provider, error) {
			return recorded{env}, use(ctx, env)
		}))
}

func byCloudflare(c *acmev1.Challenge) {
	c.Spec.Solver.DNS01 = &dns.Spec{Cloudflare: &acmev1.ACMEIssuerDNS01ProviderCloudflare{}}
}

// tokens answers TokenRequests.
func tokens(issue func(account *corev1.ServiceAccount, request *authenticationv1.TokenRequest) error) client.Client {
	return fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, sub string, on, object client.Object, _ ...client.SubResourceCreateOption) error {
			if sub != "token" {
				return fmt.Errorf("subresource %s", sub)
			}
			return issue(on.(*corev1.ServiceAccount), object.(*authenticationv1.TokenRequest))
		},
	}).Build()
}
