package vault

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// intermediate creates a CA below the root in a separate engine, and returns the engine's
// mount and the CA.
func (w *world) intermediate() (mounted string, ca *x509.Certificate) {
	t, p := w.t, w.peer
	mounted = p.enable(t, "mounts", "pki")
	p.write(t, "sys/mounts/"+mounted+"/tune", map[string]any{"max_lease_ttl": "43800h"})
	request := p.write(t, mounted+"/intermediate/generate/internal", map[string]any{"common_name": "Example Intermediate", "key_type": "ec"})["csr"]
	signed := p.write(t, w.pki+"/root/sign-intermediate", map[string]any{"csr": request, "ttl": "43800h", "use_csr_values": true})["certificate"].(string)
	p.write(t, mounted+"/intermediate/set-signed", map[string]any{"certificate": signed + "\n" + string(pki.EncodeCertificates(w.root))})
	p.write(t, mounted+"/roles/web", map[string]any{"allowed_domains": "example.com", "allow_subdomains": true, "max_ttl": "2160h", "require_cn": false, "key_type": "any"})
	w.allow(`path "` + w.pki + `/*" { capabilities = ["update"] }
path "` + mounted + `/*" { capabilities = ["update"] }`)
	return mounted, parse(t, signed)
}

// Each path that signs gives a certificate with its chain.
func TestPaths(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		below, ca := w.intermediate()
		p.write(t, w.pki+"/roles/ca", map[string]any{"allow_any_name": true, "require_cn": false, "key_type": "any"})
		for _, test := range []struct {
			name, path string
			isCA       bool
			// chain is how many certificates there are.
			chain int
		}{
			{"role", w.pki + "/sign/web", false, 1},
			{"reference", w.pki + "/issuer/default/sign/web", false, 1},
			{"verbatim", w.pki + "/sign-verbatim", false, 1},
			{"verbatimrole", w.pki + "/sign-verbatim/web", false, 1},
			{"below", below + "/sign/web", false, 2},
			{"prefixed", "/v1/" + w.pki + "/sign/web", false, 1},
			{"subca", w.pki + "/root/sign-intermediate", true, 1},
			{"belowca", below + "/root/sign-intermediate", true, 2},
		} {
			w.roleIssuer(test.name, func(s *cmv1.VaultIssuer) { s.Path = test.path })
			secret := w.certificate(test.name, test.name, func(s *cmv1.CertificateSpec) {
				s.IsCA = test.isCA
				if test.isCA {
					s.CommonName = "Below"
				}
			})
			certs := verify(t, secret.Data[corev1.TLSCertKey], w.root)
			if len(certs) != test.chain || certs[0].IsCA != test.isCA {
				t.Errorf("%s: %d certificates, CA %v", test.name, len(certs), certs[0].IsCA)
			}
			if test.chain == 2 && !certs[1].Equal(ca) {
				t.Errorf("%s: the CA is %s", test.name, certs[1].Subject)
			}
			if !parse(t, string(secret.Data["ca.crt"])).Equal(w.root) {
				t.Errorf("%s: ca.crt is not the root", test.name)
			}
		}
		cr := &cmv1.CertificateRequest{ObjectMeta: w.meta("prefixed-1")}
		w.get(cr)
		if note := w.event(cr, "BadConfig"); !strings.Contains(note, "begins with /v1/") {
			t.Errorf("Event %q", note)
		}
	})
}

// An engine that has only the intermediate gives what it has.
func TestIntermediateAlone(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		mounted := p.enable(t, "mounts", "pki")
		request := p.write(t, mounted+"/intermediate/generate/internal", map[string]any{"common_name": "Alone", "key_type": "ec"})["csr"]
		signed := p.write(t, w.pki+"/root/sign-intermediate", map[string]any{"csr": request, "ttl": "8760h", "use_csr_values": true})["certificate"].(string)
		p.write(t, mounted+"/intermediate/set-signed", map[string]any{"certificate": signed})
		p.write(t, mounted+"/roles/web", map[string]any{"allowed_domains": "example.com", "allow_subdomains": true, "require_cn": false, "key_type": "any", "ttl": "24h"})
		w.allow(`path "` + mounted + `/*" { capabilities = ["update"] }`)
		w.roleIssuer("vault", func(s *cmv1.VaultIssuer) { s.Path = mounted + "/sign/web" })
		cr := w.request("www", "vault", func(cr *cmv1.CertificateRequest) {
			cr.Spec.Duration = &metav1.Duration{Duration: 24 * time.Hour}
		})
		w.issued(cr)
		certs := verify(t, cr.Status.Certificate, w.root)
		if len(certs) != 2 || len(cr.Status.CA) != 0 && !parse(t, string(cr.Status.CA)).Equal(parse(t, signed)) {
			t.Errorf("%d certificates, CA %q", len(certs), cr.Status.CA)
		}
	})
}

// Names, keys and lifetimes that the role forbids are refused with Vault's own
// line. Paths that make keys are refused without showing one.
func TestRefused(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		p.write(t, w.pki+"/roles/strict", map[string]any{"allowed_domains": "example.com", "allow_subdomains": true, "require_cn": true, "key_type": "any", "ttl": "1h"})
		p.write(t, w.pki+"/roles/makes", map[string]any{"allowed_domains": "example.com", "allow_subdomains": true, "key_type": "ec", "max_ttl": "2160h"})
		w.roleIssuer("vault")
		w.roleIssuer("strict", func(s *cmv1.VaultIssuer) { s.Path = w.pki + "/sign/strict" })
		w.roleIssuer("unknown", func(s *cmv1.VaultIssuer) { s.Path = w.pki + "/sign/nosuch" })
		w.roleIssuer("mount", func(s *cmv1.VaultIssuer) { s.Path = "nosuch-" + w.pki + "/sign/web" })
		w.roleIssuer("makes", func(s *cmv1.VaultIssuer) { s.Path = w.pki + "/issue/makes" })
		foreign := newCSR(t, x509.CertificateRequest{DNSNames: []string{"www.example.org"}})
		for _, test := range []struct{ name, issuer, want string }{
			{"foreign", "vault", "subject alternate name www.example.org not allowed by this role"},
			{"nocn", "strict", "the common_name field is required"},
			{"norole", "unknown", "unknown role: nosuch"},
			{"nomount", "mount", "permission denied"},
			{"makes", "makes", "returned a certificate for another key; it must be one that signs a request, such as pki/sign/ROLE"},
		} {
			var cr *cmv1.CertificateRequest
			switch test.name {
			case "foreign":
				cr = w.requestFor(test.name, test.issuer, foreign)
			case "makes": // these paths need a common name
				cr = w.requestFor(test.name, test.issuer, newCSR(t, x509.CertificateRequest{Subject: pkix.Name{CommonName: "makes.example.com"}, DNSNames: []string{"makes.example.com"}}))
			default:
				cr = w.request(test.name, test.issuer)
			}
			state := w.becomes(cr, "Failed ")
			if !strings.HasPrefix(state, "Failed Vault failed to sign certificate: ") || !strings.Contains(state, test.want) {
				t.Errorf("%s: %q, want %q", test.name, state, test.want)
			}
			shown := state
			for _, e := range w.events(cr) {
				shown += e.Note
			}
			if strings.Contains(shown, "PRIVATE KEY") {
				t.Errorf("%s shows a key", test.name)
			}
		}
		cert := &cmv1.Certificate{ObjectMeta: w.meta("org")}
		cert.Spec = cmv1.CertificateSpec{SecretName: "org-tls", DNSNames: []string{"www.example.org"}}
		cert.Spec.IssuerRef.Name = "vault"
		w.create(cert)
		eventually(t, "the certificate says why", func() bool {
			w.get(cert)
			for _, c := range cert.Status.Conditions {
				if strings.Contains(c.Message, "www.example.org not allowed by this role") {
					return true
				}
			}
			return false
		})
	})
}

// A certificate shortened by the role or the mount is issued, and an Event names the
// setting to change. The renewal follows the real end.
func TestShortened(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		p.write(t, w.pki+"/roles/web", map[string]any{"allowed_domains": "example.com", "allow_subdomains": true, "max_ttl": "24h", "require_cn": false, "key_type": "any"})
		w.roleIssuer("vault")
		w.certificate("www", "vault")
		cert := &cmv1.Certificate{ObjectMeta: w.meta("www")}
		w.get(cert)
		lives := cert.Status.NotAfter.Sub(cert.Status.NotBefore.Time).Round(time.Minute)
		if lives > 24*time.Hour+time.Minute || cert.Status.RenewalTime.After(cert.Status.NotAfter.Time) || cert.Status.RenewalTime.Before(cert.Status.NotBefore) {
			t.Errorf("lives for %v, is renewed at %v", lives, cert.Status.RenewalTime)
		}
		cr := &cmv1.CertificateRequest{ObjectMeta: w.meta("www-1")}
		w.get(cr)
		if note := w.event(cr, "CertificateShortened"); !strings.Contains(note, "max_ttl of the role") {
			t.Errorf("Event %q", note)
		}
	})
}

// What is requested beyond the end of the CA is refused: it would be refused at
// each renewal, too.
func TestBeyondCA(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.roleIssuer("vault", func(s *cmv1.VaultIssuer) { s.Path = w.pki + "/sign-verbatim" })
		cr := w.request("www", "vault", func(cr *cmv1.CertificateRequest) {
			cr.Spec.Duration = &metav1.Duration{Duration: 87590 * time.Hour}
		})
		p.write(t, "sys/mounts/"+w.pki+"/tune", map[string]any{"max_lease_ttl": "200000h"})
		late := w.request("late", "vault", func(cr *cmv1.CertificateRequest) {
			cr.Spec.Duration = &metav1.Duration{Duration: 100000 * time.Hour}
		})
		w.issued(cr)
		if state := w.becomes(late, "Failed "); !strings.Contains(state, "cannot satisfy request, as TTL would result in notAfter of") {
			t.Errorf("%q", state)
		}
	})
}

// Names of all kinds are as the role has them, and no other parameters are sent.
func TestNames(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		p.write(t, w.pki+"/roles/web", map[string]any{
			"allowed_domains": "example.com", "allow_subdomains": true, "allow_ip_sans": true, "allowed_uri_sans": "spiffe://*", "require_cn": false, "key_type": "any", "max_ttl": "2160h",
		})
		p.write(t, w.pki+"/roles/blind", map[string]any{
			"allowed_domains": "example.com", "allow_subdomains": true, "use_csr_sans": false, "require_cn": false, "key_type": "any", "max_ttl": "2160h", "allow_ip_sans": false,
		})
		w.roleIssuer("vault")
		w.roleIssuer("blind", func(s *cmv1.VaultIssuer) { s.Path = w.pki + "/sign/blind" })
		uri, _ := url.Parse("spiffe://example.com/web")
		all := newCSR(t, x509.CertificateRequest{
			Subject: pkix.Name{CommonName: "cn.example.com"}, DNSNames: []string{"a.example.com", "b.example.com"},
			IPAddresses: []net.IP{net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")}, URIs: []*url.URL{uri},
		})
		leaf := w.issued(w.requestFor("all", "vault", all))
		if len(leaf.DNSNames) != 2 || len(leaf.IPAddresses) != 2 || len(leaf.URIs) != 1 || leaf.Subject.CommonName != "cn.example.com" {
			t.Errorf("names %v %v %v %s", leaf.DNSNames, leaf.IPAddresses, leaf.URIs, leaf.Subject)
		}
		calls := w.proxy.with("/sign/web")
		want := map[string]any{
			"csr": string(all), "common_name": "cn.example.com", "alt_names": "a.example.com,b.example.com",
			"ip_sans": "192.0.2.1,2001:db8::1", "uri_sans": "spiffe://example.com/web", "ttl": "2160h0m0s", "exclude_cn_from_sans": "true",
		}
		for key, value := range calls[0].Body {
			if want[key] != value {
				t.Errorf("%s: %q, want %q", key, value, want[key])
			}
		}
		if len(calls[0].Body) != len(want) {
			t.Errorf("parameters %v", calls[0].Body)
		}

		// The role takes e-mail addresses only if it allows them.
		mail := w.requestFor("mail", "vault", newCSR(t, x509.CertificateRequest{DNSNames: []string{"m.example.com"}, EmailAddresses: []string{"a@example.org"}}))
		if state := w.becomes(mail, "Failed "); !strings.Contains(state, "not allowed by this role") {
			t.Errorf("an e-mail address: %q", state)
		}

		// A role that does not look into requests is sent the names beside it.
		blind := w.request("names", "blind")
		if leaf := w.issued(blind); leaf.VerifyHostname("names.example.com") != nil {
			t.Errorf("names %v", leaf.DNSNames)
		}
	})
}

// CertificateSigningRequests that name issuers get their certificate with its
// chain, and Events about what differs.
func TestSigningRequests(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		below, _ := w.intermediate()
		p.write(t, below+"/roles/short", map[string]any{"allowed_domains": "example.com", "allow_subdomains": true, "max_ttl": "24h", "require_cn": false, "key_type": "any"})
		w.roleIssuer("vault", func(s *cmv1.VaultIssuer) { s.Path = below + "/sign/short" })
		kube := apitest.Client(t, w.Admin(t))
		csr := w.signingRequest("www", newCSR(t, x509.CertificateRequest{DNSNames: []string{"www.example.com"}}))
		if certs := verify(t, apitest.Issued(t, kube, csr), w.root); len(certs) < 2 {
			t.Errorf("%d certificates", len(certs))
		}
		if note := w.event(csr, "CertificateShortened"); !strings.Contains(note, "max_ttl of the role") {
			t.Errorf("Event %q", note)
		}
		w.event(csr, "CertificateIssued")

		refused := w.signingRequest("org", newCSR(t, x509.CertificateRequest{DNSNames: []string{"www.example.org"}}))
		eventually(t, "the request has failed", func() bool {
			w.get(refused)
			for _, c := range refused.Status.Conditions {
				if c.Type == certificatesv1.CertificateFailed {
					return c.Reason == "ErrorSigning" && strings.Contains(c.Message, "www.example.org not allowed by this role")
				}
			}
			return false
		})
	})
}

// signingRequest creates an approved CertificateSigningRequest to the issuer
// vault.
func (w *world) signingRequest(name string, request []byte) *certificatesv1.CertificateSigningRequest {
	w.t.Helper()
	kube := apitest.Client(w.t, w.Admin(w.t))
	csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: w.namespace + "-" + name}}
	csr.Spec = certificatesv1.CertificateSigningRequestSpec{
		Request: request, SignerName: "issuers.cert-manager.io/" + w.namespace + ".vault",
		Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
	}
	return apitest.Decide(w.t, kube, apitest.Create(w.t, kube, csr), certificatesv1.CertificateApproved)
}

// An intermediate that two roots have signed is issued with one chain.
func TestCrossSigned(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		other := &world{t: t, peer: p, pki: p.enable(t, "mounts", "pki")}
		p.write(t, "sys/mounts/"+other.pki+"/tune", map[string]any{"max_lease_ttl": "87600h"})
		otherRoot := other.newRoot("Other CA")
		mounted := p.enable(t, "mounts", "pki")
		request := p.write(t, mounted+"/intermediate/generate/internal", map[string]any{"common_name": "Crossed", "key_type": "ec"})["csr"]
		sign := func(by string) string {
			return p.write(t, by+"/root/sign-intermediate", map[string]any{"csr": request, "ttl": "43800h", "use_csr_values": true})["certificate"].(string)
		}
		low, crossed := sign(w.pki), sign(other.pki)
		bundle := strings.Join([]string{low, crossed, string(pki.EncodeCertificates(w.root)), string(pki.EncodeCertificates(otherRoot))}, "\n")
		imported := p.write(t, mounted+"/intermediate/set-signed", map[string]any{"certificate": bundle})["imported_issuers"].([]any)
		ids := make([]string, len(imported))
		for i, id := range imported {
			ids[i] = id.(string)
		}
		issuer := w.issuerOf(mounted, low)
		chain := []string{issuer, w.issuerOf(mounted, crossed), w.issuerOf(mounted, string(pki.EncodeCertificates(w.root))), w.issuerOf(mounted, string(pki.EncodeCertificates(otherRoot)))}
		p.write(t, mounted+"/issuer/"+issuer, map[string]any{"issuer_name": "low", "manual_chain": strings.Join(chain, ",")})
		p.write(t, mounted+"/roles/web", map[string]any{"allowed_domains": "example.com", "allow_subdomains": true, "require_cn": false, "key_type": "any", "ttl": "24h"})
		w.allow(`path "` + mounted + `/*" { capabilities = ["update"] }`)
		w.roleIssuer("vault", func(s *cmv1.VaultIssuer) { s.Path = mounted + "/issuer/low/sign/web" })
		cr := w.request("www", "vault")
		w.issued(cr)
		verify(t, cr.Status.Certificate, w.root)
		if note := w.event(cr, "BadConfig"); !strings.Contains(note, "not part of the certificate's chain") {
			t.Errorf("Event %q", note)
		}
	})
}

// issuerOf returns the id of a CA in an engine.
func (w *world) issuerOf(mounted, certificate string) string {
	w.t.Helper()
	wanted := parse(w.t, certificate)
	var list struct{ Data struct{ Keys []string } }
	w.peer.must(w.t, "LIST", mounted+"/issuers", nil, &list)
	for _, id := range list.Data.Keys {
		if found := w.peer.read(w.t, mounted+"/issuer/"+id); parse(w.t, found["certificate"].(string)).Equal(wanted) {
			return id
		}
	}
	w.t.Fatalf("no %s in %s", wanted.Subject, mounted)
	return ""
}

// The CA changes in Vault: what is issued from then on is from the new one, and
// Secrets have the root that fits.
func TestNewCA(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.roleIssuer("vault")
		before := w.certificate("before", "vault")
		verify(t, before.Data[corev1.TLSCertKey], w.root)
		root := w.newRoot("Next CA")
		p.write(t, w.pki+"/config/issuers", map[string]any{"default": w.issuerOf(w.pki, string(pki.EncodeCertificates(root)))})
		after := w.certificate("after", "vault")
		verify(t, after.Data[corev1.TLSCertKey], root)
		if !parse(t, string(after.Data["ca.crt"])).Equal(root) {
			t.Error("ca.crt is not the new root")
		}
		if block, _ := pem.Decode(before.Data["ca.crt"]); block == nil || !parse(t, string(before.Data["ca.crt"])).Equal(w.root) {
			t.Error("ca.crt of the first is not its root")
		}
	})
}

// The namespace is sent with each login and each signature, and never with the
// question whether the server is well.
func TestNamespace(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.roleIssuer("vault", func(s *cmv1.VaultIssuer) { s.Namespace = "team/web" })
		w.issued(w.request("www", "vault"))
		for path, want := range map[string]string{"/login": "team/web", "/sign/web": "team/web", "/sys/health": ""} {
			calls := w.proxy.with(path)
			if len(calls) == 0 {
				t.Errorf("no call of %s", path)
			}
			for _, c := range calls {
				if c.Namespace != want || c.Header.Get("X-Vault-Request") != "true" || c.Method == http.MethodGet != (path == "/sys/health") {
					t.Errorf("%s %s in namespace %q", c.Method, c.Path, c.Namespace)
				}
			}
		}
	})
}
