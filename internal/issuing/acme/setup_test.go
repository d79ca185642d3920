package acme

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"
	"time"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/pki"
)

func newAccountKey(t testing.TB, kind pki.KeyType) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// An account is registered with a key that is made for it, in the form that
// cert-manager reads.
func TestRegister(t *testing.T) {
	w := newWorld(t, acmetest.Options{TermsOfService: "https://ca.example.com/terms"}, nil)
	w.settings = DefaultAccountSettings()
	w.restart(t)
	if ready := w.says(t, registered); !strings.Contains(ready.Notice, "https://ca.example.com/terms") {
		t.Errorf("the Event says %q", ready.Notice)
	}
	secret := w.secret(t, "account")
	block, _ := pem.Decode(secret.Data["tls.key"])
	if len(secret.Data) != 1 || secret.Labels["app.kubernetes.io/managed-by"] != "cert-manager" || block == nil || block.Type != "RSA PRIVATE KEY" {
		t.Fatalf("the Secret is %v", secret.Labels)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil || key.N.BitLen() != 2048 {
		t.Fatal(err)
	}
	sum := sha256.Sum256(block.Bytes)
	status := w.issuer.Status.ACME
	if status.LastPrivateKeyHash != base64.StdEncoding.EncodeToString(sum[:]) || status.LastRegisteredEmail != "admin@example.com" {
		t.Errorf("%+v", status)
	}
	if contacts, ok := w.Accounts()[status.URI]; !ok || len(contacts) != 1 || contacts[0] != "mailto:admin@example.com" {
		t.Errorf("the account %q has %v", status.URI, contacts)
	}
	if condition := w.issuer.Status.Conditions[0]; condition.ObservedGeneration != 1 {
		t.Errorf("%+v", condition)
	}
	c, err := w.accounts.Of(t.Context(), w.issuer)
	if err != nil || c.Account() != status.URI {
		t.Error(err)
	}
}

// A second start, and an issuer that does not change, need no request. A lost
// status is made again with the same account.
func TestShortCut(t *testing.T) {
	w := newWorld(t, acmetest.Options{}, nil)
	w.mustBeReady(t)
	uri, before := w.issuer.Status.ACME.URI, w.requests()
	w.mustBeReady(t)
	w.restart(t)
	w.mustBeReady(t)
	w.edit(func(a *cmacme.ACMEIssuer) { a.PreferredChain = "root"; a.Profile = "short" })
	w.mustBeReady(t)
	if got := w.requests(); got != before {
		t.Errorf("%d requests", got-before)
	}
	w.issuer.Status = cmv1.IssuerStatus{}
	w.restart(t)
	w.mustBeReady(t)
	if w.issuer.Status.ACME.URI != uri || w.Count(acmetest.NewAccount) != 1 {
		t.Errorf("the account is %q, was %q", w.issuer.Status.ACME.URI, uri)
	}
}

// The accounts that a CA has on another host are found once, not in each pass.
func TestAccountsOnAnotherHost(t *testing.T) {
	w := newWorld(t, acmetest.Options{}, nil)
	w.Change(func(o *acmetest.Options) {
		o.Hook = func(c acmetest.Call) *acmetest.Reply {
			if c.Kind == acmetest.NewAccount {
				return &acmetest.Reply{Acts: true, Header: map[string][]string{"Location": {"https://accounts.example.com/1"}}}
			}
			return nil
		}
	})
	w.mustBeReady(t)
	before := w.requests()
	w.mustBeReady(t)
	if w.issuer.Status.ACME.URI != "https://accounts.example.com/1" || w.requests() != before {
		t.Errorf("%+v, %d requests", w.issuer.Status.ACME, w.requests()-before)
	}
}

func TestExistingKey(t *testing.T) {
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ed)
	if err != nil {
		t.Fatal(err)
	}
	p521, err := ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("GODEBUG", "rsa1024min=0")
	short, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reason string
		data   map[string]string
		entry  string
		want   string
	}{
		{reason: "RSA", data: map[string]string{"tls.key": encoded(t, newAccountKey(t, pki.RSA2048))}, want: registered},
		{reason: "P-256", data: map[string]string{"tls.key": encoded(t, newAccountKey(t, pki.ECDSAP256))}, want: registered},
		{reason: "P-384 under another name", entry: "my-key", data: map[string]string{"my-key": encoded(t, newAccountKey(t, pki.ECDSAP384)), "tls.key": "x"}, want: registered},
		{reason: "no entry", data: map[string]string{"other": "x"}, want: `ErrVerifyACMEAccount Account private key is invalid: no data for "tls.key" in secret 'ns/account'`},
		{reason: "no key", data: map[string]string{"tls.key": "garbage"}, want: "ErrVerifyACMEAccount Account private key is invalid: "},
		{reason: "Ed25519", data: map[string]string{"tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))}, want: `ErrVerifyACMEAccount ACME private key in "account" is an Ed25519 key`},
		{reason: "P-521", data: map[string]string{"tls.key": encoded(t, p521)}, want: `ErrVerifyACMEAccount ACME private key in "account" is an ECDSA key on P-521`},
		{reason: "RSA that is too short", data: map[string]string{"tls.key": encoded(t, short)}, want: `ErrVerifyACMEAccount ACME private key in "account" is an RSA key of 1024 bits`},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newWorld(t, acmetest.Options{}, func(a *cmacme.ACMEIssuer) { a.PrivateKey.Key = test.entry })
			w.put(t, "ns", "account", test.data)
			ready := w.says(t, test.want)
			if !ready.OK && (w.requests() != 0 || ready.Retry != nil || !ready.Again.IsZero()) {
				t.Errorf("%+v after %d requests", ready, w.requests())
			}
		})
	}
}

// A ClusterIssuer has its Secrets in the namespace of cluster resources.
func TestClusterIssuer(t *testing.T) {
	w := newWorld(t, acmetest.Options{}, nil)
	issuer := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "cluster"}, Spec: w.issuer.Spec}
	w.put(t, "cluster", "account", map[string]string{"tls.key": encoded(t, newAccountKey(t, pki.ECDSAP256))})
	if ready := w.checkAs(t, issuer); !ready.OK {
		t.Errorf("%+v", ready)
	}
	needs := w.setup.needs(issuer)
	if len(needs) != 2 || needs[1].Namespace != "cluster" || needs[1].Name != "account" {
		t.Errorf("needs %v", needs)
	}
}

// Without the right to make a key, the issuer waits for the Secret.
func TestNoKeyGeneration(t *testing.T) {
	w := newWorld(t, acmetest.Options{}, func(a *cmacme.ACMEIssuer) { a.DisableAccountKeyGeneration = true })
	ready := w.says(t, "ErrVerifyACMEAccount Failed to verify ACME account: the ACME issuer config has 'disableAccountKeyGeneration' set to true, but the secret was not found: secrets \"account\" not found")
	if ready.Retry != nil || !ready.Again.IsZero() || w.requests() != 0 {
		t.Errorf("%+v", ready)
	}
	w.put(t, "ns", "account", map[string]string{"tls.key": encoded(t, newAccountKey(t, pki.ECDSAP256))})
	w.mustBeReady(t)
}

// Errors of the API are tried again.
func TestAPIErrors(t *testing.T) {
	w := newWorld(t, acmetest.Options{}, nil)
	broken := errors.New("the API is broken")
	fail := ""
	w.intercept(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if fail == "create" {
				return broken
			}
			return c.Create(ctx, o, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if fail == key.Name {
				return broken
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	for _, step := range []struct{ fail, want string }{
		{"account", "ErrVerifyACMEAccount Failed to verify ACME account: the API is broken"},
		{"create", "ErrRegisterACMEAccount Failed to register ACME account: the API is broken"},
	} {
		fail = step.fail
		if ready := w.says(t, step.want); ready.Retry == nil || !ready.Uninitialized {
			t.Errorf("%s: %+v", step.fail, ready)
		}
	}
	fail = ""
	w.mustBeReady(t)
	w.edit(func(a *cmacme.ACMEIssuer) { a.ExternalAccountBinding = external("kid") })
	fail = "eab"
	if ready := w.says(t, "ErrRegisterACMEAccount Failed to register ACME account: failed to get External Account Binding key from secret: the API is broken"); ready.Retry == nil {
		t.Errorf("%+v", ready)
	}
}

func TestConfiguration(t *testing.T) {
	for _, test := range []struct {
		reason string
		change func(*cmacme.ACMEIssuer)
		want   string
	}{
		{
			"version 1", func(a *cmacme.ACMEIssuer) { a.Server = "https://acme-v01.api.letsencrypt.org/directory/" },
			`InvalidConfig Your ACME server URL is set to a v1 endpoint (https://acme-v01.api.letsencrypt.org/directory/). You should update the spec.acme.server field to "https://acme-v02.api.letsencrypt.org/directory"`,
		},
		{
			"version 1 for tests", func(a *cmacme.ACMEIssuer) { a.Server = "https://acme-staging.api.letsencrypt.org/directory" },
			`InvalidConfig Your ACME server URL is set to a v1 endpoint (https://acme-staging.api.letsencrypt.org/directory). You should update the spec.acme.server field to "https://acme-staging-v02.api.letsencrypt.org/directory"`,
		},
		{
			"no URL", func(a *cmacme.ACMEIssuer) { a.Server = "https://a b/%zz" },
			`InvalidURL Failed to parse existing ACME server URI "https://a b/%zz": parse`,
		},
		{"another scheme", func(a *cmacme.ACMEIssuer) { a.Server = "ftp://ca.example.com" }, "ErrRegisterACMEAccount Failed to register ACME account: the URL of the directory"},
		{"no roots", func(a *cmacme.ACMEIssuer) { a.CABundle = []byte("x") }, "ErrRegisterACMEAccount Failed to register ACME account: caBundle contains no readable certificate"},
	} {
		t.Run(test.reason, func(t *testing.T) {
			w := newWorld(t, acmetest.Options{}, test.change)
			if ready := w.says(t, test.want); ready.OK || ready.Retry != nil || w.requests() != 0 {
				t.Errorf("%+v", ready)
			}
		})
	}
	w := newWorld(t, acmetest.Options{}, nil)
	w.issuer.Status.ACME = &cmacme.ACMEIssuerStatus{URI: "https://a b/%zz"}
	w.put(t, "ns", "account", map[string]string{"tls.key": encoded(t, newAccountKey(t, pki.ECDSAP256))})
	w.says(t, `InvalidURL Failed to parse existing ACME account URI "https://a b/%zz": parse`)
}

// The Secrets of DNS-01 solvers must exist, and have what is needed.
func TestSolverSecrets(t *testing.T) {
	ref := func(name, key string) cmmeta.SecretKeySelector {
		return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name}, Key: key}
	}
	token, id := ref("cloudflare", "token"), ref("aws", "id")
	w := newWorld(t, acmetest.Options{}, func(a *cmacme.ACMEIssuer) {
		a.Solvers = []cmacme.ACMEChallengeSolver{
			{DNS01: &cmacme.ACMEChallengeSolverDNS01{Cloudflare: &cmacme.ACMEIssuerDNS01ProviderCloudflare{APIToken: &token}}},
			{DNS01: &cmacme.ACMEChallengeSolverDNS01{Route53: &cmacme.ACMEIssuerDNS01ProviderRoute53{SecretAccessKeyID: &id, SecretAccessKey: ref("aws", "secret")}}},
			{DNS01: &cmacme.ACMEChallengeSolverDNS01{RFC2136: &cmacme.ACMEIssuerDNS01ProviderRFC2136{Nameserver: "ns"}}},
			{HTTP01: &cmacme.ACMEChallengeSolverHTTP01{}},
		}
	})
	w.put(t, "ns", "aws", map[string]string{"id": "x"})
	if ready := w.says(t, `InvalidSolver failed to get secret "cloudflare": secrets "cloudflare" not found; the secret "aws" does not have key "secret"`); ready.Retry != nil || w.requests() != 0 {
		t.Errorf("%+v", ready)
	}
	if got := w.setup.needs(w.issuer); len(got) != 4 || got[2] != (issuing.Secret(client.ObjectKey{Namespace: "ns", Name: "cloudflare"})) {
		t.Errorf("needs %v", got)
	}
	w.put(t, "ns", "cloudflare", map[string]string{"token": "x"})
	w.put(t, "ns", "aws", map[string]string{"id": "x", "secret": "y"})
	w.mustBeReady(t)
}

// The admission of cert-manager accepts any config of a webhook.
func TestProviderGroup(t *testing.T) {
	by := &cmacme.ACMEIssuerDNS01ProviderWebhook{GroupName: certmanager.ProviderGroup, SolverName: "desek"}
	w := newWorld(t, acmetest.Options{}, func(a *cmacme.ACMEIssuer) {
		a.Solvers = []cmacme.ACMEChallengeSolver{{HTTP01: &cmacme.ACMEChallengeSolverHTTP01{}}, {DNS01: &cmacme.ACMEChallengeSolverDNS01{Webhook: by}}}
	})
	edit := func(name, config string) {
		w.edit(func(a *cmacme.ACMEIssuer) {
			by := a.Solvers[1].DNS01.Webhook
			by.SolverName, by.Config = name, &apiextensionsv1.JSON{Raw: []byte(config)}
		})
	}
	w.says(t, `InvalidSolver spec.acme.solvers[1].dns01.webhook.solverName: Unsupported value: "desek": supported values: "desec"`)
	edit("desec", `{"token": "x"}`)
	w.says(t, `InvalidSolver spec.acme.solvers[1].dns01.webhook.config: Invalid value: unknown field "token"`)
	edit("desec", `{"tokenSecretRef": {"name": "desec", "key": "token"}}`)
	w.says(t, `InvalidSolver failed to get secret "desec": secrets "desec" not found`)
	w.put(t, "ns", "desec", map[string]string{"token": "x"})
	w.mustBeReady(t)
}

// A server is trusted by its roots, by the roots in the spec, or not at all.
func TestTrust(t *testing.T) {
	w := newWorld(t, acmetest.Options{}, func(a *cmacme.ACMEIssuer) { a.CABundle = nil })
	ready := w.says(t, "ErrRegisterACMEAccount Failed to register ACME account: ")
	if !strings.Contains(ready.Message, "x509: ") || !ready.Uninitialized || !ready.Again.Equal(w.clock.Now().Add(5*time.Second)) {
		t.Errorf("%+v", ready)
	}
	w.edit(func(a *cmacme.ACMEIssuer) { a.SkipTLSVerify = true })
	w.mustBeReady(t)
	w.edit(func(a *cmacme.ACMEIssuer) { a.SkipTLSVerify = false })
	w.says(t, "ErrRegisterACMEAccount Failed to register ACME account: ")
	w.edit(func(a *cmacme.ACMEIssuer) { a.CABundle = w.CABundle() })
	w.mustBeReady(t)
}

// Another key is another account; so is another server.
func TestOtherAccount(t *testing.T) {
	w := newWorld(t, acmetest.Options{}, nil)
	w.mustBeReady(t)
	first := w.issuer.Status.ACME.URI
	w.put(t, "ns", "account", map[string]string{"tls.key": encoded(t, newAccountKey(t, pki.ECDSAP256))})
	if _, err := w.accounts.Of(t.Context(), w.issuer); !errors.As(err, new(*account.NotReady)) {
		t.Errorf("the old account is used with the new key: %v", err)
	}
	w.mustBeReady(t)
	if second := w.issuer.Status.ACME.URI; second == first || len(w.Accounts()) != 2 {
		t.Errorf("the account with the new key is %q", second)
	}
	other := acmetest.Start(t, acmetest.Options{})
	w.edit(func(a *cmacme.ACMEIssuer) { a.Server, a.CABundle = other.Directory(), other.CABundle() })
	w.mustBeReady(t)
	if _, ok := other.Accounts()[w.issuer.Status.ACME.URI]; !ok {
		t.Errorf("%q is not an account of the other server", w.issuer.Status.ACME.URI)
	}
}

// An account that the server has refused is looked at again.
func TestSuspect(t *testing.T) {
	w := newWorld(t, acmetest.Options{}, nil)
	w.mustBeReady(t)
	first := w.issuer.Status.ACME.URI
	w.ForgetAccounts()
	w.mustBeReady(t)
	if w.issuer.Status.ACME.URI != first {
		t.Fatal("the server was asked without need")
	}
	w.accounts.Standing().Suspect(w.issuer)
	w.mustBeReady(t)
	if second := w.issuer.Status.ACME.URI; second == first || len(w.Accounts()) != 1 {
		t.Errorf("the account is still %s", second)
	}
	before := w.requests()
	w.mustBeReady(t)
	if w.requests() != before {
		t.Error("the suspicion does not end")
	}
}

// Without agreement, no account is registered where that is required.
func TestTermsAgreement(t *testing.T) {
	w := newWorld(t, acmetest.Options{TermsOfService: "https://ca.example.com/terms"}, nil)
	w.settings.RequireTermsAgreement = true
	w.restart(t)
	w.says(t, "ErrRegisterACMEAccount Failed to register ACME account: the CA has terms of service at https://ca.example.com/terms: if you agree")
	if w.Count(acmetest.NewAccount) != 0 {
		t.Error("the account is registered")
	}
	w.issuer.Annotations[TermsAnnotation] = "https://ca.example.com/terms"
	w.mustBeReady(t)
}

// An issuer that is ready says which of its solvers cannot be used here, and
// which fields of them have no effect.
func TestSolversHere(t *testing.T) {
	class := "nginx"
	for _, tc := range []struct {
		reason           string
		answers          Answers
		message, warning string
	}{
		{reason: "pods in a cluster", answers: Answers{HTTP01: ByPods, TLSALPN01: Listening}},
		{
			reason: "listeners", answers: Answers{HTTP01: Listening, TLSALPN01: Listening},
			warning: "spec.acme.solvers[0].http01.ingress.ingressClassName, spec.acme.solvers[1].http01.gatewayHTTPRoute.labels",
		},
		{
			reason: "nothing", warning: "spec.acme.solvers[0].http01.ingress.ingressClassName, spec.acme.solvers[1].http01.gatewayHTTPRoute.labels",
			message: "; its solver spec.acme.solvers[0] cannot be used, because nothing answers HTTP-01 challenges: the setting acme.http01.listen is empty" +
				"; its solver spec.acme.solvers[2] cannot be used, because nothing answers TLS-ALPN-01 challenges: the setting acme.tlsALPN01.listen is empty",
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t, acmetest.Options{}, func(a *cmacme.ACMEIssuer) {
				a.Solvers = []cmacme.ACMEChallengeSolver{
					{HTTP01: &cmacme.ACMEChallengeSolverHTTP01{Ingress: &cmacme.ACMEChallengeSolverHTTP01Ingress{IngressClassName: &class}}},
					{HTTP01: &cmacme.ACMEChallengeSolverHTTP01{GatewayHTTPRoute: &cmacme.ACMEChallengeSolverHTTP01GatewayHTTPRoute{Labels: map[string]string{"a": "b"}}}},
					{DNS01: &cmacme.ACMEChallengeSolverDNS01{Webhook: &cmacme.ACMEIssuerDNS01ProviderWebhook{GroupName: certmanager.ReservedGroup, SolverName: "tls-alpn-01"}}},
				}
			})
			w.answers = tc.answers
			w.restart(t)
			ready := w.check(t)
			if want := messageRegistered + tc.message; !ready.OK || ready.Message != want {
				t.Errorf("%s, want %s", ready.Message, want)
			}
			var told string
			for _, warning := range ready.Warnings {
				told += warning.Reason + " " + warning.Message
			}
			if want := tc.warning; want == "" && told != "" || !strings.HasSuffix(told, want) || want != "" && !strings.HasPrefix(told, "SolverFieldsIgnored HTTP-01 challenges are answered by listeners") {
				t.Errorf("warnings %q, want %q", told, want)
			}
		})
	}
}
