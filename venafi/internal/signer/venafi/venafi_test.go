package venafi

import (
	"context"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/Venafi/vcert/v5/pkg/venafi/fake"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/issuing/signer/breaker"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/venafi/internal/signer/venafi/venafitest"
)

// world is a pool with the real vcert, and a stand-in for TPP.
type world struct {
	*Pool
	tpp    *venafitest.Server
	clock  *testingclock.FakeClock
	issuer Issuer
	data   map[string][]byte // the Secret
	// version is that of the Secret.
	version string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{tpp: venafitest.Start(t), clock: testingclock.NewFakeClock(time.Now()), version: "1"}
	w.data = map[string][]byte{"username": []byte(venafitest.User), "password": []byte(venafitest.Password + "\n")}
	w.issuer = Issuer{
		UID: "uid", Generation: 1, SecretNamespace: "ns", Product: TPP, Zone: "web", URL: w.tpp.URL, Credentials: "tpp", CABundle: w.tpp.Bundle(), Loopback: true,
	}
	var err error
	if w.Pool, err = New(Config{Clock: w.clock, Random: func(time.Duration) time.Duration { return 0 }}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.end()
		w.closing.Wait()
	})
	return w
}

func (w *world) access(context.Context, string) (Secret, error) {
	return Secret{Data: w.data, Version: w.version}, nil
}

func order(t *testing.T, cn string) Order {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return orderFor(t, pki.Subject{CommonName: cn, DNSNames: []string{"www.example.com"}}, key)
}

func orderFor(t *testing.T, of pki.Subject, key crypto.Signer) Order {
	t.Helper()
	pem, err := pki.NewRequest(of, key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.ParseRequest(pem)
	if err != nil {
		t.Fatal(err)
	}
	return Order{ID: "request", PEM: pem, CSR: csr.CertificateRequest, Duration: 24 * time.Hour}
}

// kind names an error.
func kind(err error) string {
	var failed *InitError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &failed) && failed.Refused:
		return "refused credentials: "
	case errors.As(err, &failed):
		return "no client: "
	case errors.As(err, new(*UnavailableError)):
		return "unavailable: "
	case errors.As(err, new(*PendingError)):
		return "pending: "
	}
	return "refused: "
}

func shown(w *world, err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(kind(err)+err.Error(), w.tpp.URL, "SERVER")
}

// on answers the calls to a path.
func (w *world) on(path string, answer func(http.ResponseWriter, venafitest.Call)) {
	w.tpp.With(func(s *venafitest.State) {
		s.Answer = func(rw http.ResponseWriter, c venafitest.Call) bool {
			if !strings.HasSuffix(c.Path, path) {
				return false
			}
			answer(rw, c)
			return true
		}
	})
}

// What servers answer is judged by how the call ended, and shown only in the form of
// their API.
func TestErrors(t *testing.T) {
	const secretText = "internal-secret-text"
	html := func(status int) func(http.ResponseWriter, venafitest.Call) {
		return func(w http.ResponseWriter, _ venafitest.Call) {
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, "<html>%s</html>", secretText)
		}
	}
	fail := func(status int, body any) func(http.ResponseWriter, venafitest.Call) {
		return func(w http.ResponseWriter, _ venafitest.Call) { venafitest.Fail(w, status, body) }
	}
	const request, retrieve, policy, verify = "/certificates/request", "/certificates/retrieve", "/checkpolicy", "/authorize/verify"
	tests := []struct {
		reason, path string
		answer       func(http.ResponseWriter, venafitest.Call)
		want         string
	}{
		{"HTML with 200", policy, html(200), "unavailable: Post \"SERVER/vedsdk/certificates/checkpolicy\": the answer of "},
		{"HTML with 502", policy, html(502), "unavailable: Invalid status: 502 Bad Gateway Server response: {}"},
		{"HTML with 403", policy, html(403), "refused: Invalid status: 403 Forbidden Server response: {}"},
		{"JSON of another server", policy, fail(403, map[string]any{"kind": secretText, "Error": 5}), "refused: Invalid status: 403 Forbidden Server response: {}"},
		{"no zone", policy, fail(400, map[string]any{"Error": `PolicyDN: \VED\Policy\web does not exist`}), "refused: vcert error: your data contains problems: zone not found"},
		{"a policy that cannot be read", policy, func(w http.ResponseWriter, _ venafitest.Call) {
			venafitest.JSON(w, map[string]any{"Policy": map[string]any{"KeyPair": map[string]any{"KeyAlgorithm": map[string]any{"Locked": true, "Value": "?"}}}})
		}, "refused: the server gave an answer that cannot be used"},
		{"a policy of another type", policy, func(w http.ResponseWriter, _ venafitest.Call) {
			venafitest.JSON(w, map[string]any{"Policy": secretText})
		}, "refused: json: cannot unmarshal string"},
		{"a policy that forbids the name", policy, func(w http.ResponseWriter, _ venafitest.Call) {
			p := venafitest.Policy()
			p["WhitelistedDomains"] = []string{"other.org"}
			venafitest.JSON(w, map[string]any{"Policy": p})
		}, "refused: common name web.example.com is not allowed in this policy: "},
		{"the request is refused", request, fail(400, map[string]any{"Error": "no such CA"}),
			"refused: Unexpected status code on TPP Certificate Request.\n Status:\n 400 Bad Request. \n Body:\n {\"Error\":\"no such CA\"}"},
		{"too many requests", request, fail(429, nil), "unavailable: Unexpected status code on TPP Certificate Request."},
		{"accepted, but nothing more", request, fail(202, map[string]any{}), "refused: Unexpected status code on TPP Certificate Request."},
		{"accepted without an identifier", request, fail(200, map[string]any{}), "refused: the server has accepted the request without an identifier for it"},
		{"a redirect", request, func(w http.ResponseWriter, _ venafitest.Call) {
			w.Header().Set("Location", "https://elsewhere.example.com/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}, "unavailable: Unexpected status code on TPP Certificate Request."},
		{"endless", request, func(w http.ResponseWriter, _ venafitest.Call) {
			for range 2048 {
				_, _ = fmt.Fprint(w, strings.Repeat("x", 1024))
			}
		}, "unavailable: Post \"SERVER/vedsdk/certificates/request\": the answer is larger than 1048576 bytes"},
		{"a long text", request, fail(400, map[string]any{"Error": strings.Repeat("x", 5000)}), "refused: Unexpected status code on TPP Certificate Request."},
		{"it repeats the password", request, fail(400, map[string]any{"Error": "for " + venafitest.Password}),
			"refused: Unexpected status code on TPP Certificate Request.\n Status:\n 400 Bad Request. \n Body:\n {\"Error\":\"for (not shown)\"}"},
		{"it has failed", retrieve, func(w http.ResponseWriter, _ venafitest.Call) {
			venafitest.Status(w, "500 Certificate X has encountered an error while processing, Status: no CA, Stage: 500.", `{"Stage": 500, "Status": "no CA"}`)
		}, "refused: unable to retrieve: Unexpected status code on TPP Certificate Retrieval. Status: 500 Certificate X has encountered an error while processing, Status: no CA, Stage: 500."},
		{"the server is down", retrieve, fail(500, nil), "unavailable: unable to retrieve: Unexpected status code on TPP Certificate Retrieval. Status: 500 Internal Server Error"},
		{"not yet", retrieve, func(w http.ResponseWriter, _ venafitest.Call) {
			venafitest.Status(w, "202 being processed", `{"Stage": 500, "Status": "Post CSR"}`)
		}, "pending: Issuance is pending. You may try retrieving the certificate later using Pickup ID: \\VED\\Policy\\web\\web.example.com\n\tStatus: Post CSR"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			w.on(tc.path, tc.answer)
			o := order(t, "web.example.com")
			id, err := w.Request(t.Context(), w.issuer, w.access, o)
			if err == nil {
				_, err = w.Retrieve(t.Context(), w.issuer, w.access, id, o)
			}
			got := shown(w, err)
			if !strings.HasPrefix(got, tc.want) || strings.Contains(got, secretText) || err == nil || len(err.Error()) > 1024 {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// The credentials of a Secret.
func TestCredentials(t *testing.T) {
	tests := []struct {
		reason string
		data   map[string]string
		before func(*world)
		want   string
	}{
		{"user and password", map[string]string{"username": venafitest.User, "password": venafitest.Password}, nil, ""},
		{"a token", map[string]string{"access-token": venafitest.AccessToken + "\n"}, nil, ""},
		{"another password", map[string]string{"username": venafitest.User, "password": "wrong-password"}, nil,
			"refused credentials: tppClient.GetRefreshToken: unexpected status code on CyberArk Certificate Manager, Self-Hosted Authorize. Status: 400 Bad Request"},
		{"another token", map[string]string{"access-token": "wrong-token"}, nil, "refused credentials: tppClient.VerifyAccessToken: failed to verify token. Message: 401 Unauthorized"},
		{"no keys", map[string]string{"token": "x"}, nil, "refused credentials: no TPP credentials configured: the Secret ns/tpp has no access-token, nor username and password"},
		{"the server is down", map[string]string{"access-token": venafitest.AccessToken}, func(w *world) { w.tpp.Close() },
			`no client: tppClient.VerifyAccessToken: Get "SERVER/vedauth/authorize/verify": dial tcp `},
		{"no URL", nil, func(w *world) { w.issuer.URL = "https://_" }, "no client: error creating vcert client: vcert error: your data contains problems: failed to normalize URL: "},
		{"no CA", nil, func(w *world) { w.issuer.CABundle = []byte("x") }, "no client: error creating vcert client: the CA bundle has no certificates"},
		{"loopback", nil, func(w *world) { w.issuer.Loopback = false },
			`no client: tppClient.GetRefreshToken: Post "SERVER/vedauth/authorize/oauth": dial tcp `},
		{"a server that does not prove itself", nil, func(w *world) { w.issuer.CABundle = nil },
			`no client: tppClient.GetRefreshToken: Post "SERVER/vedauth/authorize/oauth": tls: failed to verify certificate`},
		{"the ping fails", nil, func(w *world) {
			w.on("/vedsdk/", func(rw http.ResponseWriter, _ venafitest.Call) { rw.WriteHeader(http.StatusServiceUnavailable) })
		}, "unavailable: 503 Service Unavailable"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := newWorld(t)
			if tc.data != nil {
				w.data = map[string][]byte{}
				for key, value := range tc.data {
					w.data[key] = []byte(value)
				}
			}
			if tc.before != nil {
				tc.before(w)
			}
			if got := shown(w, w.Verify(t.Context(), w.issuer, w.access)); !strings.HasPrefix(got, tc.want) || tc.want == "" && got != "" {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
		})
	}
}

// A token is kept for most of its life, replaced when the server does not accept it
// any more, and revoked when the Secret has changed and in the end.
func TestTokens(t *testing.T) {
	w := newWorld(t)
	request := func() {
		t.Helper()
		if _, err := w.Request(t.Context(), w.issuer, w.access, order(t, "web.example.com")); err != nil {
			t.Fatal(shown(w, err))
		}
	}
	logins := func(want int) {
		t.Helper()
		if got := len(w.tpp.Calls("/authorize/oauth")); got != want {
			t.Fatalf("%d logins, want %d", got, want)
		}
	}
	for range 5 {
		request()
	}
	if err := w.Verify(t.Context(), w.issuer, w.access); err != nil {
		t.Fatal(err)
	}
	logins(1)
	w.clock.Step(49 * time.Minute)
	request()
	logins(2)
	w.tpp.Revoke()
	request()
	logins(3)
	w.version = "2"
	request()
	logins(4)
	w.closing.Wait()
	if got := w.tpp.Granted(); got != 1 {
		t.Errorf("%d tokens", got)
	}
	w.end()
	w.closing.Wait()
	if got := w.tpp.Granted(); got != 0 {
		t.Errorf("%d tokens in the end", got)
	}
	if _, err := w.Request(t.Context(), w.issuer, w.access, order(t, "x")); kind(err) != "no client: " {
		t.Errorf("after the end: %v", err)
	}
}

// The static token of a Secret that has ended is no reason to call again.
func TestStaticToken(t *testing.T) {
	w := newWorld(t)
	w.data = map[string][]byte{"access-token": []byte(venafitest.AccessToken)}
	if err := w.Verify(t.Context(), w.issuer, w.access); err != nil {
		t.Fatal(err)
	}
	w.tpp.Revoke()
	w.tpp.Forget()
	if _, err := w.Request(t.Context(), w.issuer, w.access, order(t, "web")); kind(err) != "refused credentials: " {
		t.Errorf("%v", err)
	}
	if got := w.tpp.Calls(""); len(got) != 1 {
		t.Errorf("calls %v", got)
	}
}

// A server that does not answer is left alone.
func TestBreaker(t *testing.T) {
	w := newWorld(t)
	w.on("/checkpolicy", func(rw http.ResponseWriter, _ venafitest.Call) { rw.WriteHeader(http.StatusServiceUnavailable) })
	try := func(id int) error {
		o := order(t, "web")
		o.ID = fmt.Sprint(id)
		_, err := w.Request(t.Context(), w.issuer, w.access, o)
		return err
	}
	for i := range 20 {
		if err := try(i); kind(err) != "unavailable: " {
			t.Fatal(err)
		}
	}
	if got := len(w.tpp.Calls("/checkpolicy")); got != breaker.TripAfter {
		t.Errorf("%d calls", got)
	}
	w.tpp.With(func(s *venafitest.State) { s.Answer = nil })
	w.clock.Step(breaker.OpenFor)
	if err := try(99); err != nil {
		t.Error(err)
	}
}

// An attempt that is given up ends at once, except while a certificate is ordered:
// its identifier must not be lost.
func TestGivenUp(t *testing.T) {
	for path, want := range map[string]bool{"/checkpolicy": false, "/certificates/request": true} {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		w.tpp.With(func(s *venafitest.State) {
			s.Answer = func(_ http.ResponseWriter, c venafitest.Call) bool {
				if strings.HasSuffix(c.Path, path) {
					cancel()
					if !want {
						<-release
					}
				}
				return false
			}
		})
		id, err := w.Request(ctx, w.issuer, w.access, order(t, "web"))
		close(release)
		if (id != "") != want || (err == nil) != want {
			t.Errorf("%s: %q, %v", path, id, err)
		}
	}
}

func TestObjectName(t *testing.T) {
	for cn, want := range map[string]string{"web": "web", `sub\web`: "", "we\nb": "", "": "www.example.com"} {
		if got, err := order(t, cn).ObjectName(); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", cn, got, err)
		}
	}
	a, _ := Issuer{Product: TPP, URL: "https://TPP.example.com/vedsdk/", Zone: `\VED\Policy\Web`}.PlaceOf(order(t, "WEB"))
	b, _ := Issuer{Product: TPP, URL: "tpp.example.com", Zone: `web`}.PlaceOf(order(t, "web"))
	if a != b {
		t.Errorf("%v is not %v", a, b)
	}
}

// vcert's own stand-in issues, renews and gives a chain.
func TestFake(t *testing.T) {
	l := (&session{}).newLine(t.Context())
	c := orders{target: target{observe: func(string) func() { return func() {} }}, Connector: fake.NewConnector(false, nil), line: l}
	l.last.status = http.StatusOK
	for _, name := range []string{"first", "renewed"} {
		o := order(t, name)
		id, err := c.request(o)
		if err != nil {
			t.Fatal(err)
		}
		bundle, err := c.retrieve(id, o)
		if err != nil {
			t.Fatal(err)
		}
		certs, err := pki.ParseCertificates(bundle)
		if err != nil {
			t.Fatal(err)
		}
		chain, err := pki.AcceptChain(certs, pki.Wanted{Key: o.CSR.PublicKey}, time.Now())
		if err != nil || chain.CA == nil || chain.Certificates[0].Subject.CommonName != name {
			t.Errorf("%v, chain %v", err, chain)
		}
	}
	if _, err := c.request(order(t, "shop.venafi.com")); err == nil {
		t.Error("issued for a name that the stand-in refuses")
	}
	if _, err := c.request(orderFor(t, pki.Subject{DNSNames: []string{"a.example.com"}}, newKey(t))); err == nil || !strings.Contains(err.Error(), "must have the 'commonName' field") {
		t.Errorf("without a subject: %v", err)
	}
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// saas answers the calls of SaaS and of NGTS.
func (w *world) saas(t *testing.T, template string, exists bool, status string) {
	t.Helper()
	var csr string
	policy := map[string]any{
		"id": "1", "name": template, "certificateIssuingTemplateAliasIdMap": map[string]string{template: "2"},
		"subjectCNRegexes": []string{".*"}, "subjectORegexes": []string{".*"}, "subjectOURegexes": []string{".*"}, "subjectSTRegexes": []string{".*"},
		"subjectLRegexes": []string{".*"}, "subjectCValues": []string{".*"}, "sanRegexes": []string{".*"},
		"keyTypes": []map[string]any{{"keyType": "EC", "keyCurves": []string{"P256"}}},
	}
	w.tpp.With(func(s *venafitest.State) {
		s.Answer = func(rw http.ResponseWriter, c venafitest.Call) bool {
			path := strings.TrimPrefix(c.Path, "/ngts")
			switch call := c.Method + " " + path; {
			case call == "GET /v1/useraccounts":
				if c.Header.Get("tppl-api-key") != "api-key-1" {
					venafitest.Fail(rw, http.StatusUnauthorized, nil)
					return true
				}
				venafitest.JSON(rw, map[string]any{"user": map[string]any{"username": "me"}, "company": map[string]any{"id": "c"}})
			case call == "POST /token":
				venafitest.JSON(rw, map[string]any{"access_token": jwt(t, w.clock.Now().Add(time.Hour)), "token_type": "Bearer", "expires_in": 3600})
			case w.issuer.Product == NGTS && call == "GET /v1/certificateissuingtemplates":
				templates := []map[string]any{}
				if exists {
					templates = append(templates, policy)
				}
				venafitest.JSON(rw, map[string]any{"certificateIssuingTemplates": templates})
			case strings.HasSuffix(path, "/certificateissuingtemplates/"+template), call == "GET /outagedetection/v1/applications/name/app":
				if !exists {
					venafitest.Fail(rw, http.StatusNotFound, nil)
					return true
				}
				venafitest.JSON(rw, policy)
			case strings.HasPrefix(call, "POST ") && strings.HasSuffix(path, "/certificaterequests"):
				csr = fmt.Sprint(c.Body["certificateSigningRequest"])
				rw.WriteHeader(http.StatusCreated)
				venafitest.JSON(rw, map[string]any{"certificateRequests": []map[string]any{{"id": "req-1"}}})
			case strings.HasSuffix(path, "/certificaterequests/req-1"):
				venafitest.JSON(rw, map[string]any{"status": status, "certificateIds": []string{"cert-1"}})
			case strings.HasSuffix(path, "/certificates/cert-1/contents"):
				data, err := w.tpp.CA.Sign(csr, "24h")
				if err != nil {
					t.Error(err)
				}
				_, _ = fmt.Fprint(rw, data["certificate"].(string)+strings.Join(data["ca_chain"].([]string), ""))
			default:
				venafitest.Fail(rw, http.StatusNotFound, nil)
			}
			return true
		}
	})
}

func jwt(t *testing.T, end time.Time) string {
	t.Helper()
	claims, err := json.Marshal(map[string]any{"exp": end.Unix()})
	if err != nil {
		t.Fatal(err)
	}
	return "e30." + base64.RawURLEncoding.EncodeToString(claims) + ".c2ln"
}

func (w *world) use(product Product) {
	w.issuer.Product, w.issuer.Zone = product, `app\Default`
	w.data = map[string][]byte{"api-key": []byte("api-key-1"), "client-id": []byte("id@tenant"), "client-secret": []byte("client-secret-1")}
	if product == NGTS {
		w.issuer.Zone = "Default"
		w.issuer.URL, w.issuer.TokenURL, w.issuer.Tenant = w.tpp.URL+"/ngts", w.tpp.URL+"/token", "1234567890"
	}
}

// SaaS and NGTS issue; the application of the zone must exist; a certificate that
// has failed is refused.
func TestSaaS(t *testing.T) {
	for _, product := range []Product{Cloud, NGTS} {
		t.Run(string(product), func(t *testing.T) {
			w := newWorld(t)
			w.use(product)
			w.saas(t, "Default", true, "ISSUED")
			if err := w.Verify(t.Context(), w.issuer, w.access); err != nil {
				t.Fatal(shown(w, err))
			}
			o := order(t, "web.example.com")
			id, err := w.Request(t.Context(), w.issuer, w.access, o)
			if err != nil || id != "req-1" {
				t.Fatalf("%q, %s", id, shown(w, err))
			}
			bundle, err := w.Retrieve(t.Context(), w.issuer, w.access, id, o)
			certs, parseErr := pki.ParseCertificates(bundle)
			if err != nil || parseErr != nil || len(certs) != 3 || !pki.SameKey(certs[0].PublicKey, o.CSR.PublicKey) {
				t.Errorf("%v, %v, %d certificates", err, parseErr, len(certs))
			}
			if got := len(w.tpp.Calls("/useraccounts")) + len(w.tpp.Calls("/token")); got != 1 {
				t.Errorf("%d logins", got)
			}
			if _, err := w.Retrieve(t.Context(), w.issuer, w.access, "../../../v1/users", o); kind(err) != "refused: " {
				t.Errorf("an identifier that is a path: %v", err)
			}
			for status, want := range map[string]string{"FAILED": "refused: ", "PENDING": "pending: "} {
				w.saas(t, "Default", true, status)
				if _, err := w.Retrieve(t.Context(), w.issuer, w.access, id, o); kind(err) != want {
					t.Errorf("%s: %s", status, shown(w, err))
				}
			}
			w.saas(t, "Default", false, "")
			w.tpp.Forget()
			missing := map[Product]string{Cloud: "the application in the zone does not exist: create it", NGTS: "zone not found"}[product]
			if _, err := w.Request(t.Context(), w.issuer, w.access, o); !strings.Contains(shown(w, err), "refused: ") || !strings.Contains(err.Error(), missing) {
				t.Errorf("without an application: %s", shown(w, err))
			}
			for _, c := range w.tpp.Calls("") {
				if c.Method == http.MethodPost && !strings.HasSuffix(c.Path, "/token") {
					t.Errorf("called %s", c)
				}
			}
		})
	}
}

// Nothing of NGTS runs on after an attempt.
func TestNGTSEnds(t *testing.T) {
	w := newWorld(t)
	w.use(NGTS)
	w.saas(t, "Default", true, "ISSUED")
	for range 5 {
		if _, err := w.Request(t.Context(), w.issuer, w.access, order(t, "web")); err != nil {
			t.Fatal(shown(w, err))
		}
	}
	deadline := time.Now().Add(10 * time.Second)
	for renewals() > 0 {
		if time.Now().After(deadline) {
			t.Fatalf("%d renewals of tokens run on", renewals())
		}
		runtime.Gosched()
	}
}

// renewals is how many of vcert's renewals of tokens run.
func renewals() int {
	stacks := make([]byte, 1<<20)
	return strings.Count(string(stacks[:runtime.Stack(stacks, true)]), "ngts.(*Connector).renewAccessTokenOnExpiration")
}
