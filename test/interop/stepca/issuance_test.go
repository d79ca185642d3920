package stepca

import (
	"encoding/base64"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	byHTTP    = acmev1.ACMEChallengeSolver{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{Ingress: &acmev1.ACMEChallengeSolverHTTP01Ingress{}}}
	byTLSALPN = acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{
		Webhook: &acmev1.ACMEIssuerDNS01ProviderWebhook{GroupName: "acme.certplane.dev", SolverName: "tls-alpn-01"},
	}}
)

func solvedBy(solver acmev1.ACMEChallengeSolver) func(*acmev1.ACMEIssuer) {
	return func(i *acmev1.ACMEIssuer) { i.Solvers = []acmev1.ACMEChallengeSolver{solver} }
}

// Certificates are issued for names and addresses by each kind of challenge.
func TestChallenges(t *testing.T) {
	w := newWorld(t, nil)
	byDNS := acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{
		Nameserver: w.names.Addr, TSIGAlgorithm: "HMACSHA256", TSIGKeyName: "updates", TSIGSecret: w.secret("tsig", "key", tsigSecret),
	}}}
	for name, solver := range map[string]acmev1.ACMEChallengeSolver{"http": byHTTP, "alpn": byTLSALPN, "dns": byDNS} {
		w.issuer(name, cmmeta.ConditionTrue, solvedBy(solver))
	}
	for _, test := range []struct{ name, issuer, names, addresses, reason string }{
		{"http-names", "http", "a.example.com b.example.com", "", "two authorizations of one order"},
		{"http-address", "http", "", "127.0.0.1", "an identifier of RFC 8738"},
		{"http-ipv6", "http", "", "2001:db8::1", "brackets around the host of the URL"},
		{"alpn-name", "alpn", "c.example.com", "", ""},
		{"alpn-address", "alpn", "", "127.0.0.1", "the server name is that of the reverse zone"},
		{"dns-wildcard", "dns", "example.com *.example.com", "", "two values of one record"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := w.of(t)
			leaf := w.certificate(test.name, test.issuer, func(s *cmv1.CertificateSpec) {
				s.DNSNames, s.IPAddresses = strings.Fields(test.names), strings.Fields(test.addresses)
			})
			if got, want := len(leaf.DNSNames), len(strings.Fields(test.names)); got != want {
				t.Errorf("%d names, not %d: %q (%s)", got, want, leaf.DNSNames, test.reason)
			}
			for _, host := range append(strings.Fields(test.names), strings.Fields(test.addresses)...) {
				if err := leaf.VerifyHostname(strings.Replace(host, "*", "any", 1)); err != nil {
					t.Errorf("%v (%s)", err, test.reason)
				}
			}
		})
	}
	w.leftovers()
	if left := w.names.TXT("_acme-challenge.example.com."); len(left) > 0 {
		t.Errorf("records are left: %q", left)
	}
}

// step-ca issues for the duration that an order asks for.
func TestDuration(t *testing.T) {
	w := newWorld(t, nil)
	w.issuer("hours", cmmeta.ConditionTrue, func(i *acmev1.ACMEIssuer) {
		solvedBy(byHTTP)(i)
		i.EnableDurationFeature = true
	})
	leaf := w.certificate("hours", "hours", func(s *cmv1.CertificateSpec) {
		s.DNSNames = []string{"hours.example.com"}
		s.Duration = &metav1.Duration{Duration: 5 * time.Hour}
	})
	if left := time.Until(leaf.NotAfter); left < 4*time.Hour || left > 6*time.Hour {
		t.Errorf("the certificate is valid for %v, not for 5h", left)
	}
}

// An account is bound to an account of another system, if the provisioner
// requires it.
func TestExternalAccount(t *testing.T) {
	w := newWorld(t, nil)
	message := w.issuer("without", cmmeta.ConditionFalse, func(i *acmev1.ACMEIssuer) { i.Server = w.ca.directory(bound) })
	if !strings.Contains(message, "externalAccountRequired") {
		t.Errorf("the issuer without an external account says %q", message)
	}
	key := w.ca.externalAccount(t)
	secret := w.secret("eab", "key", base64.RawURLEncoding.EncodeToString(key.HmacKey))
	bind := func(i *acmev1.ACMEIssuer) {
		solvedBy(byHTTP)(i)
		i.Server = w.ca.directory(bound)
		i.ExternalAccountBinding = &acmev1.ACMEExternalAccountBinding{KeyID: key.ID, Key: secret}
	}
	w.issuer("with", cmmeta.ConditionTrue, bind)
	w.certificate("with", "with", func(s *cmv1.CertificateSpec) { s.DNSNames = []string{"bound.example.com"} })
}

// An issuance fails at once if another web server answers. step-ca fails only the
// challenge: its authorization stays pending.
func TestWrongAnswer(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another server")) }))
	t.Cleanup(other.Close)
	w := newWorld(t, map[string]string{"other.example.com": other.Listener.Addr().String()})
	w.issuer("http", cmmeta.ConditionTrue, solvedBy(byHTTP))
	cert := &cmv1.Certificate{ObjectMeta: named("other"), Spec: cmv1.CertificateSpec{
		SecretName: "other-tls", IssuerRef: cmmeta.IssuerReference{Name: "http"}, DNSNames: []string{"other.example.com"},
	}}
	w.create(cert)
	w.eventually("the issuance fails", func() bool {
		w.get(cert)
		return cert.Status.LastFailureTime != nil
	})
	var orders acmev1.OrderList
	if err := w.admin.List(t.Context(), &orders); err != nil {
		t.Fatal(err)
	}
	if len(orders.Items) != 1 || !strings.Contains(orders.Items[0].Status.Reason, "urn:ietf:params:acme:error:rejectedIdentifier") {
		t.Errorf("the reason is not in the order: %+v", orders.Items)
	}
}

// A CA that could not connect asks again.
func TestNoConnection(t *testing.T) {
	later := freeAddress(t)
	w := newWorld(t, map[string]string{"later.example.com": later})
	w.issuer("http", cmmeta.ConditionTrue, solvedBy(byHTTP))
	w.create(&cmv1.Certificate{ObjectMeta: named("later"), Spec: cmv1.CertificateSpec{
		SecretName: "later-tls", IssuerRef: cmmeta.IssuerReference{Name: "http"}, DNSNames: []string{"later.example.com"},
	}})
	w.eventually("the Challenge says why", func() bool {
		var all acmev1.ChallengeList
		return w.admin.List(t.Context(), &all) == nil && len(all.Items) == 1 && strings.Contains(all.Items[0].Status.Reason, "urn:ietf:params:acme:error:connection")
	})
	forward(t, later, w.view.http)
	w.issued("later")
}

// An issuer that cannot verify the server reports the reason.
func TestWrongBundle(t *testing.T) {
	w := newWorld(t, nil)
	// All servers of httptest have the same certificate: this is of another CA.
	other := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: w.ca.roots.Root.Raw})
	message := w.issuer("wrong", cmmeta.ConditionFalse, func(i *acmev1.ACMEIssuer) { i.CABundle = other })
	if !strings.Contains(message, "x509: ") {
		t.Errorf("the issuer with the roots of another CA says %q", message)
	}
}
