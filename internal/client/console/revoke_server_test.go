package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// issued returns the address of the page of a new client certificate, and its fingerprint.
func issued(t *testing.T, s *apitest.Server, name string) (page, fingerprint string) {
	t.Helper()
	admin := apitest.Client(t, s.Admin(t))
	csr := apitest.Create(t, admin, apitest.NewCSR(t, name, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: name}, apitest.NewKey(t)))
	apitest.Decide(t, admin, csr, certificatesv1.CertificateApproved)
	chain, err := pki.ParseCertificates(apitest.Issued(t, admin, csr))
	if err != nil {
		t.Fatal(err)
	}
	fingerprint = pki.Fingerprint(chain[0])
	return "issued/" + fingerprint[:32], fingerprint
}

// The page of a certificate revokes it: with a reason, and the name typed. Afterwards it says
// so, and has no form.
func TestRevoke(t *testing.T) {
	s := shared.Start(t)
	at, fingerprint := issued(t, s, "stolen")
	_, other := issued(t, s, "kept")
	b := open(t, s, s.Login(t, "revoker", "system:masters"))
	page, _ := b.get(t, at)
	wants(t, page, "It is valid until ", `name="fingerprint" value="`+fingerprint+`"`, "type the name: <strong>stolen</strong>", `<option value="">Choose one</option>`, "KeyCompromise: somebody else has")
	if strings.Contains(page, " selected") || strings.Contains(page, "CACompromise") {
		t.Errorf("a reason is chosen, or one for CAs is offered:\n%s", page)
	}
	for _, form := range elements(parse(t, page), "form") {
		if attribute(form, "method") == "post" && strings.Contains(text(form), "Message") && !has(elements(form, "button")[0], "disabled") {
			t.Error("Enter in the field of the name revokes the certificate")
		}
	}

	form := func(changes ...string) url.Values {
		f := url.Values{"fingerprint": {fingerprint}, "reason": {"KeyCompromise"}, "message": {"laptop\r\nstolen"}, "name": {" stolen "}}
		for i := 0; i+1 < len(changes); i += 2 {
			f.Set(changes[i], changes[i+1])
		}
		return f
	}
	for problem, tc := range map[string]struct {
		form url.Values
		code int
	}{
		"Choose a reason":                     {form("reason", ""), http.StatusBadRequest},
		"Unsupported value":                   {form("reason", "CertificateHold"), http.StatusConflict},
		"Type the name stolen to confirm":     {form("name", "stole"), http.StatusBadRequest},
		"The form was about another":          {form("fingerprint", other), http.StatusConflict},
		"CACompromise&#34;: is for CA certif": {form("reason", "CACompromise"), http.StatusConflict}, // the API says so
	} {
		page, code := b.post(t, at, tc.form)
		wants(t, page, problem, "It is valid until ", ">laptop\nstolen</textarea>", "data-keep open")
		if code != tc.code {
			t.Errorf("%s: %d", problem, code)
		}
	}
	if _, code := b.post(t, at, form(), "Origin", "https://evil.example.com"); code != http.StatusForbidden {
		t.Errorf("a form of another site: %d", code)
	}

	page, code := b.post(t, at, form())
	wants(t, page, "The certificate is revoked.", "It is revoked since ", "KeyCompromise", ">revoker<", "console-", "this server refuses the certificate")
	if code != http.StatusOK || strings.Contains(page, `name="fingerprint"`) {
		t.Errorf("%d\n%s", code, page)
	}
	if page, code := b.post(t, at, form()); code != http.StatusConflict || !strings.Contains(page, "It was already revoked, by revoker.") {
		t.Errorf("a second time: %d\n%s", code, page)
	}
	page, _ = b.get(t, "issued/"+other[:32]+"?revoked=yes")
	if wants(t, page, "It is valid until "); strings.Contains(page, "is revoked") {
		t.Errorf("another certificate is revoked, or its address says so:\n%s", page)
	}
	page, _ = b.get(t, "revocations")
	wants(t, page, "KeyCompromise", "revoker")
	acts := 0
	for _, a := range elements(parse(t, page), "a") {
		if strings.HasPrefix(text(a), "console-") {
			page, _ = b.get(t, strings.TrimPrefix(attribute(a, "href"), "/console/"))
			if strings.Contains(page, fingerprint) {
				acts++
				wants(t, page, "<td>laptop stolen</td>", " has revoked 1 of 1 certificates: ")
			}
		}
	}
	if acts != 1 {
		t.Errorf("%d Revocations of the certificate", acts)
	}
}

// Who may not revoke a certificate has no form, and learns who may.
func TestMayNotRevoke(t *testing.T) {
	s := shared.Start(t)
	at, fingerprint := issued(t, s, "not-mine")
	const signer = certificatesv1.KubeAPIServerClientSignerName
	rule := func(verb, group, resource string, names ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{verb}, ResourceNames: names}
	}
	read, create := rule("get", "inventory.certplane.dev", "issuedcertificates"), rule("create", "certplane.dev", "revocations")
	for _, tc := range []struct {
		user  string
		rules []rbacv1.PolicyRule
		may   bool
	}{
		{"reads-records", []rbacv1.PolicyRule{read}, false},
		{"revokes-of-others", []rbacv1.PolicyRule{read, create, rule("revoke", "certificates.k8s.io", "signers", "example.com/other")}, false},
		{"revokes-of-the-signer", []rbacv1.PolicyRule{read, create, rule("revoke", "certificates.k8s.io", "signers", signer)}, true},
	} {
		token, user := tokenOf(t, apitest.Client(t, s.Admin(t)), tc.user)
		s.Grant(t, user, tc.rules...)
		b := open(t, s, s.Anonymous(t))
		b.post(t, "login", url.Values{"token": {token}})
		page, _ := b.get(t, at)
		if got := strings.Contains(page, `name="fingerprint"`); got != tc.may {
			t.Errorf("%s has a form: %t\n%s", tc.user, got, page)
		}
		if !tc.may {
			wants(t, page, "You may not revoke this certificate", "certplane who-can revoke "+signer)
		}
		page, code := b.post(t, at, url.Values{"fingerprint": {fingerprint}, "reason": {"Superseded"}, "name": {"not-mine"}})
		if revoked := strings.Contains(page, "It is revoked since "); revoked != tc.may || (code == http.StatusOK) != tc.may {
			t.Errorf("%s: %d\n%s", tc.user, code, page)
		}
		if !tc.may {
			wants(t, page, `role="alert"`, "is forbidden", "It is valid until ")
		}
	}
}
