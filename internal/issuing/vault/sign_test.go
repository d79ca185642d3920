package vault_test

import (
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer/breaker"
	"github.com/certplane/certplane/internal/issuing/signer/vault/vaulttest"
	issuingvault "github.com/certplane/certplane/internal/issuing/vault"
	"github.com/certplane/certplane/internal/pki"
)

// What becomes of CertificateRequests, and of CertificateSigningRequests.
func TestOutcomes(t *testing.T) {
	fail := func(status int, errors ...string) func(*world) {
		return func(w *world) {
			w.With(func(s *vaulttest.State) {
				s.Answer = func(rw http.ResponseWriter, _ *http.Request, c vaulttest.Call) bool {
					if strings.Contains(c.Path, "/sign/") {
						vaulttest.Fail(rw, status, errors...)
						return true
					}
					return false
				}
			})
		}
	}
	const answered = "failed to sign certificate by vault: Error making API request.\n\nURL: POST SERVER/v1/pki/sign/web\nCode: "
	tests := []struct {
		reason  string
		change  func(*cmv1.VaultIssuer)
		before  func(*world)
		cr, csr string
	}{
		{
			reason: "the Secret of the login is missing", change: func(v *cmv1.VaultIssuer) { v.Auth.AppRole.SecretRef.Name = "none" },
			cr:  `Watched SecretMissing Required secret resource not found: secrets "none" not found`,
			csr: `Watched SecretNotFound Required secret resource not found: secrets "none" not found`,
		},
		{
			reason: "the Secret with the CA is missing", change: func(v *cmv1.VaultIssuer) {
				none := selector("none", "")
				v.CABundle, v.CABundleSecretRef = nil, &none
			},
			cr:  `Pending VaultInitError Failed to initialise vault client for signing: failed to load vault CA bundle: could not access secret 'ns/none': secrets "none" not found`,
			csr: `Pending ErrorVaultInit Failed to initialise vault client for signing: failed to load vault CA bundle: could not access secret 'ns/none': secrets "none" not found`,
		},
		{
			reason: "the login is refused", before: func(w *world) {
				w.With(func(s *vaulttest.State) { s.LoginError = "invalid role or secret ID" })
			},
			cr:  "Pending VaultInitError Failed to initialise vault client for signing: error logging in to Vault server: Error making API request.\n\nURL: POST SERVER/v1/auth/approle/login\nCode: 400. Errors:\n\n* invalid role or secret ID",
			csr: "Pending ErrorVaultInit Failed to initialise vault client for signing: error logging in to Vault server: Error making API request.\n\nURL: POST SERVER/v1/auth/approle/login\nCode: 400. Errors:\n\n* invalid role or secret ID",
		},
		{
			reason: "the role refuses", before: fail(400, "common name web not allowed by this role"),
			cr:  "Failed SigningError Vault failed to sign certificate: " + answered + "400. Errors:\n\n* common name web not allowed by this role",
			csr: "Failed ErrorSigning Vault failed to sign: " + answered + "400. Errors:\n\n* common name web not allowed by this role",
		},
		{
			reason: "it is sealed", before: fail(503, "Vault is sealed"),
			cr:  "Pending VaultUnavailable Vault cannot sign at present; it keeps trying: " + answered + "503. Errors:\n\n* Vault is sealed",
			csr: "Pending VaultUnavailable Vault cannot sign at present; it keeps trying: " + answered + "503. Errors:\n\n* Vault is sealed",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			if tc.before != nil {
				tc.before(w)
			}
			_, err := w.sign(t, w.issuer(tc.change), w.certificateRequest(t, nil))
			if got := w.verdict(err); got != tc.cr {
				t.Errorf("CertificateRequest: %s\nwant %s", got, tc.cr)
			}
			_, err = w.sign(t, w.issuer(tc.change), w.signingRequest(t))
			if got := w.verdict(err); got != tc.csr {
				t.Errorf("CertificateSigningRequest: %s\nwant %s", got, tc.csr)
			}
		})
	}
}

// A CertificateRequest does not wait without an end.
func TestPatience(t *testing.T) {
	w := newWorld(t)
	cr, csr := w.certificateRequest(t, nil), w.signingRequest(t)
	i := w.issuer(nil)
	w.check(t, i) // logs in
	w.With(func(s *vaulttest.State) { s.Lease, s.Health = map[string]any{}, http.StatusServiceUnavailable })
	if _, err := w.sign(t, i, cr); !strings.HasPrefix(w.verdict(err), "Pending VaultUnavailable") {
		t.Error(err)
	}
	created := w.clock.Now()
	late := func(req issuing.Request) issuing.Request {
		req.Created = created.Add(-25 * time.Hour)
		return req
	}
	if _, err := w.sign(t, i, late(cr)); !strings.HasPrefix(w.verdict(err), "Failed SigningError Vault failed to sign certificate: no answer for 24h0m0s: ") {
		t.Error(err)
	}
	if _, err := w.sign(t, i, late(csr)); !strings.HasPrefix(w.verdict(err), "Pending VaultUnavailable") {
		t.Error(err)
	}
}

func TestAnswers(t *testing.T) {
	other := newKey(t)
	foreign := vaulttest.NewCA(t)
	chain := func(certs ...*x509.Certificate) func(*vaulttest.CA, map[string]any) {
		return func(_ *vaulttest.CA, data map[string]any) {
			var all []string
			for _, cert := range certs {
				all = append(all, vaulttest.PEM(cert))
			}
			data["ca_chain"] = all
		}
	}
	tests := []struct {
		reason   string
		change   func(*cmv1.CertificateRequest)
		template func(*x509.Certificate)
		data     func(ca *vaulttest.CA, data map[string]any)
		verdict  string
		warnings string
	}{
		{reason: "as requested"},
		{
			reason: "for another key", template: func(c *x509.Certificate) { c.PublicKey = other.Public() },
			data: func(_ *vaulttest.CA, data map[string]any) {
				data["private_key"] = "-----BEGIN PRIVATE KEY-----inner"
			},
			verdict: "Failed SigningError Vault failed to sign certificate: the path pki/sign/web returned a certificate for another key; it must be one that signs a request, such as pki/sign/ROLE",
		},
		{
			reason: "with a name more", template: func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "bank.example.com") },
			verdict: `Failed SigningError Vault failed to sign certificate: the path pki/sign/web returned a certificate with content that was not requested: the name "bank.example.com"`,
		},
		{
			reason: "with an address more", template: func(c *x509.Certificate) { c.IPAddresses = append(c.IPAddresses, net.IPv4(10, 0, 0, 2)) },
			verdict: "Failed SigningError Vault failed to sign certificate: the path pki/sign/web returned a certificate with content that was not requested: the name 10.0.0.2",
		},
		{
			reason: "with another common name", template: func(c *x509.Certificate) { c.Subject.CommonName = "bank" },
			verdict: `Failed SigningError Vault failed to sign certificate: the path pki/sign/web returned a certificate with content that was not requested: the common name "bank"`,
		},
		{reason: "with the common name among the names", template: func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "web") }},
		{reason: "with the organization of the role", template: func(c *x509.Certificate) { c.Subject.Organization = []string{"Corp"} }},
		{
			reason: "without some names", template: func(c *x509.Certificate) { c.DNSNames, c.EmailAddresses, c.Subject.CommonName = nil, nil, "" },
			warnings: `BadConfig The certificate lacks names of the request ("a.example.com", "me@example.com", CN=web): set use_csr_sans and use_csr_common_name of the role in Vault`,
		},
		{
			reason: "of a CA", template: func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true },
			verdict: "Failed SigningError Vault failed to sign certificate: the path pki/sign/web returned a CA certificate, which was not requested",
		},
		{
			reason: "of a CA that was requested", template: func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = true, true },
			change: func(cr *cmv1.CertificateRequest) { cr.Spec.IsCA = true },
		},
		{
			reason: "of no CA although that was requested", change: func(cr *cmv1.CertificateRequest) { cr.Spec.IsCA = true },
			warnings: "BadConfig The request is for a CA, but the path pki/sign/web issues no CA certificates: use pki/root/sign-intermediate",
		},
		{
			reason: "that ends early", template: func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(768 * time.Hour) },
			warnings: "CertificateShortened The certificate ends on TIME, 1392h0m30s earlier than requested: raise max_ttl of the role, or max_lease_ttl of the mount in Vault, or request less",
		},
		{
			reason: "that has expired", template: func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = c.NotBefore.Add(-2*time.Hour), c.NotBefore.Add(-time.Hour)
			},
			verdict: "Failed SigningError Vault failed to sign certificate: the path pki/sign/web returned a certificate that expired on TIME",
		},
		{reason: "with the chain of another CA", data: func(ca *vaulttest.CA, data map[string]any) {
			chain(foreign.Low, foreign.Root)(ca, data)
			data["issuing_ca"] = vaulttest.PEM(foreign.Low)
		}, verdict: "Failed SigningError Vault failed to sign certificate: failed to parse certificate chain from vault: 3 certificates do not form a chain: only 1 of them lead from one to the next by their issuers"},
		{reason: "with duplicates", data: func(ca *vaulttest.CA, data map[string]any) { chain(ca.Root, ca.Low, ca.Low, ca.Root)(ca, data) }},
		{
			reason: "with a CA that two roots have signed", data: func(ca *vaulttest.CA, data map[string]any) {
				chain(ca.CrossLow, ca.OtherRoot, ca.Low, ca.Root)(ca, data)
			},
			warnings: "BadConfig Vault returned 2 certificates that are not part of the certificate's chain; they are ignored",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.CA.Template = tc.template
			if tc.data != nil {
				w.With(func(s *vaulttest.State) { s.Data = func(data map[string]any) { tc.data(w.CA, data) } })
			}
			issued, err := w.sign(t, w.issuer(nil), w.certificateRequest(t, tc.change))
			if got := withoutTimes(w.verdict(err)); got != tc.verdict {
				t.Fatalf("verdict %s\nwant    %s", got, tc.verdict)
			}
			if got := withoutTimes(warnings(issued)); got != tc.warnings {
				t.Errorf("warnings %s\nwant     %s", got, tc.warnings)
			}
			if issued == nil {
				return
			}
			if shown := pki.EncodeCertificates(issued.Certificate, w.CA.Low); string(issued.PEM) != string(shown) || string(issued.CA) != vaulttest.PEM(w.CA.Root) {
				t.Errorf("chain %s\nCA %s", issued.PEM, issued.CA)
			}
		})
	}
}

// withoutTimes replaces the times of a text.
func withoutTimes(text string) string {
	words := strings.Split(text, " ")
	for n, word := range words {
		if _, err := time.Parse(time.RFC3339, strings.TrimSuffix(word, ",")); err == nil {
			words[n] = strings.Replace(word, strings.TrimSuffix(word, ","), "TIME", 1)
		}
	}
	return strings.Join(words, " ")
}

// What goes into the status depends on what the server returns of its chain.
func TestChains(t *testing.T) {
	tests := []struct {
		reason    string
		data      func(ca *vaulttest.CA, data map[string]any)
		chain, ca func(leaf string, ca *vaulttest.CA) string
	}{
		{
			reason: "the root is omitted", data: func(ca *vaulttest.CA, data map[string]any) { data["ca_chain"] = []string{vaulttest.PEM(ca.Low)} },
			chain: func(leaf string, ca *vaulttest.CA) string { return leaf + vaulttest.PEM(ca.Low) },
			ca:    func(_ string, ca *vaulttest.CA) string { return vaulttest.PEM(ca.Low) },
		},
		{
			reason: "issuing_ca alone", data: func(ca *vaulttest.CA, data map[string]any) { delete(data, "ca_chain") },
			chain: func(leaf string, ca *vaulttest.CA) string { return leaf + vaulttest.PEM(ca.Low) },
			ca:    func(_ string, ca *vaulttest.CA) string { return vaulttest.PEM(ca.Low) },
		},
		{
			reason: "no issuer", data: func(ca *vaulttest.CA, data map[string]any) {
				delete(data, "ca_chain")
				delete(data, "issuing_ca")
			},
			chain: func(leaf string, _ *vaulttest.CA) string { return leaf },
			ca:    func(string, *vaulttest.CA) string { return "" },
		},
		{
			reason: "the other root of a CA that two have signed", data: func(ca *vaulttest.CA, data map[string]any) {
				data["issuing_ca"] = vaulttest.PEM(ca.CrossLow)
				data["ca_chain"] = []string{vaulttest.PEM(ca.Low), vaulttest.PEM(ca.Root), vaulttest.PEM(ca.CrossLow), vaulttest.PEM(ca.OtherRoot)}
			},
			chain: func(leaf string, ca *vaulttest.CA) string { return leaf + vaulttest.PEM(ca.CrossLow) },
			ca:    func(_ string, ca *vaulttest.CA) string { return vaulttest.PEM(ca.OtherRoot) },
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.With(func(s *vaulttest.State) { s.Data = func(data map[string]any) { tc.data(w.CA, data) } })
			issued, err := w.sign(t, w.issuer(nil), w.certificateRequest(t, nil))
			if err != nil {
				t.Fatal(err)
			}
			leaf := vaulttest.PEM(issued.Certificate)
			if string(issued.PEM) != tc.chain(leaf, w.CA) || string(issued.CA) != tc.ca(leaf, w.CA) {
				t.Errorf("chain %s\nCA %s", issued.PEM, issued.CA)
			}
		})
	}
}

// The CSR, its duration and nothing else of the request reach the server.
func TestParameters(t *testing.T) {
	w := newWorld(t)
	data := pkcs10(t, pki.Subject{DNSNames: []string{"a.example.com"}, EmailAddresses: []string{"me@example.com"}})
	req := w.certificateRequest(t, func(cr *cmv1.CertificateRequest) {
		cr.Spec.Request, cr.Spec.Duration, cr.Spec.Usages = data, &metav1.Duration{Duration: 36 * time.Hour}, []cmv1.KeyUsage{cmv1.UsageDigitalSignature, cmv1.UsageKeyEncipherment}
	})
	if _, err := w.sign(t, w.issuer(nil), req); err != nil {
		t.Fatal(err)
	}
	calls := w.Calls()
	body := calls[len(calls)-1].Body
	want := map[string]any{
		"csr": string(data), "common_name": "", "alt_names": "a.example.com", "ip_sans": "", "uri_sans": "", "ttl": "36h0m0s", "exclude_cn_from_sans": "true",
	}
	got, _ := json.Marshal(body)
	if wanted, _ := json.Marshal(want); string(got) != string(wanted) {
		t.Errorf("body %s\nwant %s", got, wanted)
	}
	if block, _ := pem.Decode(data); block == nil {
		t.Error("no PEM")
	}
}

// The path of the spec may begin with the version of the API.
func TestPrefixedPath(t *testing.T) {
	w := newWorld(t)
	issued, err := w.sign(t, w.issuer(func(v *cmv1.VaultIssuer) { v.Path = "/v1/pki/sign/web" }), w.certificateRequest(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	if got := warnings(issued); got != "BadConfig spec.vault.path of the issuer begins with /v1/, which is ignored: write pki/sign/web" {
		t.Error(got)
	}
}

// What would be a cluster administrator is not issued by a CA that the API
// server honours.
func TestHonoured(t *testing.T) {
	w := newWorld(t)
	w.CA.Template = func(c *x509.Certificate) { c.Subject.Organization = []string{"system:masters"} }
	backend := issuingvault.New(issuing.Config{Client: w.api, Rules: issuing.Rules{Honoured: func() []*x509.Certificate { return []*x509.Certificate{w.CA.Root} }}}, w.pool)
	_, err := backend.Sign(t.Context(), w.issuer(nil), w.certificateRequest(t, nil), w.clock.Now())
	if got := w.verdict(err); !strings.HasPrefix(got, "Failed SigningError Vault failed to sign certificate: a certificate of group system:masters") {
		t.Error(got)
	}
}

// A Secret that appears, or changes, is used at once, and a server that answers
// again wakes those who wait.
func TestWaking(t *testing.T) {
	w := newWorld(t)
	i := w.issuer(func(v *cmv1.VaultIssuer) {
		late := selector("late", "token")
		v.Auth = cmv1.VaultAuth{TokenSecretRef: &late}
	})
	req := w.certificateRequest(t, nil)
	if _, err := w.sign(t, i, req); !strings.HasPrefix(w.verdict(err), "Watched SecretMissing") {
		t.Fatal(err)
	}
	w.Allow("hvs.late")
	if err := w.api.Create(t.Context(), secret("ns", "late", "token", "hvs.late")); err != nil {
		t.Fatal(err)
	}
	if _, err := w.sign(t, i, req); err != nil {
		t.Fatal(err)
	}
	var woken []issuing.Reference
	defer issuingvault.Changes(w.pool)(func(r issuing.Reference) { woken = append(woken, r) })()
	w.With(func(s *vaulttest.State) { s.Health = http.StatusServiceUnavailable })
	for n := range breaker.TripAfter {
		again := req
		again.UID = string(rune('a' + n))
		_, _ = w.sign(t, i, again)
	}
	needs := w.Needs(i, req)
	if len(woken) != 1 || woken[0] != needs[0] {
		t.Errorf("woken %v, needs %v", woken, needs)
	}
}
