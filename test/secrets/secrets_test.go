package secrets

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/acmetest"
	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/process/logging"
	"github.com/certplane/certplane/internal/run/server"
)

// log is what this process logs.
var log output

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "certplane-secrets-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = internet.open(dir)
	}
	if err == nil {
		err = logging.Config{Format: logging.JSON, Verbosity: 4}.Apply(&log)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// output keeps what is written to it.
type output struct {
	mu   sync.Mutex
	data bytes.Buffer // mu guards it
}

func (o *output) Write(data []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.Write(data)
}

func (o *output) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.data.String()
}

// The secrets. Secrets that are sent to another server come back in errors.
const (
	macKey        = "mac-key-of-the-external-account-kid-1"
	cloudflareKey = "cloudflare-token-0123456789"
	desecKey      = "desec-token-0123456789"
	vaultToken    = "hvs.vault-token-0123456789"
	acmeDNSKey    = "password-of-the-acme-dns-account"
	// broken is in values that cannot be read as what they should be.
	broken = "secret-that-cannot-be-parsed"
)

var tsigKey = []byte("tsig-key-0123456789-0123456789-0")

// Certificates are requested, and one is issued, from servers that show in their
// errors what they were sent. Nothing of that is anywhere but in Secrets.
func TestSecretsStayHidden(t *testing.T) {
	w := newWorld(t)
	w.secrets()
	w.issuers()
	w.await("Certificate acme-rfc2136", func() bool { return w.isReady("acme-rfc2136") })
	for _, name := range []string{"acme-cloudflare", "acme-desec", "acme-acmedns"} {
		w.await("Challenge of "+name, func() bool { return strings.Contains(w.reason(name), "[hidden]") })
	}
	w.await("answer of Vault", func() bool {
		return strings.Contains(w.list(&cmv1.CertificateRequestList{})+w.list(&cmv1.IssuerList{}), "Code: 403")
	})
	for _, name := range []string{"broken-eab", "broken-key"} {
		w.await("Issuer "+name, func() bool { return w.isRefused(name) })
	}
	for _, name := range []string{"broken-tsig", "broken-cloudflare", "broken-acmedns"} {
		w.await("Challenge of "+name, func() bool { return w.reason(name) != "" })
	}
	for _, secret := range []string{cloudflareKey, desecKey, vaultToken, acmeDNSKey} {
		if !w.echoes.got(secret) {
			t.Errorf("nobody was sent %s", secret)
		}
	}
	w.search()
}

// world is a server, and those who tell what it sends them.
type world struct {
	*testing.T
	*apitest.Server
	echoes *echoes
	ca     *acmetest.Server
	names  *dnstest.Server
	api    client.Client
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, echoes: &echoes{}}
	w.names = dnstest.Start(t, dnstest.Options{
		Keys: map[string]dnstest.Key{"certplane.": {Algorithm: dns.HmacSHA256, Secret: base64.StdEncoding.EncodeToString(tsigKey)}},
	}, "example.com. 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60", "example.com. 300 IN NS ns1.example.com.")
	w.ca = acmetest.Start(t, acmetest.Options{ExternalAccounts: map[string][]byte{"kid-1": []byte(macKey)}, Hook: w.refuseFirst})
	w.echoes.providers(t)
	w.Server = apitest.Start(t, func(cfg *server.Config) {
		cfg.ACME.DNS01.RecursiveNameservers, cfg.ACME.DNS01.RecursiveNameserversOnly = []string{w.names.Addr}, true
		cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
		cfg.CertManager.Vault.AllowLoopback = true
	})
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, certmanager.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	var err error
	if w.api, err = client.New(w.Admin(t), client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
	return w
}

// refuseFirst refuses the first requests of some kinds, with all that was in
// them. Each costs a wait of seconds.
func (w *world) refuseFirst(c acmetest.Call) *acmetest.Reply {
	if c.N > 1 || !slices.Contains([]acmetest.Kind{acmetest.NewAccount, acmetest.NewOrder, acmetest.Finalize}, c.Kind) {
		return nil
	}
	return acmetest.Refused(http.StatusInternalServerError, "serverInternal", fmt.Sprintf("%s %v %s", c.URL, c.Header, c.Payload))
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := w.api.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: corev1.NamespaceDefault, Name: name}
}

func (w *world) secrets() {
	account := func(domain, password string) string {
		text, err := json.Marshal(map[string]any{domain: map[string]string{
			"username": "user", "password": password, "fulldomain": "x.auth.example.com", "subdomain": "x",
		}})
		if err != nil {
			w.Fatal(err)
		}
		return string(text)
	}
	for name, value := range map[string]string{
		"eab": base64.RawURLEncoding.EncodeToString([]byte(macKey)), "broken-eab": "%" + broken,
		"tsig": base64.StdEncoding.EncodeToString(tsigKey), "broken-tsig": "%" + broken,
		"desec": desecKey, "cloudflare": cloudflareKey, "broken-cloudflare": broken + "\x00\n" + broken,
		"acmedns": account("acmedns.example.com", acmeDNSKey), "broken-acmedns": `{"` + broken + `": "` + broken,
		"broken-key": "-----BEGIN RSA PRIVATE KEY-----\n" + broken + "\n-----END RSA PRIVATE KEY-----\n",
		"vault":      vaultToken,
	} {
		w.create(&corev1.Secret{ObjectMeta: named(name), StringData: map[string]string{"key": value}})
	}
}

func secretKey(name string) cmmeta.SecretKeySelector {
	return cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name}, Key: "key"}
}

// solver returns a solver by a provider with a Secret.
func (w *world) solver(provider, secret string) acmev1.ACMEChallengeSolver {
	by, key := &acmev1.ACMEChallengeSolverDNS01{}, secretKey(secret)
	switch provider {
	case "rfc2136":
		by.RFC2136 = &acmev1.ACMEIssuerDNS01ProviderRFC2136{Nameserver: w.names.Addr, TSIGKeyName: "certplane", TSIGAlgorithm: "HMACSHA256", TSIGSecret: key}
	case "cloudflare":
		by.Cloudflare = &acmev1.ACMEIssuerDNS01ProviderCloudflare{APIToken: &key}
	case "desec":
		config := fmt.Sprintf(`{"tokenSecretRef": {"name": %q, "key": %q}}`, key.Name, key.Key)
		by.Webhook = &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: "dns.certplane.dev", SolverName: "desec", Config: &apiextensionsv1.JSON{Raw: []byte(config)}}
	case "acmedns":
		by.AcmeDNS = &acmev1.ACMEIssuerDNS01ProviderAcmeDNS{Host: w.echoes.acmeDNS(w.T), AccountSecret: key}
	}
	return acmev1.ACMEChallengeSolver{DNS01: by}
}

// acme creates an Issuer with one solver, and a Certificate.
func (w *world) acme(name, provider, secret string, change func(*acmev1.ACMEIssuer)) {
	w.Helper()
	issuer := &cmv1.Issuer{ObjectMeta: named(name)}
	issuer.Spec.ACME = &acmev1.ACMEIssuer{
		Server: w.ca.Directory(), CABundle: w.ca.CABundle(), PrivateKey: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: name + "-account"}},
		ExternalAccountBinding: &acmev1.ACMEExternalAccountBinding{KeyID: "kid-1", Key: secretKey("eab")},
		Solvers:                []acmev1.ACMEChallengeSolver{w.solver(provider, secret)},
	}
	if change != nil {
		change(issuer.Spec.ACME)
	}
	w.create(issuer)
	w.certificate(name, provider+".example.com")
}

func (w *world) certificate(name, domain string) {
	w.Helper()
	w.create(&cmv1.Certificate{ObjectMeta: named(name), Spec: cmv1.CertificateSpec{
		SecretName: name + "-tls", DNSNames: []string{domain}, IssuerRef: cmmeta.IssuerReference{Name: name},
	}})
}

func (w *world) issuers() {
	for provider, secret := range map[string]string{"rfc2136": "tsig", "cloudflare": "cloudflare", "desec": "desec", "acmedns": "acmedns"} {
		w.acme("acme-"+provider, provider, secret, nil)
	}
	w.acme("broken-tsig", "rfc2136", "broken-tsig", nil)
	w.acme("broken-cloudflare", "cloudflare", "broken-cloudflare", nil)
	w.acme("broken-acmedns", "acmedns", "broken-acmedns", nil)
	w.acme("broken-eab", "rfc2136", "tsig", func(a *acmev1.ACMEIssuer) { a.ExternalAccountBinding.Key = secretKey("broken-eab") })
	w.acme("broken-key", "rfc2136", "tsig", func(a *acmev1.ACMEIssuer) { a.PrivateKey = secretKey("broken-key") })
	address, bundle := w.echoes.vault(w.T)
	token := secretKey("vault")
	w.create(&cmv1.Issuer{ObjectMeta: named("vault"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{Vault: &cmv1.VaultIssuer{
		Server: address, Path: "pki/sign/web", CABundle: bundle, Auth: cmv1.VaultAuth{TokenSecretRef: &token},
	}}}})
	w.certificate("vault", "vault.example.com")
}

func (w *world) await(what string, holds func() bool) {
	w.Helper()
	err := wait.PollUntilContextTimeout(w.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return holds(), nil })
	if err != nil {
		w.Fatalf("%s: %v\n%s", what, err, w.describe())
	}
}

// describe returns what Issuers, Orders and Challenges say.
func (w *world) describe() string {
	var text strings.Builder
	issuers, orders, challenges := &cmv1.IssuerList{}, &acmev1.OrderList{}, &acmev1.ChallengeList{}
	_, _, _ = w.list(issuers), w.list(orders), w.list(challenges)
	for _, i := range issuers.Items {
		fmt.Fprintf(&text, "Issuer %s: %+v\n", i.Name, i.Status.Conditions)
	}
	for _, o := range orders.Items {
		fmt.Fprintf(&text, "Order %s: %s %s\n", o.Name, o.Status.State, o.Status.Reason)
	}
	for _, ch := range challenges.Items {
		fmt.Fprintf(&text, "Challenge of %s: %s %s\n", ch.Spec.IssuerRef.Name, ch.Status.State, ch.Status.Reason)
	}
	return text.String()
}

// patience is enough for a few waits after failures.
const patience = 3 * time.Minute

func (w *world) isReady(name string) bool {
	cert := &cmv1.Certificate{ObjectMeta: named(name)}
	if err := w.api.Get(w.Context(), client.ObjectKeyFromObject(cert), cert); err != nil {
		w.Fatal(err)
	}
	for _, c := range cert.Status.Conditions {
		if c.Type == cmv1.CertificateConditionReady && c.Status == cmmeta.ConditionTrue {
			return true
		}
	}
	return false
}

func (w *world) isRefused(name string) bool {
	issuer := &cmv1.Issuer{ObjectMeta: named(name)}
	if err := w.api.Get(w.Context(), client.ObjectKeyFromObject(issuer), issuer); err != nil {
		w.Fatal(err)
	}
	for _, c := range issuer.Status.Conditions {
		if c.Type == cmv1.IssuerConditionReady && c.Status == cmmeta.ConditionFalse && c.Message != "" {
			return true
		}
	}
	return false
}

// reason returns what the Challenge of an issuer says.
func (w *world) reason(issuer string) string {
	var all acmev1.ChallengeList
	if err := w.api.List(w.Context(), &all); err != nil {
		w.Fatal(err)
	}
	for _, ch := range all.Items {
		if ch.Spec.IssuerRef.Name == issuer {
			return ch.Status.Reason
		}
	}
	return ""
}

// search looks for the secrets, in all ways in which they are usually encoded.
func (w *world) search() {
	w.Helper()
	places := map[string]string{"the log": log.text(), "the metrics": w.metrics()}
	for _, list := range []client.ObjectList{
		&cmv1.IssuerList{}, &cmv1.ClusterIssuerList{}, &cmv1.CertificateList{}, &cmv1.CertificateRequestList{},
		&acmev1.OrderList{}, &acmev1.ChallengeList{}, &eventsv1.EventList{}, &corev1.ConfigMapList{},
	} {
		places[fmt.Sprintf("%T", list)] = w.list(list)
	}
	for place, want := range map[string]string{
		"the log": "Challenge has changed", "the metrics": "certmanager_http_acme_client_request_count",
		"*v1.ChallengeList": "[hidden]", "*v1.IssuerList": "vault", "*v1.EventList": "PresentError",
	} {
		if !strings.Contains(places[place], want) {
			w.Errorf("%s does not have %q", place, want)
		}
	}
	for what, secret := range w.hidden() {
		for how, text := range encodings(secret) {
			for place, content := range places {
				if at := strings.Index(content, text); at >= 0 {
					w.Errorf("%s has the secret %s, %s: ...%s...", place, what, how, content[max(0, at-200):min(len(content), at+len(text)+50)])
				}
			}
		}
	}
}

// hidden returns all secrets, also the keys that the server has made.
func (w *world) hidden() map[string][]byte {
	w.Helper()
	all := map[string][]byte{
		"eab": []byte(macKey), "tsig": tsigKey, "cloudflare": []byte(cloudflareKey), "desec": []byte(desecKey), "vault": []byte(vaultToken),
		"acme-dns": []byte(acmeDNSKey), "broken": []byte(broken),
	}
	for _, name := range []string{"acme-rfc2136-account", "acme-rfc2136-tls"} {
		secret := &corev1.Secret{ObjectMeta: named(name)}
		if err := w.api.Get(w.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			w.Fatal(err)
		}
		for key, value := range secret.Data {
			if block, _ := pem.Decode(value); block != nil && strings.Contains(block.Type, "PRIVATE KEY") {
				all[name+" "+key] = block.Bytes[len(block.Bytes)/2:][:30] // not the algorithm, and a part of the private numbers
			}
		}
	}
	if len(all) != 9 {
		w.Errorf("%d secrets", len(all))
	}
	return all
}

// encodings returns a secret in texts. Base64 depends on how many bytes come
// before, if the secret is a part of what was encoded.
func encodings(secret []byte) map[string]string {
	all := map[string]string{"raw": string(secret), "in hexadecimal": hex.EncodeToString(secret), "in a query": url.QueryEscape(string(secret))}
	for name, encoding := range map[string]*base64.Encoding{"base64": base64.RawStdEncoding, "base64url": base64.RawURLEncoding} {
		for before := range 3 {
			encoded := encoding.EncodeToString(append(make([]byte, before), secret...))
			// What is whole characters of the secret alone.
			all[fmt.Sprintf("%s after %d bytes", name, before)] = encoded[(before*8+5)/6 : len(encoded)-1]
		}
	}
	return all
}

func (w *world) list(list client.ObjectList) string {
	w.Helper()
	if err := w.api.List(context.WithoutCancel(w.Context()), list); err != nil {
		w.Fatal(err)
	}
	text, err := json.Marshal(list)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

func (w *world) metrics() string {
	w.Helper()
	text, err := apitest.Client(w.T, w.Admin(w.T)).CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}
