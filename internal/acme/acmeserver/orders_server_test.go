package acmeserver_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

func TestOrderWithoutChallenges(t *testing.T) {
	w := newWorld(t, externalKeyOnly)
	w.controllers()
	mac := w.externalKey("fleet", func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: []string{"*.corp.example"}}
	})
	c := w.client()
	c.register(map[string]any{"externalAccountBinding": c.binding(w.namespace+".fleet", mac)})
	url, order := c.order("a.corp.example")
	if order["status"] != "ready" {
		t.Fatalf("the order is %v", order)
	}
	authz := c.post(order["authorizations"].([]any)[0].(string), nil).json(t)
	if challenges := authz["challenges"].([]any); authz["status"] != "valid" || len(challenges) != 1 || challenges[0].(map[string]any)["status"] != "valid" {
		t.Errorf("the authorization is %v", authz)
	}
	done := c.post(url+"/finalize", map[string]any{"csr": csr(t, apitest.NewKey(t), "a.corp.example")})
	for done.code == 200 && done.json(t)["status"] == "processing" {
		done = c.post(url, nil)
	}
	if done.code != 200 || done.json(t)["status"] != "valid" || done.header.Get("Location") != url {
		t.Fatalf("finalize: %d %s", done.code, done.body)
	}
	chain := c.post(done.json(t)["certificate"].(string), nil)
	if chain.code != 200 || chain.header.Get("Content-Type") != "application/pem-certificate-chain" || strings.Count(chain.body, "BEGIN") != 2 {
		t.Errorf("the certificate: %d %v %s", chain.code, chain.header, chain.body)
	}
	if r := c.post(done.json(t)["certificate"].(string), nil, func(s *sent) { s.http.Set("Accept", "application/pkix-cert") }); r.code != 200 || r.body != chain.body || r.header.Get("Content-Type") != "application/pem-certificate-chain" {
		t.Errorf("where another type is wanted: %d %s", r.code, r.body)
	}
	if r := c.post(done.json(t)["certificate"].(string)+"/1", nil); r.code != 404 || slices.ContainsFunc(chain.header.Values("Link"), func(l string) bool { return strings.Contains(l, "alternate") }) {
		t.Errorf("an alternate: %d %v", r.code, chain.header)
	}
}

func TestAuthorizations(t *testing.T) {
	w := newWorld(t)
	c := w.registered()
	_, order := c.order("A.corp.example", "*.a.corp.example", "10.1.2.3", "fd00::1", "a.corp.example")
	want := []struct {
		value    string
		wildcard any
		types    string
	}{
		{"a.corp.example", nil, "http-01 dns-01 tls-alpn-01"}, {"a.corp.example", true, "dns-01"},
		{"10.1.2.3", nil, "http-01 tls-alpn-01"}, {"fd00::1", nil, "http-01 tls-alpn-01"},
	}
	urls := order["authorizations"].([]any)
	if len(urls) != len(want) || order["status"] != "pending" || order["profile"] != "server" {
		t.Fatalf("the order is %v", order)
	}
	for i, url := range urls {
		a := c.post(url.(string), nil).json(t)
		var types []string
		for _, each := range a["challenges"].([]any) {
			challenge := each.(map[string]any)
			types = append(types, challenge["type"].(string))
			if len(challenge["token"].(string)) != 43 || challenge["status"] != "pending" {
				t.Errorf("the challenge is %v", challenge)
			}
		}
		got := fmt.Sprint(a["identifier"].(map[string]any)["value"], a["wildcard"], strings.Join(types, " "))
		if got != fmt.Sprint(want[i].value, want[i].wildcard, want[i].types) || a["status"] != "pending" || a["expires"] == nil {
			t.Errorf("authorization %d is %v", i, a)
		}
	}
}

func TestChallenge(t *testing.T) {
	w := newWorld(t)
	c, other := w.registered(), w.registered()
	url, order := c.order("a.corp.example")
	authz := order["authorizations"].([]any)[0].(string)
	challenge := c.post(authz, nil).json(t)["challenges"].([]any)[0].(map[string]any)["url"].(string)
	for _, foreign := range []string{url, authz, challenge, url + "/finalize", strings.Replace(url, "/order/", "/cert/", 1)} {
		random := strings.Replace(foreign, lastPart(url), strings.Repeat("b", 26), 1)
		one, two := other.post(foreign, nil), other.post(random, nil)
		if strings.HasSuffix(foreign, "finalize") {
			payload := map[string]any{"csr": csr(t, apitest.NewKey(t), "a.corp.example")}
			one, two = other.post(foreign, payload), other.post(random, payload)
		}
		if one.code != 404 || one.body != two.body || two.code != 404 {
			t.Errorf("%s: %d %s, of nobody %d %s", foreign, one.code, one.body, two.code, two.body)
		}
	}
	expect(t, "no such authorization", c.post(authz[:len(authz)-1]+"7", nil), 404, "malformed")
	expect(t, "a number with a zero", c.post(authz[:len(authz)-1]+"00", nil), 404, "malformed")
	if r := c.post(challenge, nil); r.code != 200 || r.json(t)["status"] != "pending" || !slices.Equal(r.links("up"), []string{authz}) {
		t.Errorf("the challenge: %d %s", r.code, r.body)
	}
	r := c.post(challenge, map[string]any{"resource": "challenge", "keyAuthorization": "x"})
	if r.code != 200 || r.json(t)["status"] != "processing" || r.header.Get("Retry-After") == "" || r.header.Get("Retry-After") == "0" {
		t.Errorf("the started challenge: %d %s %v", r.code, r.body, r.header)
	}
	if r := c.post(authz, nil); r.header.Get("Retry-After") == "" {
		t.Errorf("the authorization: %v", r.header)
	}
	expect(t, "finalize too early", c.post(url+"/finalize", map[string]any{"csr": csr(t, apitest.NewKey(t), "a.corp.example")}), 403, "orderNotReady")
	expect(t, "another state", c.post(authz, map[string]any{"status": "valid"}), 400, "malformed")
	if r := c.post(authz, map[string]any{"status": "deactivated"}); r.code != 200 || r.json(t)["status"] != "deactivated" {
		t.Errorf("the deactivated authorization: %d %s", r.code, r.body)
	}
	if r := c.post(url, nil); r.json(t)["status"] != "invalid" || r.json(t)["error"] == nil {
		t.Errorf("its order: %d %s", r.code, r.body)
	}
}

func TestRefusedOrders(t *testing.T) {
	w := newWorld(t)
	c := w.registered()
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, tc := range []struct {
		name    string
		payload map[string]any
		problem string
	}{
		{"another domain", map[string]any{"identifiers": identifiers("a.example.org")}, "rejectedIdentifier"},
		{"denied", map[string]any{"identifiers": identifiers("vault.corp.example")}, "rejectedIdentifier"},
		{"another network", map[string]any{"identifiers": identifiers("192.0.2.1")}, "rejectedIdentifier"},
		{"a type", map[string]any{"identifiers": []map[string]string{{"type": "email", "value": "a@b"}}}, "unsupportedIdentifier"},
		{"no name", map[string]any{"identifiers": identifiers("a b.corp.example")}, "malformed"},
		{"a dot at the end", map[string]any{"identifiers": identifiers("a.corp.example.")}, "malformed"},
		{"profile", map[string]any{"identifiers": identifiers("a.corp.example"), "profile": "none"}, "invalidProfile"},
		{"a date", map[string]any{"identifiers": identifiers("a.corp.example"), "notAfter": "tomorrow"}, "malformed"},
		{"an early begin", map[string]any{"identifiers": identifiers("a.corp.example"), "notBefore": "2020-01-01T00:00:00Z"}, "malformed"},
		{"too long", map[string]any{"identifiers": identifiers("a.corp.example"), "notAfter": soon, "notBefore": soon}, "malformed"},
		{"no certificate", map[string]any{"identifiers": identifiers("a.corp.example"), "replaces": "x"}, "malformed"},
		{"unknown certificate", map[string]any{"identifiers": identifiers("a.corp.example"), "replaces": "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"}, "malformed"},
	} {
		r := c.post(c.url("new-order"), tc.payload)
		code := 400
		if tc.name == "unknown certificate" {
			code = 404
		}
		expect(t, tc.name, r, code, tc.problem)
	}
	r := c.post(c.url("new-order"), map[string]any{"identifiers": identifiers("a.corp.example", "a.example.org", "b.corp.example", "b.example.org", "vault.corp.example")})
	expect(t, "three of five", r, 400, "rejectedIdentifier")
	if subs := r.json(t)["subproblems"].([]any); len(subs) != 3 || subs[0].(map[string]any)["identifier"].(map[string]any)["value"] != "a.example.org" {
		t.Errorf("the subproblems are %v", subs)
	}
	if n := len(w.orders()); n != 0 {
		t.Errorf("%d orders are stored", n)
	}
	url, _ := c.order("a.corp.example", "b.corp.example")
	apitest.Eventually(t, "the same order is given again", func() bool {
		again, _ := c.order("b.corp.example", "a.corp.example")
		return again == url
	})
}

func TestFinalize(t *testing.T) {
	w := newWorld(t, externalKeyOnly, func(e *v1alpha1.AcmeEndpoint) { e.Spec.Approval.FinalizeWait.Duration = time.Second })
	mac := w.externalKey("fleet", func(k *v1alpha1.AcmeExternalKey) {
		k.Spec.Preauthorized = &v1alpha1.AcmePreauthorized{DNS: []string{"*.corp.example"}}
	})
	c := w.client()
	c.register(map[string]any{"externalAccountBinding": c.binding(w.namespace+".fleet", mac)})
	url, _ := c.order("a.corp.example", "b.corp.example")
	key := apitest.NewKey(t)
	weak, err := ecdsa.GenerateKey(elliptic.P224(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := csr(t, key, "a.corp.example", "B.corp.example")
	for _, tc := range []struct{ name, csr, problem string }{
		{"padding", good + "=", "badCSR"}, {"nothing", "", "badCSR"}, {"no request", b64([]byte("x")), "badCSR"},
		{"PEM", b64(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("x")})), "badCSR"},
		{"a name less", csr(t, key, "a.corp.example"), "badCSR"}, {"a name more", csr(t, key, "a.corp.example", "b.corp.example", "c.corp.example"), "badCSR"},
		{"the key of the account", csr(t, c.key, "a.corp.example", "b.corp.example"), "badCSR"},
		{"a weak key", csr(t, weak, "a.corp.example", "b.corp.example"), "badCSR"},
	} {
		expect(t, tc.name, c.post(url+"/finalize", map[string]any{"csr": tc.csr}), 400, tc.problem)
		if r := c.post(url, nil); r.json(t)["status"] != "ready" {
			t.Errorf("after %s the order is %s", tc.name, r.body)
		}
	}
	done := c.post(url+"/finalize", map[string]any{"csr": good})
	wait, _ := done.json(t)["certplane"].(map[string]any)
	if done.code != 200 || done.json(t)["status"] != "processing" || done.header.Get("Retry-After") != "2" || done.header.Get("Location") != url || wait["waitingFor"] != "approval" {
		t.Errorf("finalize: %d %s %v", done.code, done.body, done.header)
	}
	expect(t, "the same again", c.post(url+"/finalize", map[string]any{"csr": good}), 200, "")
	expect(t, "another", c.post(url+"/finalize", map[string]any{"csr": csr(t, key, "a.corp.example", "b.corp.example")}), 403, "orderNotReady")
	w.issue(url)
	expect(t, "the same once more", c.post(url+"/finalize", map[string]any{"csr": good}), 200, "")
	if r := c.post(url, nil); r.json(t)["status"] != "valid" || r.header.Get("Retry-After") != "" {
		t.Errorf("the order: %d %s", r.code, r.body)
	}
}

// issue has the order of a URL get its certificate, and returns that.
func (w *world) issue(url string) *x509.Certificate {
	w.t.Helper()
	w.act(w.t.Context(), w.stored(url))
	return w.certificate(url)
}

// certificate returns that of the order of a URL.
func (w *world) certificate(url string) *x509.Certificate {
	w.t.Helper()
	o := w.stored(url)
	if o.Status.Certificate == nil {
		w.t.Fatalf("no certificate was issued: %+v", o.Status)
	}
	certs, err := pki.ParseCertificates([]byte(o.Status.Certificate.Chain))
	if err != nil {
		w.t.Fatal(err)
	}
	return certs[0]
}

// finished returns the URL of an order with a certificate, and that. The controllers
// have to run.
func (c *raw) finished(w *world, names ...string) (string, *x509.Certificate, *ecdsa.PrivateKey) {
	w.t.Helper()
	url, order := c.order(names...)
	for _, authz := range order["authorizations"].([]any) {
		c.post(c.post(authz.(string), nil).json(w.t)["challenges"].([]any)[0].(map[string]any)["url"].(string), "{}")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		w.t.Fatal(err)
	}
	state := func() any { return c.post(url, nil).json(w.t)["status"] }
	apitest.Eventually(w.t, "the order is ready", func() bool { return state() == "ready" })
	if r := c.post(url+"/finalize", map[string]any{"csr": csr(w.t, key, names...)}); r.code != http.StatusOK {
		w.t.Fatalf("finalize: %d %s", r.code, r.body)
	}
	apitest.Eventually(w.t, "the order is valid", func() bool { return state() == "valid" })
	return url, w.certificate(url), key
}

func TestRenewal(t *testing.T) {
	w := newWorld(t)
	w.controllers()
	c, other := w.registered(), w.registered()
	_, cert, _ := c.finished(w, "a.corp.example")
	id := pki.CertID(cert)
	info := func() *response { return c.send(http.MethodGet, c.url("renewal-info/"+id), "", nil) }
	apitest.Eventually(t, "the certificate is known", func() bool { return info().code == 200 })
	window := info().json(t)["suggestedWindow"].(map[string]any)
	start, err := time.Parse(time.RFC3339, window["start"].(string))
	if err != nil || start.Before(cert.NotBefore) || start.After(cert.NotAfter) || info().header.Get("Retry-After") == "" || info().header.Get("Replay-Nonce") != "" {
		t.Errorf("the window is %v, the headers %v", window, info().header)
	}
	expect(t, "padding", c.send(http.MethodGet, c.url("renewal-info/"+id+"="), "", nil), 400, "malformed")
	expect(t, "two dots", c.send(http.MethodGet, c.url("renewal-info/"+id+".x"), "", nil), 400, "malformed")
	expect(t, "unknown", c.send(http.MethodGet, c.url("renewal-info/aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"), "", nil), 404, "malformed")

	renew := func(c *raw, names ...string) *response {
		return c.post(c.url("new-order"), map[string]any{"identifiers": identifiers(names...), "replaces": id})
	}
	expect(t, "of another account", renew(other, "a.corp.example"), 403, "unauthorized")
	expect(t, "for other names", renew(c, "b.corp.example"), 400, "malformed")
	first := renew(c, "a.corp.example")
	if first.code != 201 || first.json(t)["replaces"] != id {
		t.Fatalf("the renewal: %d %s", first.code, first.body)
	}
	expect(t, "a second renewal", renew(c, "a.corp.example"), 409, "alreadyReplaced")
	authz := first.json(t)["authorizations"].([]any)[0].(string)
	c.post(authz, map[string]any{"status": "deactivated"})
	if again := renew(c, "a.corp.example"); again.code != 201 {
		t.Errorf("after the first has become invalid: %d %s", again.code, again.body)
	}
}

// TestEarlyRenewal: clients are told to renew before their time when the CA of a signer
// is replaced, and when the endpoint says so.
func TestEarlyRenewal(t *testing.T) {
	w := newWorld(t)
	w.controllers()
	c := w.registered()
	_, cert, _ := c.finished(w, "a.corp.example")
	end := func() time.Time {
		r := c.send(http.MethodGet, c.url("renewal-info/"+pki.CertID(cert)), "", nil)
		if r.code != 200 {
			return time.Time{}
		}
		at, _ := time.Parse(time.RFC3339, r.json(t)["suggestedWindow"].(map[string]any)["end"].(string))
		return at
	}
	apitest.Eventually(t, "the certificate is known", func() bool { return !end().IsZero() })
	usual := end()

	now := time.Now().Truncate(time.Second)
	former := v1alpha1.CAStatus{
		Fingerprint: "f", SubjectKeyID: hex.EncodeToString(cert.AuthorityKeyId), NotBefore: metav1.NewTime(now), NotAfter: metav1.NewTime(now.Add(time.Hour)),
		ReplacedTime: &metav1.Time{Time: now}, TrustedUntil: &metav1.Time{Time: now.Add(4 * time.Hour)},
	}
	signer := &v1alpha1.Signer{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}, Spec: v1alpha1.SignerSpec{
		SignerName: w.namespace + ".example/hosts", Requests: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests},
		CA: v1alpha1.SignerCA{Secret: &v1alpha1.SecretCA{Name: w.namespace}},
		Profile: v1alpha1.SignerProfile{
			Subject: v1alpha1.SubjectProfile{FromRequest: true}, Usages: []string{"digital signature", "client auth"},
			Lifetime: v1alpha1.LifetimeProfile{Maximum: &metav1.Duration{Duration: 2 * time.Hour}},
		},
	}}
	w.create(signer)
	apitest.Eventually(t, "the status is written", func() bool {
		if err := w.api.Get(t.Context(), client.ObjectKeyFromObject(signer), signer); err != nil {
			t.Fatal(err)
		}
		signer.Status.FormerCAs = []v1alpha1.CAStatus{former}
		return w.api.Status().Update(t.Context(), signer) == nil
	})
	apitest.Eventually(t, "the CA has been replaced", func() bool { return end().Before(usual) })
	if at := end(); at.Before(now) || at.After(now.Add(2*time.Hour)) {
		t.Errorf("renewed by %v, of a CA that is replaced at %v", at, now)
	}
	announced := now.Add(10 * time.Minute)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.AcmeRenewBeforeAnnotation+`":"`+announced.UTC().Format(time.RFC3339)+`"}}}`))
	if err := w.api.Patch(t.Context(), w.endpoint.DeepCopy(), patch); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the endpoint announces a time", func() bool { return !end().After(announced) })
}

func TestRevocation(t *testing.T) {
	w := newWorld(t)
	w.controllers()
	c, stranger := w.registered(), w.registered()
	_, cert, key := c.finished(w, "a.corp.example")
	apitest.Eventually(t, "the certificate is known", func() bool {
		return c.send(http.MethodGet, c.url("renewal-info/"+pki.CertID(cert)), "", nil).code == 200
	})
	revoke := func(c *raw, reason int) *response {
		return c.post(c.url("revoke-cert"), map[string]any{"certificate": b64(cert.Raw), "reason": reason})
	}
	expect(t, "a reason of CAs", revoke(c, 2), 400, "badRevocationReason")
	expect(t, "no certificate", c.post(c.url("revoke-cert"), map[string]any{"certificate": "!"}), 400, "malformed")
	expect(t, "another certificate", c.post(c.url("revoke-cert"), map[string]any{"certificate": b64(w.ca.Raw)}), 404, "malformed")
	expect(t, "another account", revoke(stranger, 0), 403, "unauthorized")
	wrong := w.client()
	expect(t, "another key", revoke(wrong, 0), 403, "unauthorized")
	expect(t, "the account", revoke(c, 4), 200, "")
	expect(t, "twice", revoke(c, 4), 400, "alreadyRevoked")
	owner := w.client()
	owner.key = key
	expect(t, "the certificate's key, since it is compromised", revoke(owner, 1), 200, "")
	apitest.Eventually(t, "the window is in the past", func() bool {
		r := c.send(http.MethodGet, c.url("renewal-info/"+pki.CertID(cert)), "", nil)
		end, err := time.Parse(time.RFC3339, r.json(t)["suggestedWindow"].(map[string]any)["end"].(string))
		return err == nil && end.Before(time.Now())
	})
	apitest.Eventually(t, "the key is blocked", func() bool {
		return owner.post(owner.url("new-account"), map[string]any{}).problem() == "badPublicKey"
	})
	if got := w.orders()[0].Status.Certificate.Revoked; got == nil || got.Reason != 1 || got.By != "certificate key" {
		t.Errorf("the record is %+v", got)
	}
	w.testRevokedRecord(cert)
}

// The inventory has the last revocation. The world has no request for the certificate, so
// one gets it now.
func (w *world) testRevokedRecord(cert *x509.Certificate) {
	t := w.t
	t.Helper()
	request := apitest.NewCSR(t, w.namespace, "example.com/acme", pki.Subject{CommonName: "a"}, apitest.NewKey(t))
	request = apitest.Decide(t, w.admin, apitest.Create(t, w.admin, request), certificatesv1.CertificateApproved)
	request.Status.Certificate = pki.EncodeCertificates(cert)
	if _, err := w.admin.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), request, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	kinds := runtime.NewScheme()
	if err := inventoryv1alpha1.AddToScheme(kinds); err != nil {
		t.Fatal(err)
	}
	api, err := client.New(w.shared.Admin(t), client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	record := &inventoryv1alpha1.IssuedCertificate{}
	if err := api.Get(t.Context(), client.ObjectKey{Name: pki.Fingerprint(cert)}, record); err != nil {
		t.Fatal(err)
	}
	if r := record.Revocation; r == nil || r.Reason != "keyCompromise" || r.By != "certificate key" || r.Time.IsZero() {
		t.Errorf("the inventory has the revocation %+v", record.Revocation)
	}
	if shown := apitest.Table(t, w.shared.Admin(t), "/apis/inventory.certplane.dev/v1alpha1/issuedcertificates/"+record.Name); !strings.Contains(shown, "|revoked|") {
		t.Errorf("kubectl shows:\n%s", shown)
	}
}

func TestListOfOrders(t *testing.T) {
	w := newWorld(t, func(e *v1alpha1.AcmeEndpoint) {
		e.Spec.Limits.PendingOrdersPerAccount = 200
		e.Spec.Identifiers.DNS.Wildcards = v1alpha1.AcmeWildcardsAllow
	})
	c, other := w.registered(), w.registered()
	other.order("x.corp.example")
	urls := map[string]bool{}
	for i := range 121 {
		url, order := c.order(fmt.Sprintf("n%d.corp.example", i))
		if i == 0 { // it is not listed
			c.post(order["authorizations"].([]any)[0].(string), map[string]any{"status": "deactivated"})
			continue
		}
		urls[url] = true
	}
	list := func() (pages int, got []string) {
		for next := []string{c.kid + "/orders"}; len(next) > 0; pages++ {
			r := c.post(next[0], nil)
			if r.code != 200 {
				t.Fatalf("%d %s", r.code, r.body)
			}
			for _, url := range r.json(t)["orders"].([]any) {
				got = append(got, url.(string))
			}
			next = r.links("next")
		}
		return pages, got
	}
	apitest.Eventually(t, "all orders are listed", func() bool {
		pages, got := list()
		return pages == 3 && len(got) == len(urls) && !slices.ContainsFunc(got, func(url string) bool { return !urls[url] })
	})
	expect(t, "a cursor of nobody", c.post(c.kid+"/orders?cursor=eA", nil), 400, "malformed")
	expect(t, "the list of another", other.post(c.kid+"/orders", nil), 404, "malformed")
}

func TestKeyChange(t *testing.T) {
	w := newWorld(t)
	w.serve(w.fronts[0].external)
	c, other := w.registered(), w.registered()
	change := func(c *raw, to *ecdsa.PrivateKey, edits ...func(header, payload map[string]any)) *response {
		t.Helper()
		header := map[string]any{"alg": "ES256", "jwk": jwk(&to.PublicKey), "url": c.url("key-change")}
		payload := map[string]any{"account": c.kid, "oldKey": jwk(&c.key.PublicKey)}
		for _, edit := range edits {
			edit(header, payload)
		}
		return c.post(c.url("key-change"), flattened(t, header, string(encoded(t, payload)), to, ""))
	}
	next := w.client().key
	expect(t, "another inner url", change(c, next, func(h, _ map[string]any) { h["url"] = c.url("new-order") }), 400, "malformed")
	expect(t, "another account", change(c, next, func(_, p map[string]any) { p["account"] = other.kid }), 400, "malformed")
	expect(t, "another old key", change(c, next, func(_, p map[string]any) { p["oldKey"] = jwk(&other.key.PublicKey) }), 400, "malformed")
	expect(t, "kid inside", change(c, next, func(h, _ map[string]any) { delete(h, "jwk"); h["kid"] = c.kid }), 400, "malformed")
	expect(t, "the same key", change(c, c.key), 400, "malformed")
	expect(t, "no payload", c.post(c.url("key-change"), nil), 400, "malformed")
	if r := change(c, other.key); r.code != 409 || r.header.Get("Location") != other.kid {
		t.Errorf("the key of another account: %d %s %s", r.code, r.header.Get("Location"), r.body)
	}
	old := c.key
	if r := change(c, next); r.code != 200 || r.json(t)["status"] != "valid" {
		t.Fatalf("the change: %d %s", r.code, r.body)
	}
	for _, each := range []string{c.kid, c.url("new-order")} {
		expect(t, "the old key", c.post(each, nil), 400, "malformed")
	}
	second := w.client(1)
	second.key, second.kid = old, c.kid
	expect(t, "the old key at another process", second.post(c.url("new-order"), map[string]any{"identifiers": identifiers("a.corp.example")}), 400, "malformed")
	c.key, second.key = next, next
	expect(t, "the new key", c.post(c.kid, nil), 200, "")
	expect(t, "the new key at another process", second.post(c.kid, nil), 200, "")
	kid := c.kid
	c.kid = ""
	if r := c.post(c.url("new-account"), map[string]any{}); r.code != 200 || r.header.Get("Location") != kid {
		t.Errorf("registering the new key: %d %s", r.code, r.body)
	}
	c.key = old
	expect(t, "registering the old key", c.post(c.url("new-account"), map[string]any{}), 403, "unauthorized")
}
