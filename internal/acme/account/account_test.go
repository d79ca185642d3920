package account_test

import (
	"crypto"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	cmacme "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/pki"
)

func newKey(t *testing.T, kind pki.KeyType) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func keySecret(t *testing.T, namespace string, key crypto.Signer) *corev1.Secret {
	t.Helper()
	data, err := account.EncodeKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "key"}, Data: map[string][]byte{"tls.key": data}}
}

func newIssuer(change func(*cmv1.Issuer)) *cmv1.Issuer {
	issuer := &cmv1.Issuer{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "acme", UID: "1", Generation: 1},
		Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{ACME: &cmacme.ACMEIssuer{
			Server: "https://ca.example.com/directory", PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "key"}},
		}}},
		Status: cmv1.IssuerStatus{ACME: &cmacme.ACMEIssuerStatus{URI: "https://ca.example.com/account/1"}},
	}
	if change != nil {
		change(issuer)
	}
	return issuer
}

func newAccounts(t *testing.T, objects ...client.Object) (*account.Accounts, client.Client) {
	t.Helper()
	p, err := acme.NewPool(acme.PoolConfig{UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c := fake.NewClientBuilder().WithObjects(objects...).Build()
	return account.New(account.Config{Pool: p, Secrets: c, ClusterResources: "cluster"}), c
}

func TestOf(t *testing.T) {
	key := newKey(t, pki.ECDSAP256)
	hash, err := account.KeyHash(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		reason string
		issuer func(*cmv1.Issuer)
		secret *corev1.Secret
		want   string
	}{
		{reason: "ready", secret: keySecret(t, "ns", key)},
		{reason: "ready with a hash", secret: keySecret(t, "ns", key), issuer: func(i *cmv1.Issuer) { i.Status.ACME.LastPrivateKeyHash = hash }},
		{reason: "no account", secret: keySecret(t, "ns", key), issuer: func(i *cmv1.Issuer) { i.Status.ACME = nil }, want: "has no account yet"},
		{reason: "no Secret", want: "the Secret ns/key with the key of the account does not exist"},
		{reason: "no entry", secret: keySecret(t, "ns", key), issuer: func(i *cmv1.Issuer) { i.Spec.ACME.PrivateKey.Key = "x" }, want: `no data for "x" in secret 'ns/key'`},
		{reason: "another key", secret: keySecret(t, "ns", newKey(t, pki.ECDSAP256)), issuer: func(i *cmv1.Issuer) { i.Status.ACME.LastPrivateKeyHash = hash }, want: "has changed"},
		{reason: "another type", secret: keySecret(t, "ns", key), issuer: func(i *cmv1.Issuer) { i.Spec.ACME = nil }, want: "not an ACME issuer"},
		{reason: "no server", secret: keySecret(t, "ns", key), issuer: func(i *cmv1.Issuer) { i.Spec.ACME.Server = "x" }, want: "the URL of the directory"},
	} {
		var objects []client.Object
		if test.secret != nil {
			objects = append(objects, test.secret)
		}
		accounts, _ := newAccounts(t, objects...)
		issuer := newIssuer(test.issuer)
		c, err := accounts.Of(t.Context(), issuer)
		if test.want == "" {
			if err != nil || c.Account() != "https://ca.example.com/account/1" {
				t.Errorf("%s: %v", test.reason, err)
			}
			continue
		}
		if !errors.As(err, new(*account.NotReady)) || !strings.HasPrefix(err.Error(), "ACME client for issuer not initialised/available") || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", test.reason, err)
		}
	}
}

// Whoever may create Issuers must not have the controllers call what listens on this host.
func TestLoopback(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { calls.Add(1) }))
	defer server.Close()
	key := keySecret(t, "ns", newKey(t, pki.ECDSAP256))
	at := func(server string) cmv1.IssuerSpec {
		issuer := newIssuer(nil)
		issuer.Spec.ACME.Server, issuer.Spec.ACME.SkipTLSVerify = server, true
		return issuer.Spec
	}
	pool, err := acme.NewPool(acme.PoolConfig{UserAgent: "test"})
	if err != nil {
		t.Fatal(err)
	}
	directory := func(guarded bool, of cmv1.GenericIssuer) error {
		accounts := account.New(account.Config{Pool: pool, Secrets: fake.NewClientBuilder().WithObjects(key).Build(), ClusterResources: "cluster", GuardLoopback: guarded})
		c, err := accounts.Client(of, newKey(t, pki.ECDSAP256), "")
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Directory(t.Context())
		return err
	}
	const refused = "127.0.0.1 is a loopback address, which only ClusterIssuers may use: acme.allowLoopback allows it for Issuers"
	for _, url := range []string{server.URL, strings.Replace(server.URL, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
		issuer, cluster := newIssuer(nil), &cmv1.ClusterIssuer{}
		issuer.Spec = at(url)
		cluster.Name, cluster.Spec = "le", at(url)
		before := calls.Load()
		if err := directory(true, issuer); err == nil || !strings.Contains(err.Error(), refused) || calls.Load() != before {
			t.Errorf("%s: %v after %d calls", url, err, calls.Load()-before)
		}
		for who, err := range map[string]error{"a ClusterIssuer": directory(true, cluster), "an Issuer where it is allowed": directory(false, issuer)} {
			if err == nil || !strings.Contains(err.Error(), "is not a directory of an ACME server") || calls.Load() == before {
				t.Errorf("%s, %s: %v", who, url, err)
			}
		}
	}
}

// A client is kept until what it was made from changes.
func TestOfAgain(t *testing.T) {
	accounts, api := newAccounts(t, keySecret(t, "ns", newKey(t, pki.ECDSAP256)), keySecret(t, "cluster", newKey(t, pki.ECDSAP384)))
	of := func(issuer cmv1.GenericIssuer) *acme.Client {
		t.Helper()
		c, err := accounts.Of(t.Context(), issuer)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := of(newIssuer(nil))
	if of(newIssuer(nil)) != first {
		t.Error("the client is made again")
	}
	if of(newIssuer(func(i *cmv1.Issuer) { i.Generation++ })) == first {
		t.Error("a new spec has the old client")
	}
	next := keySecret(t, "ns", newKey(t, pki.ECDSAP256))
	if err := api.Update(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	if of(newIssuer(nil)).KeyAuthorization("x") == first.KeyAuthorization("x") {
		t.Error("a new key has the old client")
	}
	plain := newIssuer(nil)
	cluster := &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "acme", UID: "2"}, Spec: plain.Spec, Status: plain.Status}
	if of(cluster).KeyAuthorization("x") == of(plain).KeyAuthorization("x") {
		t.Error("a ClusterIssuer has the key of a namespace")
	}
}

// While a key is replaced, the key that counts is not known until the server was
// asked.
func TestOfWhileReplaced(t *testing.T) {
	secret := keySecret(t, "ns", newKey(t, pki.ECDSAP256))
	secret.Data["tls.key"+account.NextSuffix] = []byte("x")
	accounts, _ := newAccounts(t, secret)
	issuer := newIssuer(nil)
	if _, err := accounts.Of(t.Context(), issuer); !errors.As(err, new(*account.NotReady)) {
		t.Error(err)
	}
	accounts.Standing().Checked(issuer, true)
	if _, err := accounts.Of(t.Context(), issuer); err != nil {
		t.Error(err)
	}
}

func TestSecrets(t *testing.T) {
	accounts, _ := newAccounts(t)
	ref := func(name string) cmmeta.SecretKeySelector {
		return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name}, Key: "k"}
	}
	pointer := func(name string) *cmmeta.SecretKeySelector { r := ref(name); return &r }
	issuer := newIssuer(func(i *cmv1.Issuer) {
		i.Spec.ACME.ExternalAccountBinding = &cmacme.ACMEExternalAccountBinding{Key: ref("eab")}
		for _, dns := range []cmacme.ACMEChallengeSolverDNS01{
			{Akamai: &cmacme.ACMEIssuerDNS01ProviderAkamai{AccessToken: ref("akamai1"), ClientSecret: ref("akamai2"), ClientToken: ref("akamai3")}},
			{AzureDNS: &cmacme.ACMEIssuerDNS01ProviderAzureDNS{ClientSecret: pointer("azure")}},
			{CloudDNS: &cmacme.ACMEIssuerDNS01ProviderCloudDNS{ServiceAccount: pointer("clouddns")}},
			{Cloudflare: &cmacme.ACMEIssuerDNS01ProviderCloudflare{APIKey: pointer("cloudflare")}},
			{Cloudflare: &cmacme.ACMEIssuerDNS01ProviderCloudflare{APIToken: pointer("cloudflare")}},
			{Route53: &cmacme.ACMEIssuerDNS01ProviderRoute53{SecretAccessKey: ref("aws1"), SecretAccessKeyID: pointer("aws2")}},
			{AcmeDNS: &cmacme.ACMEIssuerDNS01ProviderAcmeDNS{AccountSecret: ref("acmedns")}},
			{DigitalOcean: &cmacme.ACMEIssuerDNS01ProviderDigitalOcean{Token: ref("digitalocean")}},
			{Webhook: &cmacme.ACMEIssuerDNS01ProviderWebhook{GroupName: "dns.certplane.dev", SolverName: "desec", Config: &apiextensionsv1.JSON{Raw: []byte(`{"tokenSecretRef":{"name":"desec","key":"x"}}`)}}},
			{RFC2136: &cmacme.ACMEIssuerDNS01ProviderRFC2136{TSIGSecret: ref("tsig")}},
			{RFC2136: &cmacme.ACMEIssuerDNS01ProviderRFC2136{}},
			{Webhook: &cmacme.ACMEIssuerDNS01ProviderWebhook{}},
		} {
			i.Spec.ACME.Solvers = append(i.Spec.ACME.Solvers, cmacme.ACMEChallengeSolver{DNS01: &dns})
		}
		i.Spec.ACME.Solvers = append(i.Spec.ACME.Solvers, cmacme.ACMEChallengeSolver{HTTP01: &cmacme.ACMEChallengeSolverHTTP01{}})
	})
	var want []types.NamespacedName
	for _, name := range strings.Fields("key eab akamai1 akamai2 akamai3 azure clouddns cloudflare aws1 aws2 acmedns digitalocean desec tsig") {
		want = append(want, types.NamespacedName{Namespace: "ns", Name: name})
	}
	if diff := cmp.Diff(want, accounts.Secrets(issuer)); diff != "" {
		t.Error(diff)
	}
	if got := len(account.SolverSecrets(issuer)); got != len(want)-2 {
		t.Errorf("the solvers need %d entries", got)
	}
}
