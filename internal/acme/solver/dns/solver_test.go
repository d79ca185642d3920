package dns_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	miekg "github.com/miekg/dns"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/dns"
	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/providers"
	"github.com/certplane/certplane/internal/acme/solver/dns/providertest"
	"github.com/certplane/certplane/internal/acme/solver/dns/webhook"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/process/linklocal"
)

// TestLife: a record is written, seen once all servers have it, and removed.
func TestLife(t *testing.T) {
	w := newWorld(t)
	s := w.solver(t)
	task := present(t, s, w.newTask(nil))
	if want := `{"provider":"rfc2136","fqdn":"_acme-challenge.example.com.","zone":"example.com."}`; task.Where != want {
		t.Errorf("note %s, want %s", task.Where, want)
	}
	_, err := s.Check(t.Context(), task)
	assertError(t, err, `DNS record for "example.com" not yet propagated: missing at ns2.example.com.:`+w.port())
	w.copyFirst(t, "example.com.", challengeName)
	found, err := s.Check(t.Context(), task)
	if diff := cmp.Diff(solver.Found{Delay: 10 * time.Second}, found); diff != "" || err != nil {
		t.Errorf("found (-want +got):\n%serror %v", diff, err)
	}
	for range 2 {
		if err := w.solver(t).CleanUp(t.Context(), task); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.authoritative[0].TXT(challengeName); got != nil {
		t.Errorf("values %q are left", got)
	}
}

// TestApexAndWildcard: two challenges share a name, in both orders.
func TestApexAndWildcard(t *testing.T) {
	apex := func(*acmev1.Challenge) {}
	wildcard := func(c *acmev1.Challenge) { c.Spec.Wildcard, c.Spec.Key = true, "value-2" }
	for _, order := range [][]func(*acmev1.Challenge){{apex, wildcard}, {wildcard, apex}} {
		w := newWorld(t)
		s := w.solver(t)
		first, second := present(t, s, w.newTask(order[0])), present(t, s, w.newTask(order[1]))
		if diff := cmp.Diff([]string{"value-1", "value-2"}, w.authoritative[0].TXT(challengeName)); diff != "" {
			t.Errorf("values (-want +got):\n%s", diff)
		}
		if err := s.CleanUp(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{second.Challenge.Spec.Key}, w.authoritative[0].TXT(challengeName)); diff != "" {
			t.Errorf("values (-want +got):\n%s", diff)
		}
	}
}

// TestFollow: the record is written where the CNAME leads to, and removed there
// even if the CNAME has changed since.
func TestFollow(t *testing.T) {
	const target = "example.other.test."
	w := newWorld(t, challengeName+" 60 IN CNAME "+target)
	s := w.solver(t)
	task := present(t, s, w.newTask(follows))
	if want := `{"provider":"rfc2136","fqdn":"example.other.test.","zone":"other.test."}`; task.Where != want {
		t.Errorf("note %s, want %s", task.Where, want)
	}
	w.copyFirst(t, "other.test.", target)
	if _, err := s.Check(t.Context(), task); err != nil {
		t.Error(err)
	}
	w.recursive.Set(t, "example.com."+soa)
	if err := w.solver(t).CleanUp(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if got := w.authoritative[0].TXT(target); got != nil {
		t.Errorf("values %q are left", got)
	}
}

func TestWildcardCNAME(t *testing.T) {
	w := newWorld(t, "*.example.com. 60 IN CNAME example.other.test.")
	s := w.solver(t)
	task := present(t, s, w.newTask(follows))
	if !strings.Contains(task.Where, `"wildcard":true`) {
		t.Errorf("note %s", task.Where)
	}
	w.copyFirst(t, "other.test.", "example.other.test.")
	found, err := s.Check(t.Context(), task)
	if want := "a wildcard CNAME record led"; err != nil || !strings.Contains(found.Note, want) {
		t.Errorf("note %q, error %v", found.Note, err)
	}
	// With None, the record hides the wildcard. Name servers that remember what
	// was there before do not hinder us.
	task = present(t, s, w.newTask(nil))
	w.copyFirst(t, "example.com.", challengeName)
	if found, err := s.Check(t.Context(), task); err != nil || found.Note != "" {
		t.Errorf("note %q, error %v", found.Note, err)
	}
}

// TestAstray: the CA looks elsewhere than the record was written.
func TestAstray(t *testing.T) {
	w := newWorld(t, challengeName+" 60 IN CNAME example.other.test.")
	s := w.solver(t)
	task := prepared(t, s, w.newTask(nil))
	_, err := s.Check(t.Context(), task)
	assertError(t, err, `DNS record for "example.com" not yet propagated: the CA looks at example.other.test., to which the CNAME record of `+
		`_acme-challenge.example.com. leads, but the record was written at _acme-challenge.example.com.; cnameStrategy: Follow writes it where the CA looks; missing at `)
	task = prepared(t, s, w.newTask(follows))
	w2 := newWorld(t)
	_, err = w2.solver(t).Check(t.Context(), task)
	assertError(t, err, `DNS record for "example.com" not yet propagated: the CA looks at _acme-challenge.example.com., but the record was written at example.other.test., to which a CNAME record led; missing at `)
}

func TestServersOutOfService(t *testing.T) {
	for reason, fault := range map[string]dnstest.Fault{
		"REFUSED": dnstest.Rcode(miekg.RcodeRefused), "SERVFAIL": dnstest.Rcode(miekg.RcodeServerFailure), "silent": dnstest.Silent,
	} {
		t.Run(reason, func(t *testing.T) {
			w := newWorld(t)
			s := w.solver(t)
			task := present(t, s, w.newTask(nil))
			w.authoritative[1].Break("", miekg.TypeNone, fault)
			found, err := s.Check(t.Context(), task)
			if err != nil || !strings.HasPrefix(found.Note, "1 of 2 servers have the record; ") {
				t.Errorf("note %q, error %v", found.Note, err)
			}
			w.authoritative[0].Break("", miekg.TypeNone, fault)
			_, err = s.Check(t.Context(), task)
			assertError(t, err, `DNS record for "example.com" not yet propagated: 0 of 2 servers have it; `)
		})
	}
}

// TestSplitHorizon: where the authoritative servers are others than the world
// sees, the recursive ones are asked.
func TestSplitHorizon(t *testing.T) {
	w := newWorld(t, challengeName+` 60 IN TXT "value-1"`)
	w.settings.RecursiveNameserversOnly = true
	found, err := w.solver(t).Check(t.Context(), w.newTask(nil))
	if diff := cmp.Diff(solver.Found{Delay: time.Minute}, found); diff != "" || err != nil {
		t.Errorf("found (-want +got):\n%serror %v", diff, err)
	}
	w.settings.PropagationDelay = &metav1.Duration{}
	if found, err = w.solver(t).Check(t.Context(), w.newTask(nil)); err != nil || found.Delay != 0 {
		t.Errorf("found %v, error %v", found, err)
	}
	_, err = w.solver(t).Check(t.Context(), w.newTask(func(c *acmev1.Challenge) { c.Spec.Key = "other" }))
	assertError(t, err, `DNS record for "example.com" not yet propagated: missing at `+w.recursive.Addr)
}

func TestPrepareErrors(t *testing.T) {
	reserved := func(kind acmev1.ACMEChallengeType, name string, config string) func(*acmev1.Challenge) {
		return func(c *acmev1.Challenge) {
			c.Spec.Type = kind
			c.Spec.Solver.DNS01 = &dns.Spec{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: "acme.certplane.dev", SolverName: name}}
			if config != "" {
				c.Spec.Solver.DNS01.Webhook.Config = &apiextensionsv1.JSON{Raw: []byte(config)}
			}
		}
	}
	tests := []struct {
		reason string
		change func(*acmev1.Challenge)
		gates  bool
		err    string
	}{
		{reason: "no dns01", change: func(c *acmev1.Challenge) { c.Spec.Solver.DNS01 = nil }, err: "no dns01 challenge solver configuration found"},
		{reason: "no provider", change: func(c *acmev1.Challenge) { c.Spec.Solver.DNS01 = &dns.Spec{CNAMEStrategy: acmev1.NoneStrategy} }, err: "no dns provider config specified for challenge"},
		{reason: "a provider that is missing here", change: byCloudflare, err: "the dns provider of the challenge is not supported by this program"},
		{reason: "an unknown provider of our group", change: group("desek", `{}`), err: `webhook.solverName: Unsupported value: "desek": supported values: "desec"`},
		{reason: "a config that is not one", change: group("desec", `{"token":"s3cr3t"}`), err: `webhook.config: Invalid value: unknown field "token"`},
		{reason: "a provider of our group that is missing here", change: group("desec", `{"tokenSecretRef":{"name":"s","key":"k"}}`), err: "the dns provider of the challenge is not supported by this program"},
		{reason: "no zone", change: func(c *acmev1.Challenge) { c.Spec.DNSName = "a.nowhere" }, err: "Could not find the SOA record in the DNS tree for the domain '_acme-challenge.a.nowhere.' using nameservers ["},
		{reason: "another type", change: func(c *acmev1.Challenge) { c.Spec.Type = "HTTP-01" }, err: "challenges of type HTTP-01 are not solved by DNS records"},
		{reason: "a gate", change: reserved("DNS-ACCOUNT-01", "dns-account-01", `{}`), err: "dns-account-01 is not enabled: set acme.dns01.dnsAccount01"},
		{reason: "another gate", change: reserved("DNS-PERSIST-01", "dns-persist-01", ``), err: "dns-persist-01 is not enabled: set acme.dns01.dnsPersist01"},
		{reason: "no configuration", change: reserved("DNS-ACCOUNT-01", "dns-account-01", ``), gates: true, err: "webhook.config: must name a provider, as dns01 does, for dns-account-01"},
		{reason: "a misspelled provider", change: reserved("DNS-ACCOUNT-01", "dns-account-01", `{"clodflare":{}}`), gates: true, err: `webhook.config: json: unknown field "clodflare"`},
		{reason: "an empty configuration", change: reserved("DNS-ACCOUNT-01", "dns-account-01", `{}`), gates: true, err: "no dns provider config specified for challenge"},
		{reason: "a solver of another type", change: reserved("DNS-01", "dns-account-01", `{}`), gates: true, err: `the solver "dns-account-01" of group acme.certplane.dev is not for challenges of type DNS-01`},
		{reason: "a type without its solver", change: func(c *acmev1.Challenge) { c.Spec.Type = "DNS-PERSIST-01" }, gates: true, err: "challenges of type DNS-PERSIST-01 need a solver with webhook.groupName acme.certplane.dev and webhook.solverName dns-persist-01"},
	}
	w := newWorld(t)
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w.settings.DNSAccount01, w.settings.DNSPersist01 = tc.gates, tc.gates
			_, err := w.solver(t).Prepare(t.Context(), w.newTask(tc.change))
			assertError(t, err, tc.err)
		})
	}
}

// TestForeignNote: a note that was changed leads to no other record.
func TestForeignNote(t *testing.T) {
	w := newWorld(t)
	task := w.newTask(nil)
	task.Where = `{"provider":"rfc2136","fqdn":"www.example.com.","zone":"example.com."}`
	s := w.solver(t)
	for _, do := range []func(context.Context, solver.Task) error{s.Present, s.CleanUp} {
		assertError(t, do(t.Context(), task), "the note about the record that was written does not fit the challenge")
	}
	if updates := w.authoritative[0].Updates(); len(updates) > 0 {
		t.Errorf("%d updates", len(updates))
	}
}

// TestCleanUpAfterCertManager: there is no note about what cert-manager has
// presented.
func TestCleanUpAfterCertManager(t *testing.T) {
	w := newWorld(t)
	w.authoritative[0].Set(t, "example.com."+soa, challengeName+" 60 IN TXT value-1", challengeName+" 60 IN TXT hers")
	task := w.newTask(nil)
	task.Issuer = nil
	if err := w.solver(t).CleanUp(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"hers"}, w.authoritative[0].TXT(challengeName)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestWebhook(t *testing.T) {
	w := newWorld(t)
	s := w.solver(t)
	config := &apiextensionsv1.JSON{Raw: []byte(`{"a":1}`)}
	task := present(t, s, w.newTask(func(c *acmev1.Challenge) {
		c.Spec.Solver.DNS01 = &dns.Spec{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: "acme.example.com", SolverName: "cloud", Config: config}}
		c.Spec.IssuerRef.Kind = "ClusterIssuer"
	}))
	if err := s.CleanUp(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{"Present", "CleanUp"} {
		want := webhook.Request{
			UID: "u1-" + action, Action: action, Type: "dns-01", DNSName: "example.com", Key: "value-1", ResourceNamespace: "ns",
			ResolvedFQDN: challengeName, ResolvedZone: "example.com.", AllowAmbientCredentials: true, Config: config,
		}
		if diff := cmp.Diff(want, <-w.calls); diff != "" {
			t.Errorf("%s (-want +got):\n%s", action, diff)
		}
	}
}

// group is a challenge for a provider of certmanager.ProviderGroup.
func group(name, config string) func(*acmev1.Challenge) {
	return func(c *acmev1.Challenge) {
		c.Spec.Solver.DNS01 = &dns.Spec{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{
			GroupName: "dns.certplane.dev", SolverName: name, Config: &apiextensionsv1.JSON{Raw: []byte(config)},
		}}
	}
}

// TestGroupProviders: webhooks of our group are answered in the process, by a
// provider for each config that the API accepts.
func TestGroupProviders(t *testing.T) {
	configs := map[string]string{"desec": `{"tokenSecretRef":{"name":"s","key":"token"}}`}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(configs)), certmanager.GroupProviders()); diff != "" {
		t.Errorf("providers (-tested +accepted):\n%s", diff)
	}
	w := newWorld(t)
	w.rows = providers.All()
	for name, config := range configs {
		task := prepared(t, w.solver(t), w.newTask(group(name, config)))
		if want := `{"provider":"` + name + `","fqdn":"_acme-challenge.example.com.","zone":"example.com."}`; task.Where != want {
			t.Errorf("note %s, want %s", task.Where, want)
		}
	}
}

// TestGroupProvider: the Secret is that of the issuer's namespace, and the client
// the guarded one.
func TestGroupProvider(t *testing.T) {
	var calls []string
	w := newWorld(t)
	w.rows, w.refuse = providers.All(), func(netip.Addr) error { return nil }
	w.guarded = providertest.Client(t, http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		body, _ := io.ReadAll(in.Body)
		calls = append(calls, fmt.Sprintf("%s https://%s%s %s %s", in.Method, in.Host, in.URL.Path, in.Header.Get("Authorization"), body))
		http.Error(out, `{"detail":"Not found."}`, http.StatusNotFound)
	}))
	w.secrets = fake.NewClientBuilder().WithObjects(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"token": []byte("one")}}).Build()
	s := w.solver(t)
	task := prepared(t, s, w.newTask(group("desec", `{"tokenSecretRef":{"name":"s","key":"token"}}`)))
	assertError(t, s.Present(t.Context(), task), "changing the record set at deSEC: HTTP status 404 Not Found: Not found.")
	if err := s.CleanUp(t.Context(), task); err != nil {
		t.Error(err)
	}
	read := "GET https://desec.io/api/v1/domains/example.com/rrsets/_acme-challenge/TXT/ Token one "
	write := `PUT https://desec.io/api/v1/domains/example.com/rrsets/ Token one [{"subname":"_acme-challenge","type":"TXT","ttl":3600,"records":["\"value-1\""]}]`
	if diff := cmp.Diff([]string{read, write, read}, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	task.Secrets = "other"
	assertError(t, s.Present(t.Context(), task), `reading the token for deSEC: secrets "s" not found`)
	if len(w.calls) > 0 {
		t.Error("a webhook was called")
	}
}

func TestAmbient(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		kind    string
		cluster *bool
		issuer  bool
		want    bool
	}{
		{kind: "ClusterIssuer", want: true}, // the default of newWorld
		{kind: "ClusterIssuer", cluster: &no},
		{kind: "ClusterIssuer", cluster: &yes, want: true},
		{kind: "ClusterIssuer", cluster: &no, issuer: true},
		{kind: "Issuer", cluster: &yes},
		{kind: "", cluster: &yes},
		{kind: "Issuer", issuer: true, want: true},
		{kind: "", issuer: true, want: true},
	} {
		w := newWorld(t)
		w.settings.ClusterIssuerAmbientCredentials, w.settings.IssuerAmbientCredentials = tc.cluster, tc.issuer
		var got bool
		w.watchEnv(func(_ context.Context, env provider.Env) error { got = env.Ambient; return nil })
		present(t, w.solver(t), w.newTask(func(c *acmev1.Challenge) { byCloudflare(c); c.Spec.IssuerRef.Kind = tc.kind }))
		if got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// TestAddresses: Issuers of namespaces name no server on loopback addresses, whether it is
// one for updates or the API of a provider.
func TestAddresses(t *testing.T) {
	for _, tc := range []struct {
		kind    string
		allowed bool
		want    string
	}{
		{kind: "Issuer", want: "127.0.0.2 is a loopback address, which only ClusterIssuers may use: acme.allowLoopback allows it for Issuers"},
		{kind: "", want: "127.0.0.2 is a loopback address"},
		{kind: "Issuer", allowed: true},
		{kind: "ClusterIssuer"},
	} {
		w := newWorld(t)
		w.guarded = &http.Client{}
		if !tc.allowed {
			w.refuse = linklocal.RefuseLoopback("acme")
		}
		s := w.solver(t)
		of := func(c *acmev1.Challenge) { c.Spec.IssuerRef.Kind = tc.kind }
		err := s.Present(t.Context(), prepared(t, s, w.newTask(of)))
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%+v: %v", tc, err)
		}
		var client *http.Client
		w.watchEnv(func(_ context.Context, env provider.Env) error { client = env.HTTP; return nil })
		present(t, w.solver(t), w.newTask(func(c *acmev1.Challenge) { byCloudflare(c); of(c) }))
		if guarded := client == w.guarded; guarded != (tc.want != "") {
			t.Errorf("%+v: the client of the provider is guarded: %t", tc, guarded)
		}
	}
}

// TestSecrets: they are those of the issuer's namespace, read each time.
func TestSecrets(t *testing.T) {
	w := newWorld(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "s"}, Data: map[string][]byte{"k": []byte("one")}}
	w.secrets = fake.NewClientBuilder().WithObjects(secret).Build()
	var got []string
	w.watchEnv(func(ctx context.Context, env provider.Env) error {
		value, err := env.Secret(ctx, "s", "k")
		got = append(got, string(value))
		return err
	})
	s := w.solver(t)
	task := present(t, s, w.newTask(byCloudflare))
	secret.Data["k"] = []byte("two")
	if err := w.secrets.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if err := s.CleanUp(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	delete(secret.Data, "k")
	if err := w.secrets.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	assertError(t, s.Present(t.Context(), task), `specified key "k" not found in secret ns/s`)
	task.Secrets = "other"
	assertError(t, s.Present(t.Context(), task), `secrets "s" not found`)
}

func TestToken(t *testing.T) {
	w := newWorld(t)
	w.secrets = tokens(func(account *corev1.ServiceAccount, request *authenticationv1.TokenRequest) error {
		if account.Name == "none" {
			return errors.New("no such account")
		}
		request.Status.Token = fmt.Sprintf("%s/%s %v %d", account.Namespace, account.Name, request.Spec.Audiences, *request.Spec.ExpirationSeconds)
		return nil
	})
	var got string
	name := "sa"
	w.watchEnv(func(ctx context.Context, env provider.Env) (err error) {
		got, err = env.Token(ctx, name, []string{"sts.amazonaws.com"}, 10*time.Minute)
		return err
	})
	s := w.solver(t)
	task := present(t, s, w.newTask(byCloudflare))
	if want := "ns/sa [sts.amazonaws.com] 600"; got != want {
		t.Errorf("token %q, want %q", got, want)
	}
	name = "none"
	assertError(t, s.Present(t.Context(), task), "requesting a token of service account ns/none: no such account")
}

// TestFindsZones: a provider that finds zones itself works without SOA records.
func TestFindsZones(t *testing.T) {
	w := newWorld(t)
	w.watchEnv(func(context.Context, provider.Env) error { return nil })
	w.rows[len(w.rows)-1] = w.rows[len(w.rows)-1].FindsZones()
	task := present(t, w.solver(t), w.newTask(func(c *acmev1.Challenge) { byCloudflare(c); c.Spec.DNSName = "a.nowhere" }))
	if want := `{"provider":"cloudflare","fqdn":"_acme-challenge.a.nowhere."}`; task.Where != want {
		t.Errorf("note %s, want %s", task.Where, want)
	}
}

// inner is a challenge of another type, with the provider of newTask.
func inner(kind acmev1.ACMEChallengeType, solverName string) func(*acmev1.Challenge) {
	return func(c *acmev1.Challenge) {
		config, _ := json.Marshal(c.Spec.Solver.DNS01)
		c.Spec.Type = kind
		c.Spec.Solver.DNS01 = &dns.Spec{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{
			GroupName: "acme.certplane.dev", SolverName: solverName, Config: &apiextensionsv1.JSON{Raw: config},
		}}
	}
}

// TestDNSAccount01: the record is at a name of the account's own. It is removed
// after the issuer is gone, and the gate is closed.
func TestDNSAccount01(t *testing.T) {
	w := newWorld(t)
	w.settings.DNSAccount01 = true
	s := w.solver(t)
	task := present(t, s, w.newTask(inner("DNS-ACCOUNT-01", "dns-account-01")))
	var note struct{ FQDN string }
	if err := json.Unmarshal([]byte(task.Where), &note); err != nil || !strings.HasSuffix(note.FQDN, "._acme-challenge.example.com.") {
		t.Fatalf("note %s, error %v", task.Where, err)
	}
	if diff := cmp.Diff([]string{"value-1"}, w.authoritative[0].TXT(note.FQDN)); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	w.copyFirst(t, "example.com.", note.FQDN)
	if _, err := s.Check(t.Context(), task); err != nil {
		t.Error(err)
	}
	task.Issuer, w.settings.DNSAccount01 = nil, false
	if err := w.solver(t).CleanUp(t.Context(), task); err != nil {
		t.Fatal(err)
	}
	if got := w.authoritative[0].TXT(note.FQDN); got != nil {
		t.Errorf("values %q are left", got)
	}
	w.settings.DNSAccount01 = true
	_, err := w.solver(t).Prepare(t.Context(), task)
	assertError(t, err, "the issuer has no account URL yet")
}

// TestDNSPersist01: nothing is written; a record of the owner is looked for.
func TestDNSPersist01(t *testing.T) {
	w := newWorld(t)
	w.settings.DNSPersist01 = true
	s := w.solver(t)
	task := present(t, s, w.newTask(func(c *acmev1.Challenge) {
		inner("DNS-PERSIST-01", "dns-persist-01")(c)
		c.Spec.Wildcard, c.Spec.Key = true, ""
	}))
	if task.Where != "" || len(w.authoritative[0].Updates()) > 0 {
		t.Errorf("note %q, %d updates", task.Where, len(w.authoritative[0].Updates()))
	}
	_, err := s.Check(t.Context(), task)
	assertError(t, err, `DNS record for "example.com" not yet propagated: _validation-persist.example.com. needs a TXT record with the value `+
		`"<the CA's domain name>; accounturi=https://ca.example/acct/1; policy=wildcard"; missing at ns1.example.com.:`)
	for _, server := range w.authoritative {
		server.Set(t, "example.com."+soa, `_validation-persist.example.com. 60 IN TXT "ca.example; accounturi=https://ca.example/acct/1; policy=wildcard"`)
	}
	if _, err := s.Check(t.Context(), task); err != nil {
		t.Error(err)
	}
	task.Issuer = nil
	if err := s.CleanUp(t.Context(), task); err != nil {
		t.Error(err)
	}
}

// TestPrecedence: a webhook comes before the providers, and these in the order
// of the table.
func TestPrecedence(t *testing.T) {
	w := newWorld(t)
	w.watchEnv(func(context.Context, provider.Env) error { return nil })
	spec := w.newTask(nil).Challenge.Spec.Solver.DNS01
	spec.Cloudflare = &acmev1.ACMEIssuerDNS01ProviderCloudflare{APIToken: &cmmeta.SecretKeySelector{}}
	for _, want := range []string{"rfc2136", "cloudflare"} {
		task := prepared(t, w.solver(t), w.newTask(func(c *acmev1.Challenge) { c.Spec.Solver.DNS01 = spec }))
		if !strings.Contains(task.Where, `"provider":"`+want+`"`) {
			t.Errorf("note %s, want %s", task.Where, want)
		}
		slices.Reverse(w.rows)
	}
	spec.Webhook = &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: "g.example", SolverName: "s"}
	task := prepared(t, w.solver(t), w.newTask(func(c *acmev1.Challenge) { c.Spec.Solver.DNS01 = spec }))
	if !strings.Contains(task.Where, `"provider":"webhook"`) {
		t.Errorf("note %s", task.Where)
	}
}
