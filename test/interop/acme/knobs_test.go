package acme

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/miekg/dns"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/run/server"
)

// on returns the world with another ACME server, which validates where the world
// answers.
func (w *world) on(o pebbleOptions) *world {
	w.t.Helper()
	o.httpPort, o.tlsPort, o.resolver = w.httpPort, w.tlsPort, w.resolver
	other := *w
	other.acme = startPebble(w.t, o)
	return &other
}

// issuerOf creates an Issuer for HTTP-01 and waits until it is ready.
func (w *world) issuerOf(name string, edit func(*acmev1.ACMEIssuer)) {
	w.t.Helper()
	issuer := newIssuer(w.acme, metav1.NamespaceDefault, name, byHTTP)
	edit(issuer.Spec.ACME)
	createReady(w.t, w.admin, issuer)
}

func forNames(names ...string) func(*cmv1.CertificateSpec) {
	return func(s *cmv1.CertificateSpec) { s.DNSNames = names }
}

// refused creates a Certificate, and waits until its issuance has failed with a
// text.
func (w *world) refused(name, issuer, text string, edit func(*cmv1.CertificateSpec)) *cmv1.Certificate {
	w.t.Helper()
	cert := &cmv1.Certificate{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	cert.Spec = cmv1.CertificateSpec{SecretName: name + "-tls", IssuerRef: cmmeta.IssuerReference{Name: issuer}}
	edit(&cert.Spec)
	w.create(cert)
	eventually(w.t, "the Certificate "+name+" has failed", func() bool {
		w.get(cert)
		return cert.Status.LastFailureTime != nil
	})
	for _, c := range cert.Status.Conditions {
		if strings.Contains(c.Message, text) {
			return cert
		}
	}
	w.t.Errorf("%s does not say %q: %+v", name, text, cert.Status.Conditions)
	return cert
}

// Issuers get from Pebble what its knobs can make it do.
func TestKnobs(t *testing.T) {
	w := newWorld(t, pebbleOptions{})
	t.Run("profiles", func(t *testing.T) {
		w := w.on(pebbleOptions{profiles: map[string]ca.Profile{
			"123h": {Description: "Short", ValidityPeriod: 123 * 3600}, "456h": {Description: "Longer", ValidityPeriod: 456 * 3600},
		}})
		for name, lives := range map[string]time.Duration{"123h": 123 * time.Hour, "456h": 456 * time.Hour} {
			w.issuerOf("profile-"+name, func(i *acmev1.ACMEIssuer) { i.Profile = name })
			leaf := w.certificate("profile-"+name, "profile-"+name, func(s *cmv1.CertificateSpec) { s.DNSNames = []string{name + ".example.com"} })
			if got := leaf.NotAfter.Sub(leaf.NotBefore).Round(time.Minute); got != lives {
				t.Errorf("a certificate of the profile %s lives for %v", name, got)
			}
		}
		w.issuerOf("profile-none", func(i *acmev1.ACMEIssuer) { i.Profile = "unsupported-profile" })
		w.refused("profile-none", "profile-none", "acme: certificate authority does not advertise a profile with name unsupported-profile", forNames("none.example.com"))
	})
	t.Run("external account", func(t *testing.T) {
		const kid, key = "kid-1", "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
		w := w.on(pebbleOptions{externalAccounts: map[string]string{kid: key}})
		w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "eab"}, StringData: map[string]string{"key": key}})
		without := newIssuer(w.acme, metav1.NamespaceDefault, "without", byHTTP)
		w.create(without)
		eventually(t, "the issuer without an external account is refused", func() bool {
			w.get(without)
			conditions := without.Status.Conditions
			return len(conditions) > 0 && conditions[0].Status == cmmeta.ConditionFalse && strings.Contains(conditions[0].Message, "externalAccountRequired")
		})
		w.issuerOf("external", func(i *acmev1.ACMEIssuer) {
			i.ExternalAccountBinding = &acmev1.ACMEExternalAccountBinding{
				KeyID: kid, Key: cmmeta.SecretKeySelector{LocalObjectReference: cmmeta.LocalObjectReference{Name: "eab"}, Key: "key"},
			}
		})
		w.certificate("external", "external", forNames("external.example.com"))
	})
	t.Run("preferred chain", func(t *testing.T) {
		w := w.on(pebbleOptions{alternateRoots: 2})
		want := w.root(2).Subject.CommonName
		w.issuerOf("chain", func(i *acmev1.ACMEIssuer) { i.PreferredChain = want })
		w.certificate("chain", "chain", forNames("chain.example.com"))
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "chain-tls"}}
		w.get(secret)
		_, rest := pem.Decode(secret.Data[corev1.TLSCertKey])
		above, _ := pem.Decode(rest)
		if above == nil {
			t.Fatalf("no intermediate in %s", secret.Data[corev1.TLSCertKey])
		}
		intermediate, err := x509.ParseCertificate(above.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		if got := intermediate.Issuer.CommonName; got != want {
			t.Errorf("the chain leads to %q, not to %q", got, want)
		}
	})
	t.Run("blocked names", func(t *testing.T) {
		w := w.on(pebbleOptions{blocked: []string{"blocked.example.com"}})
		w.issuerOf("blocking", func(*acmev1.ACMEIssuer) {})
		cert := w.refused("blocked", "blocking", "rejectedIdentifier", forNames("www.blocked.example.com"))
		var orders acmev1.OrderList
		if err := w.admin.List(t.Context(), &orders, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			t.Fatal(err)
		}
		errored := 0
		for _, o := range orders.Items {
			if o.Spec.DNSNames[0] == "www.blocked.example.com" && o.Status.State == acmev1.Errored {
				errored++
			}
		}
		if errored != 1 {
			t.Errorf("%d Orders are errored", errored)
		}
		eventually(t, "the Certificate is edited", func() bool {
			w.get(cert)
			cert.Spec.DNSNames = []string{"good.example.com"}
			return w.admin.Update(t.Context(), cert) == nil
		})
		w.ready(cert)
	})
	t.Run("authorizations that are used again", func(t *testing.T) {
		t.Setenv("PEBBLE_AUTHZREUSE", "100")
		counted := &calls{by: map[string]int{}}
		w := w.on(pebbleOptions{wrap: counted.count})
		w.issuerOf("reuse", func(*acmev1.ACMEIssuer) {})
		w.certificate("reuse-1", "reuse", forNames("reuse.example.com"))
		w.certificate("reuse-2", "reuse", forNames("reuse.example.com"))
		if n := counted.of("chalZ"); n != 1 {
			t.Errorf("%d challenges were accepted", n)
		}
	})
	t.Run("refused nonces and waits", func(t *testing.T) {
		t.Setenv("PEBBLE_WFE_NONCEREJECT", "50")
		w := w.on(pebbleOptions{retryAfter: 2})
		w.issuerOf("nonces", func(*acmev1.ACMEIssuer) {})
		w.certificate("nonces", "nonces", forNames("nonces-1.example.com", "nonces-2.example.com"))
	})
	t.Run("a CertificateSigningRequest", func(t *testing.T) {
		w.issuerOf("csr", func(*acmev1.ACMEIssuer) {})
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{DNSNames: []string{"csr.example.com"}}, key)
		if err != nil {
			t.Fatal(err)
		}
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "acme"}}
		csr.Spec.Request = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
		csr.Spec.SignerName = "issuers.cert-manager.io/default.csr"
		csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
		w.create(csr)
		csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"}}
		if err := w.admin.SubResource("approval").Update(t.Context(), csr); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the CertificateSigningRequest has its certificate", func() bool {
			w.get(csr)
			return len(csr.Status.Certificate) > 0
		})
		block, _ := pem.Decode(csr.Status.Certificate)
		if leaf, err := x509.ParseCertificate(block.Bytes); err != nil || leaf.VerifyHostname("csr.example.com") != nil {
			t.Errorf("%+v, %v", leaf, err)
		}
	})
	w.leftovers()
}

// root returns a root of Pebble, from its management interface.
func (w *world) root(i int) *x509.Certificate {
	w.t.Helper()
	answer := httptest.NewRecorder()
	w.acme.management.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, fmt.Sprintf("/roots/%d", i), nil))
	block, _ := pem.Decode(answer.Body.Bytes())
	if block == nil {
		w.t.Fatalf("no root %d: %s", i, answer.Body)
	}
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		w.t.Fatal(err)
	}
	return root
}

// The two drafts that have DNS records of another kind work behind their gates.
func TestDrafts(t *testing.T) {
	const soa = " 300 IN SOA ns1.example.com. admin.example.com. 1 3600 600 86400 60"
	names := dnstest.Start(t, dnstest.Options{Keys: map[string]dnstest.Key{"updates.": {Algorithm: dns.HmacSHA256, Secret: "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}}}, "example.com."+soa)
	w := newWorld(t, pebbleOptions{resolver: names.Addr}, func(cfg *server.Config) {
		cfg.ACME.DNS01.RecursiveNameservers, cfg.ACME.DNS01.RecursiveNameserversOnly = []string{names.Addr}, true
		cfg.ACME.DNS01.PropagationDelay = &metav1.Duration{}
		cfg.ACME.DNS01.DNSAccount01, cfg.ACME.DNS01.DNSPersist01 = true, true
	})
	w.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "tsig"}, StringData: map[string]string{"key": "c2VjcmV0c2VjcmV0c2VjcmV0c2VjcmV0"}})
	config, err := json.Marshal(map[string]any{"rfc2136": map[string]any{
		"nameserver": names.Addr, "tsigAlgorithm": "HMACSHA256", "tsigKeyName": "updates", "tsigSecretSecretRef": map[string]string{"name": "tsig", "key": "key"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	reserved := func(solver string, config []byte) acmev1.ACMEChallengeSolver {
		hook := &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: "acme.certplane.dev", SolverName: solver}
		if config != nil {
			hook.Config = &apiextensionsv1.JSON{Raw: config}
		}
		return acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{Webhook: hook}}
	}
	w.issuer("account", reserved("dns-account-01", config))
	w.certificate("account", "account", forNames("a.example.com", "*.a.example.com"))
	for _, update := range names.Updates() {
		if name := update.Ns[0].Header().Name; !strings.HasPrefix(name, "_") || !strings.HasSuffix(name, "._acme-challenge.a.example.com.") {
			t.Errorf("a record of %s", name)
		}
	}
	persist := newIssuer(w.acme, metav1.NamespaceDefault, "persist", reserved("dns-persist-01", nil))
	createReady(t, w.admin, persist)
	before := len(names.Updates())
	names.Set(t, "example.com."+soa, fmt.Sprintf(`_validation-persist.b.example.com. 60 IN TXT "pebble.example; accounturi=%s; policy=wildcard"`, persist.Status.ACME.URI))
	w.certificate("persist", "persist", forNames("b.example.com", "*.b.example.com"))
	if made := len(names.Updates()) - before; made > 0 {
		t.Errorf("%d records were written", made)
	}
	w.leftovers()
}
