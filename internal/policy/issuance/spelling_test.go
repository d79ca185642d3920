package issuance_test

import (
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// A certificate that was issued for a request is stored, however the Certificate
// spells what it asks for: no request that is ready leaves its Certificate waiting
// without a reason.
func TestSpellings(t *testing.T) {
	other := func(oid string) func(*cmv1.CertificateSpec) {
		return func(s *cmv1.CertificateSpec) {
			s.OtherNames = []cmv1.OtherName{{OID: oid, UTF8Value: "me@shop.example"}}
		}
	}
	literal := func(text string) func(*cmv1.CertificateSpec) {
		return func(s *cmv1.CertificateSpec) { s.CommonName, s.Subject, s.LiteralSubject = "", nil, text }
	}
	for name, change := range map[string]func(*cmv1.CertificateSpec){
		"an OID":                    other("1.3.6.1.4.1.311.20.2.3"),
		"an OID with a zero before": other("1.3.6.1.4.1.311.020.2.3"),
		"an OID with many zeros":    other("01.03.0006.1.4.1.311.020.2.00"),
		"another name twice": func(s *cmv1.CertificateSpec) {
			other("1.2.03")(s)
			s.OtherNames = append(s.OtherNames, cmv1.OtherName{OID: "1.2.3", UTF8Value: "me@shop.example"})
		},
		"capital letters": func(s *cmv1.CertificateSpec) {
			s.CommonName, s.DNSNames = "WWW.Shop.example", []string{"www.SHOP.example"}
		},
		"a name in two cases":      func(s *cmv1.CertificateSpec) { s.DNSNames = []string{"shop.example", "SHOP.example"} },
		"a name twice":             func(s *cmv1.CertificateSpec) { s.DNSNames = []string{"shop.example", "shop.example"} },
		"IPv6 in another spelling": func(s *cmv1.CertificateSpec) { s.IPAddresses = []string{"2001:DB8:0:0::1", "::ffff:10.0.0.1"} },
		"an address twice":         func(s *cmv1.CertificateSpec) { s.IPAddresses = []string{"::1", "0:0::1"} },
		"URIs with capital letters": func(s *cmv1.CertificateSpec) {
			s.URIs = []string{"SPIFFE://Shop.example/A%2fb", "https://shop.example:443/%7ea"}
		},
		"an e-mail address":             func(s *cmv1.CertificateSpec) { s.EmailAddresses = []string{"Me@SHOP.example", "Me@SHOP.example"} },
		"a literal subject":             literal("CN=web,O=Shop"),
		"a literal subject with OIDs":   literal("2.5.4.03=web,02.5.4.10=Shop"),
		"a literal subject with spaces": literal("CN = web , O=Shop\\, Inc."),
		"a literal subject in small":    literal("cn=web,ou=A+ou=B,dc=shop"),
		"organizations twice":           func(s *cmv1.CertificateSpec) { s.Subject = &cmv1.X509Subject{Organizations: []string{"b", "a", "b"}} },
		"letters beyond ASCII": func(s *cmv1.CertificateSpec) {
			s.Subject = &cmv1.X509Subject{Organizations: []string{"Zoë", "密"}, Countries: []string{"nz"}}
		},
		"usages twice": func(s *cmv1.CertificateSpec) {
			s.Usages = []cmv1.KeyUsage{"server auth", "signing", "digital signature", "server auth"}
		},
		"a duration with fractions": func(s *cmv1.CertificateSpec) {
			s.Duration = &metav1.Duration{Duration: 90*time.Hour + 7*time.Nanosecond}
		},
		"an issuer with its kind and group": func(s *cmv1.CertificateSpec) { s.IssuerRef.Kind, s.IssuerRef.Group = "Issuer", "cert-manager.io" },
		"name constraints": func(s *cmv1.CertificateSpec) {
			s.IsCA, s.CommonName = true, "ca"
			s.DNSNames = nil
			s.NameConstraints = &cmv1.NameConstraints{Permitted: &cmv1.NameConstraintItem{DNSDomains: []string{"Shop.example"}, IPRanges: []string{"10.0.0.7/24"}}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			change(&w.crt.Spec)
			at := now.Add(hour)
			issuance.SetIssuing(w.crt, issuance.Finding{Reason: issuance.ReasonRequestChanged}, at)
			key := newKey(t, pki.ECDSAP256)
			w.crt.Status.NextPrivateKeySecretName = ptr.To("web-abc")
			cr := w.newRequest(key)
			cr.CreationTimestamp = metav1.NewTime(at)
			w.requests = append(w.requests, cr)
			w.answer(cr, at)
			if plan := issuance.PlanRequest(w.situation(), key.Public()); plan.Keep != cr {
				t.Errorf("the request is not kept: %+v", plan)
			}
			if outcome := issuance.Issue(w.situation(), key, at); outcome.Step != issuance.Store {
				t.Errorf("the certificate is not stored: %+v", outcome)
			}
			w.secret = w.newSecret(key, cr)
			issuance.SetIssued(w.crt)
			if start := backoff.Decide(w.situation(), at); !start.Why.None() {
				t.Errorf("issued again: %+v", start.Why)
			}
			w.requests = nil // as after a restore
			if start := backoff.Decide(w.situation(), at); !start.Why.None() {
				t.Errorf("issued again without its request: %+v", start.Why)
			}
		})
	}
}
