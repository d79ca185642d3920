package vault

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/apitest"
)

// While Vault is sealed, requests wait and the issuer reports the reason. Afterwards all
// recover automatically.
func TestSeal(t *testing.T) {
	sharedVault(t)
	p := ownVault(t)
	w := newWorld(t, p)
	issuer := w.roleIssuer("vault")
	w.issued(w.request("before", "vault"))
	p.seal(t)
	cr := w.request("during", "vault")
	state := w.becomes(cr, "Pending Vault cannot sign at present; it keeps trying: ")
	if !strings.Contains(state, "Vault is sealed") {
		t.Errorf("%q", state)
	}
	w.event(cr, "VaultUnavailable")
	// A new issuer is not ready at all.
	w.secret("login", map[string]string{"secretId": "any"})
	late := w.issuer("late", w.spec(w.byRole("login")))
	w.says(late, "False VaultError Failed to initialize Vault client: ")
	p.unseal(t)
	begin := time.Now()
	w.issued(cr)
	w.ready(issuer)
	t.Logf("issued %v after Vault was unsealed", time.Since(begin).Round(time.Millisecond))
}

// Vault is stopped, requests come, and it is started again: all are issued, and
// few calls are made in between.
func TestStopped(t *testing.T) {
	many, away := 50, 60*time.Second
	if testing.Short() {
		many, away = 5, 5*time.Second
	}
	sharedVault(t)
	p := ownVault(t)
	w := newWorld(t, p)
	issuer := w.roleIssuer("vault")
	kube := apitest.Client(t, w.Admin(t))
	if err := p.stop(); err != nil {
		t.Fatal(err)
	}
	w.proxy.forget()
	began := time.Now()
	var requests []*cmv1.CertificateRequest
	var csrs []*certificatesv1.CertificateSigningRequest
	for i := range many {
		requests = append(requests, w.request(fmt.Sprintf("n%d", i), "vault"))
		name := fmt.Sprintf("k%d", i)
		csrs = append(csrs, w.signingRequest(name, newCSR(t, x509.CertificateRequest{DNSNames: []string{name + ".example.com"}})))
	}
	// The proxy answers 502 for a server that is not there.
	eventually(t, "the outage has lasted", func() bool { return time.Since(began) > away })
	calls := len(w.proxy.with("/"))
	if most := 40 + int(away/time.Second); calls > most {
		t.Errorf("%d calls in %v, want at most %d", calls, away, most)
	}
	p.start(t)
	p.unseal(t)
	back := time.Now()
	for _, cr := range requests {
		w.issued(cr)
	}
	for _, csr := range csrs {
		apitest.Issued(t, kube, csr)
	}
	w.ready(issuer)
	t.Logf("%d calls while Vault was away, all issued %v after it was back", calls, time.Since(back).Round(time.Millisecond))
	for _, cr := range requests {
		for _, e := range w.events(cr) {
			if e.Reason == "SigningError" {
				t.Errorf("%s failed: %s", cr.Name, e.Note)
			}
		}
	}
}

// What servers and proxies answer that are not Vault is never shown.
func TestForeignAnswers(t *testing.T) {
	eachPeer(t, func(t *testing.T, p *peer) {
		w := newWorld(t, p)
		w.roleIssuer("vault")
		for i, test := range []struct {
			status     int
			body, want string
		}{
			{http.StatusNotFound, "<html>secret page</html>", "Failed Vault failed to sign certificate: the Vault server returned an HTTP 404 response which is not a Vault error response"},
			{http.StatusOK, "<html>secret page</html>", "Failed Vault failed to sign certificate: failed to decode response returned by vault: "},
			{http.StatusBadGateway, "<html>secret page</html>", "Pending Vault cannot sign at present; it keeps trying: the Vault server returned an HTTP 502 response which is not a Vault error response"},
			{http.StatusBadRequest, `{"errors": ["` + strings.Repeat("long ", 2000) + `"]}`, "Failed Vault failed to sign certificate: "},
		} {
			w.proxy.intercept(func(rw http.ResponseWriter, r *http.Request) bool {
				if !strings.Contains(r.URL.Path, "/sign/") {
					return false
				}
				rw.WriteHeader(test.status)
				_, _ = rw.Write([]byte(test.body))
				return true
			})
			cr := w.request(fmt.Sprintf("n%d", i), "vault")
			state := w.becomes(cr, test.want)
			if strings.Contains(state, "secret page") || len(state) > 1200 {
				t.Errorf("%d bytes: %.200q", len(state), state)
			}
			for _, e := range w.events(cr) {
				if strings.Contains(e.Note, "secret page") {
					t.Errorf("Event %q", e.Note)
				}
			}
			w.proxy.intercept(nil)
		}
	})
}
