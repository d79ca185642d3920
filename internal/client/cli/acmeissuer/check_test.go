package acmeissuer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/pki"
)

// reader is an API. Secrets with a name in hidden may not be read.
type reader struct {
	client.Reader
	hidden *string
}

func (r reader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*corev1.Secret); ok && key.Name == *r.hidden {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, key.Name, errors.New("no"))
	}
	return r.Reader.Get(ctx, key, o, opts...)
}

func (reader) Resource(context.Context, schema.GroupKind) (certmanager.Resource, error) {
	return certmanager.Resource{}, certmanager.ErrNoResource
}

func (reader) May(context.Context, authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	return true, nil
}

func (reader) MayI(context.Context, authorizationv1.ResourceAttributes) (bool, error) {
	return true, nil
}

// world is an issuer that is ready, its CA, a name server and a network.
type world struct {
	ca     *acmetest.Server
	issuer *cmv1.ClusterIssuer
	secret *corev1.Secret
	key    account.Key
	names  *dnstest.Server
	hidden string
	// hosts are the addresses of names; servers what listens at an address.
	hosts   map[string][]string
	servers map[string]string
	cfg     CheckConfig
}

func (w *world) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var all []netip.Addr
	for _, address := range w.hosts[strings.TrimSuffix(host, ".")] {
		all = append(all, netip.MustParseAddr(address))
	}
	if len(all) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return all, nil
}

func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	server, ok := w.servers[address]
	if !ok {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	return (&net.Dialer{}).DialContext(ctx, network, server)
}

const zone = "example.com. 60 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60"

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{hosts: map[string][]string{}, servers: map[string]string{}}
	w.ca = acmetest.Start(t, acmetest.Options{CAAIdentities: []string{"ca.example"}, Profiles: map[string]string{"short": "six days"}})
	var err error
	if w.key, err = pki.GenerateKey(pki.ECDSAP256); err != nil {
		t.Fatal(err)
	}
	data, err := account.EncodeKey(w.key)
	if err != nil {
		t.Fatal(err)
	}
	w.secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "account"}, Data: map[string][]byte{"tls.key": data}}
	w.issuer = &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "le"}}
	w.issuer.Spec.ACME = &acmev1.ACMEIssuer{
		Server: w.ca.Directory(), CABundle: w.ca.CABundle(),
		PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "account"}},
		Solvers: []acmev1.ACMEChallengeSolver{
			{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}},
			{
				Selector: &acmev1.CertificateDNSNameSelector{DNSZones: []string{"dns.example.com"}},
				DNS01:    &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{Nameserver: "127.0.0.1:9"}},
			},
			{
				Selector: &acmev1.CertificateDNSNameSelector{MatchLabels: map[string]string{"by": "tls"}},
				DNS01:    &acmev1.ACMEChallengeSolverDNS01{Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: certmanager.ReservedGroup, SolverName: "tls-alpn-01"}},
			},
		},
	}
	w.register(t)
	certmanager.SetIssuerCondition(w.issuer, cmv1.IssuerConditionReady, cmmeta.ConditionTrue, "Registered", "registered", metav1.Now())
	w.names = dnstest.Start(t, dnstest.Options{Authoritative: true}, zone, "example.com. 60 IN NS ns1.example.com.", "ns1.example.com. 60 IN A 127.0.0.1")
	w.cfg = CheckConfig{
		Source: Source{
			Name: "le", Namespace: "default", Output: "json", UserAgent: "test",
			Kubectl: func(words ...string) []string { return append([]string{"kubectl"}, words...) },
		},
		Network: selfcheck.Network{Resolver: w, Dial: w.dial},
		Resolver: resolver.New(resolver.Config{
			Nameservers: []string{w.names.Addr}, Port: w.names.Port, Timeout: 2 * time.Second, Clock: clock.RealClock{},
		}),
	}
	return w
}

// register gives the issuer an account.
func (w *world) register(t *testing.T) {
	t.Helper()
	pool, err := acme.NewPool(acme.PoolConfig{UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := pool.Client(acme.Config{Directory: w.ca.Directory(), CABundle: w.ca.CABundle(), Key: w.key})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Register(t.Context(), acme.Registration{}); err != nil {
		t.Fatal(err)
	}
	w.issuer.Status.ACME = &acmev1.ACMEIssuerStatus{URI: c.Account()}
}

func (w *world) connect(t *testing.T) {
	t.Helper()
	kinds := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(kinds), certmanager.AddToScheme(kinds)); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{w.issuer}
	if w.secret != nil {
		objects = append(objects, w.secret)
	}
	api := reader{fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).Build(), &w.hidden}
	w.cfg.Connect = func() (explain.Reader, error) { return api, nil }
}

// check makes the checks, and returns them as lines.
func (w *world) check(t *testing.T, domains ...string) (lines []string, failed bool) {
	t.Helper()
	w.connect(t)
	var out bytes.Buffer
	w.cfg.Stdout, w.cfg.Domains = &out, domains
	err := Run(t.Context(), w.cfg)
	var failure *FailedError
	if err != nil && !errors.As(err, &failure) {
		t.Fatal(err)
	}
	var report Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	for _, c := range report.Checks {
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprintf("%s %s %s: %s", c.Result, c.Name, c.Domain, c.Message)), " "))
		if c.Result == Failed {
			failed = true
		}
	}
	if failed != (failure != nil) {
		t.Errorf("error %v for %q", err, lines)
	}
	return lines, failed
}

// says fails the test unless a line begins with each of the texts.
func says(t *testing.T, lines []string, want ...string) {
	t.Helper()
	for _, text := range want {
		found := false
		for _, line := range lines {
			found = found || strings.HasPrefix(line, text)
		}
		if !found {
			t.Errorf("no line begins with %q:\n%s", text, strings.Join(lines, "\n"))
		}
	}
}

// listen serves HTTP, and returns the address.
func listen(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.Listener.Addr().String()
}

func TestIssuer(t *testing.T) {
	mac := func(w *world) {
		w.issuer.Spec.ACME.ExternalAccountBinding = &acmev1.ACMEExternalAccountBinding{
			KeyID: "kid", Key: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "account"}, Key: "mac"},
		}
	}
	for _, tc := range []struct {
		reason string
		change func(*testing.T, *world)
		want   []string
		failed bool
	}{
		{
			reason: "all is well", change: func(*testing.T, *world) {},
			want: []string{"OK issuer : registered", "OK directory : the server answers", "OK account : the CA has the account https://", "OK profile : no profile requested; the CA offers short"},
		},
		{
			reason: "it is not ready", failed: true, want: []string{"Failed issuer : not ready: oops (Broken)"},
			change: func(_ *testing.T, w *world) {
				certmanager.SetIssuerCondition(w.issuer, cmv1.IssuerConditionReady, cmmeta.ConditionFalse, "Broken", "oops", metav1.Now())
			},
		},
		{
			reason: "it is new", want: []string{"Warning issuer : no controller has processed the issuer yet", "Warning account : found no Secret account in the namespaces kube-system, certplane-system, cert-manager"},
			change: func(_ *testing.T, w *world) { w.issuer.Status, w.secret = cmv1.IssuerStatus{}, nil },
		},
		{
			reason: "the CA does not answer", failed: true, want: []string{"Failed directory : "},
			change: func(_ *testing.T, w *world) { w.issuer.Spec.ACME.CABundle = nil },
		},
		{
			reason: "the URL is none", failed: true, want: []string{"Failed directory : "},
			change: func(_ *testing.T, w *world) { w.issuer.Spec.ACME.Server = "ca.example" },
		},
		{
			reason: "the CA has lost the account", failed: true, want: []string{"Failed account : the CA has no account for the key in the Secret kube-system/account"},
			change: func(_ *testing.T, w *world) { w.ca.ForgetAccounts() },
		},
		{
			reason: "the key is gone", failed: true, want: []string{"Failed account : found no Secret account in the namespaces"},
			change: func(_ *testing.T, w *world) { w.secret = nil },
		},
		{
			reason: "the key may not be read", want: []string{"Warning account : you may not get the Secret kube-system/account with the account's key"},
			change: func(_ *testing.T, w *world) { w.hidden = "account" },
		},
		{
			reason: "the external account has no key, and is not needed any more", want: []string{"Warning external account : the Secret kube-system/account has no MAC key in base64url under the key mac"},
			change: func(_ *testing.T, w *world) { mac(w) },
		},
		{
			reason: "the external account has a key", want: []string{"OK external account : the MAC key is in the Secret kube-system/account"},
			change: func(_ *testing.T, w *world) { mac(w); w.secret.Data["mac"] = []byte("c2VjcmV0") },
		},
		{
			reason: "the external account is missing", failed: true, want: []string{"Failed external account : the CA requires an external account"},
			change: func(_ *testing.T, w *world) {
				w.ca.Change(func(o *acmetest.Options) { o.ExternalAccounts = map[string][]byte{"kid": []byte("x")} })
				w.ca.ForgetAccounts()
				w.issuer.Status.ACME = nil
			},
		},
		{
			reason: "the profile is the CA's", want: []string{`OK profile : the CA has the profile "short"`},
			change: func(_ *testing.T, w *world) { w.cfg.Profile = "short" },
		},
		{
			reason: "the profile is not the CA's", failed: true, want: []string{`Failed profile : the CA does not have the profile "long"`},
			change: func(_ *testing.T, w *world) { w.issuer.Spec.ACME.Profile = "long" },
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			tc.change(t, w)
			lines, failed := w.check(t)
			says(t, lines, tc.want...)
			if failed != tc.failed {
				t.Errorf("failed is %v: %q", failed, lines)
			}
			if made := w.ca.Count(acmetest.NewOrder) + w.ca.Count(acmetest.NewAccount) - 1; made != 0 {
				t.Errorf("%d things were made at the CA", made)
			}
		})
	}
}

func TestDomains(t *testing.T) {
	const four, six = "192.0.2.1", "2001:db8::1"
	notFound := func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/.well-known/acme-challenge/") {
			w.WriteHeader(http.StatusInternalServerError)
		}
		w.WriteHeader(http.StatusNotFound)
	}
	for _, tc := range []struct {
		reason, domain string
		change         func(*testing.T, *world)
		want           []string
		failed         bool
	}{
		{
			reason: "a web server at both addresses", domain: "www.example.com",
			change: func(t *testing.T, w *world) {
				w.hosts["www.example.com"] = []string{four, six}
				w.servers[four+":80"] = listen(t, notFound)
				w.servers["["+six+"]:80"] = w.servers[four+":80"]
			},
			want: []string{
				"OK solver www.example.com: spec.acme.solvers[0] (http-01) is used; spec.acme.solvers[1] (dns-01): the name is in none of selector.dnsZones",
				"OK CAA www.example.com: no CAA record restricts which CA may issue; to permit only this account: www.example.com. CAA 0 issue \"ca.example; accounturi=https://",
				"OK port 80 www.example.com: " + four + " answers", "OK port 80 www.example.com: " + six + " answers",
			},
		},
		{
			reason: "nothing at IPv6", domain: "www.example.com",
			change: func(t *testing.T, w *world) {
				w.hosts["www.example.com"] = []string{four, six}
				w.servers[four+":80"] = listen(t, notFound)
			},
			want: []string{"OK port 80 www.example.com: " + four + " answers", "Warning port 80 www.example.com: " + six + " no answer from here: connecting to [" + six + "]:80: connection refused"},
		},
		{
			reason: "nothing at all", domain: "www.example.com", failed: true,
			change: func(_ *testing.T, w *world) { w.hosts["www.example.com"] = []string{four} },
			want:   []string{"Failed port 80 www.example.com: " + four + " no answer from here: connecting to " + four + ":80: connection refused"},
		},
		{
			reason: "a private address", domain: "www.example.com",
			change: func(t *testing.T, w *world) {
				w.hosts["www.example.com"] = []string{"10.0.0.1"}
				w.servers["10.0.0.1:80"] = listen(t, notFound)
			},
			want: []string{"Warning port 80 www.example.com: 10.0.0.1 answers; a private address, which is reachable only for a CA in the same network"},
		},
		{
			reason: "a login", domain: "www.example.com",
			change: func(t *testing.T, w *world) {
				w.hosts["www.example.com"] = []string{four}
				w.servers[four+":80"] = listen(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
			},
			want: []string{"Warning port 80 www.example.com: " + four + " answers with the status 401: does the web server pass /.well-known/acme-challenge/"},
		},
		{
			reason: "no address", domain: "www.example.com", failed: true, change: func(*testing.T, *world) {},
			want: []string{"Failed port 80 www.example.com: looking up www.example.com: no such host"},
		},
		{
			reason: "an address, which has no CAA records", domain: four,
			change: func(t *testing.T, w *world) { w.servers[four+":80"] = listen(t, notFound) },
			want:   []string{"OK solver 192.0.2.1: spec.acme.solvers[0] (http-01) is used", "OK port 80 192.0.2.1: 192.0.2.1 answers"},
		},
		{
			reason: "nothing answers at the controllers", domain: four, failed: true,
			change: func(t *testing.T, w *world) {
				w.servers[four+":80"] = listen(t, notFound)
				certmanager.SetIssuerCondition(w.issuer, cmv1.IssuerConditionReady, cmmeta.ConditionTrue, "Registered",
					"registered; its solver spec.acme.solvers[0] cannot be used, because nothing answers HTTP-01 challenges: the setting acme.http01.listen is empty", metav1.Now())
			},
			want: []string{"Failed solver 192.0.2.1: spec.acme.solvers[0] (http-01) is used; spec.acme.solvers[1] (dns-01): the CA does not offer this type of challenge for the name; " +
				"spec.acme.solvers[2] (tls-alpn-01): the Order does not have all labels of selector.matchLabels; but nothing answers HTTP-01 challenges: the setting acme.http01.listen is empty"},
		},
		{
			reason: "TLS-ALPN-01", domain: "www.example.com",
			change: func(t *testing.T, w *world) {
				w.cfg.Labels = map[string]string{"by": "tls"}
				w.hosts["www.example.com"] = []string{four}
				w.servers[four+":443"] = listen(t, notFound)
			},
			want: []string{"OK solver www.example.com: spec.acme.solvers[2] (tls-alpn-01) is used", "OK port 443 www.example.com: " + four + " accepts connections"},
		},
		{
			reason: "no solver", domain: "*.example.com", failed: true, change: func(*testing.T, *world) {},
			want: []string{"Failed solver *.example.com: no solver of the issuer can be used: spec.acme.solvers[0] (http-01): the CA does not offer this type of challenge for the name; "},
		},
		{
			reason: "name servers that answer", domain: "*.dns.example.com", change: func(*testing.T, *world) {},
			want: []string{"OK solver *.dns.example.com: spec.acme.solvers[1] (dns-01) is used", "OK DNS *.dns.example.com: authoritative servers of the zone example.com. that answer: 1 of 1"},
		},
		{
			reason: "a name server that does not", domain: "a.dns.example.com",
			change: func(t *testing.T, w *world) {
				w.names.Set(t, zone, "example.com. 60 IN NS ns1.example.com.", "example.com. 60 IN NS ns2.example.com.", "ns1.example.com. 60 IN A 127.0.0.1", "ns2.example.com. 60 IN A 127.0.0.9")
			},
			want: []string{"Warning DNS a.dns.example.com: authoritative servers of the zone example.com. that answer: 1 of 2; ns2.example.com.:"},
		},
		{
			reason: "a CNAME that the solver does not follow", domain: "a.dns.example.com",
			change: func(t *testing.T, w *world) {
				w.names.Set(t, zone, "example.com. 60 IN NS ns1.example.com.", "ns1.example.com. 60 IN A 127.0.0.1", "_acme-challenge.a.dns.example.com. 60 IN CNAME b.example.com.")
			},
			want: []string{"Warning DNS a.dns.example.com: the CA follows the CNAME record of _acme-challenge.a.dns.example.com. to b.example.com."},
		},
		{
			reason: "another zone", domain: "a.dns.example.com", failed: true,
			change: func(t *testing.T, w *world) {
				w.names.Set(t, "other.test. 60 IN SOA ns1.other.test. admin.other.test. 1 3600 600 86400 60")
			},
			want: []string{"Failed DNS a.dns.example.com: Could not find the SOA record"},
		},
		{
			reason: "CAA above the name, for this account and method", domain: "*.dns.example.com",
			change: func(t *testing.T, w *world) {
				w.names.Set(t, zone, "example.com. 60 IN NS ns1.example.com.", "ns1.example.com. 60 IN A 127.0.0.1",
					fmt.Sprintf(`example.com. 60 IN CAA 0 issue "ca.example; accounturi=%s; validationmethods=dns-01"`, w.issuer.Status.ACME.URI))
			},
			want: []string{"OK CAA *.dns.example.com: the CAA records of example.com. allow ca.example"},
		},
		{
			reason: "CAA of the name instead of that above", domain: "a.dns.example.com", failed: true,
			change: func(t *testing.T, w *world) {
				w.names.Set(t, zone, "example.com. 60 IN NS ns1.example.com.", "ns1.example.com. 60 IN A 127.0.0.1",
					`example.com. 60 IN CAA 0 issue "ca.example"`, `dns.example.com. 60 IN CAA 0 issue "other.example"`)
			},
			want: []string{"Failed CAA a.dns.example.com: the CAA records of dns.example.com. allow only other.example, and this CA is ca.example"},
		},
		{
			reason: "CAA at the end of a CNAME", domain: "a.dns.example.com", failed: true,
			change: func(t *testing.T, w *world) {
				w.cfg.Resolver = resolver.New(resolver.Config{
					Nameservers: []string{dnstest.Start(t, dnstest.Options{}, zone, "example.com. 60 IN NS ns1.example.com.", "ns1.example.com. 60 IN A 127.0.0.1",
						"a.dns.example.com. 60 IN CNAME b.example.com.", `b.example.com. 60 IN CAA 0 issue ";"`).Addr},
					Port: w.names.Port, Timeout: 2 * time.Second, Clock: clock.RealClock{},
				})
			},
			want: []string{"Failed CAA a.dns.example.com: the CAA records of a.dns.example.com. allow only no CA at all"},
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			tc.change(t, w)
			lines, failed := w.check(t, tc.domain)
			says(t, lines, tc.want...)
			if failed != tc.failed {
				t.Errorf("failed is %v: %q", failed, lines)
			}
		})
	}
}

// CAs do not issue for names whose CAA records cannot be looked up.
func TestCAAFails(t *testing.T) {
	w := newWorld(t)
	w.names.Break("dns.example.com.", 257, dnstest.Rcode(2))
	lines, failed := w.check(t, "a.dns.example.com")
	says(t, lines, "Failed CAA a.dns.example.com: looking up the CAA records of dns.example.com.: the name servers answer SERVFAIL")
	if !failed {
		t.Error("nothing has failed")
	}
}

// The text for people has a line per check, and advice once.
func TestText(t *testing.T) {
	w := newWorld(t)
	w.connect(t)
	var out bytes.Buffer
	w.cfg.Stdout, w.cfg.Output, w.cfg.Domains = &out, "", []string{"*.example.com", "*.example.org"}
	if err := Run(t.Context(), w.cfg); err == nil || !strings.HasSuffix(err.Error(), "checks have failed") {
		t.Errorf("error %v", err)
	}
	for _, line := range []string{"ClusterIssuer le, https://", "\n  ok ", "\n  failed  solver", "\nNext\n  Give the issuer a solver for *.example.com in spec.acme.solvers.\n"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("no %q in:\n%s", line, out.String())
		}
	}
}

func TestThumbprint(t *testing.T) {
	w := newWorld(t)
	w.connect(t)
	var out bytes.Buffer
	w.cfg.Stdout, w.cfg.Output = &out, ""
	if err := PrintThumbprint(t.Context(), w.cfg.Source); err != nil {
		t.Fatal(err)
	}
	want, err := acme.Thumbprint(w.key)
	if err != nil || !strings.HasPrefix(out.String(), want+"\n") || !strings.Contains(out.String(), `return 200 "$1.`+want+`";`) {
		t.Errorf("%v, %s:\n%s", err, want, out.String())
	}
	w.hidden = "account"
	if err := PrintThumbprint(t.Context(), w.cfg.Source); err == nil || !strings.Contains(err.Error(), "you may not get the Secret kube-system/account") {
		t.Errorf("error %v", err)
	}
}

// An issuer is found by its kind, or without it: the Issuer first.
func TestFind(t *testing.T) {
	w := newWorld(t)
	w.connect(t)
	for _, tc := range []struct{ reason, kind, name, want string }{
		{"a ClusterIssuer", "", "le", ""},
		{"its kind", cmv1.ClusterIssuerKind, "le", ""},
		{"another kind", cmv1.IssuerKind, "le", "found no Issuer named le in the namespace default"},
		{"another name", "", "other", "found no Issuer named other in the namespace default, and no ClusterIssuer of that name"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			s := w.cfg.Source
			s.Kind, s.Name = tc.kind, tc.name
			_, err := s.find(t.Context())
			if got := fmt.Sprint(err); tc.want == "" && err != nil || tc.want != "" && got != tc.want {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
