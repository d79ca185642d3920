package console_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

var shared apitest.Shared

func TestMain(m *testing.M) { apitest.Main(m, &shared) }

const requests = "certificatesigningrequests.certificates.k8s.io"

// browser is a browser with its cookies. It follows redirects.
type browser struct {
	*http.Client
	base string
}

// open returns a browser for the console of a server. Its connections have the client
// certificate of cfg, if it has one.
func open(t testing.TB, s *apitest.Server, cfg *rest.Config) browser {
	t.Helper()
	transport, err := rest.TransportFor(&rest.Config{TLSClientConfig: cfg.TLSClientConfig})
	if err != nil {
		t.Fatal(err)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return browser{&http.Client{Transport: transport, Jar: jar}, s.Admin(t).Host + "/console/"}
}

// get returns a page, and the status of the answer.
func (b browser) get(t testing.TB, path string) (string, int) {
	t.Helper()
	answer, err := b.Get(b.base + path)
	return read(t, answer, err)
}

// post sends a form as a page of the origin would.
func (b browser) post(t *testing.T, path string, form url.Values, header ...string) (string, int) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := b.Do(r)
	return read(t, answer, err)
}

func read(t testing.TB, answer *http.Response, err error) (string, int) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(page), answer.StatusCode
}

// tokenOf returns a token of a new service account of the namespace default, and the name
// of its user.
func tokenOf(t *testing.T, admin kubernetes.Interface, name string) (token, user string) {
	t.Helper()
	accounts := admin.CoreV1().ServiceAccounts("default")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	answer, err := accounts.CreateToken(t.Context(), name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return answer.Status.Token, "system:serviceaccount:default:" + name
}

// wants reports what a page lacks.
func wants(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("no %q in\n%s", text, page)
		}
	}
}

func submit(t *testing.T, admin kubernetes.Interface, name string) *certificatesv1.CertificateSigningRequest {
	t.Helper()
	return apitest.Create(t, admin, apitest.NewCSR(t, name, "example.com/web", pki.Subject{CommonName: name + ".example.com"}, apitest.NewKey(t)))
}

// A session begins with a token that the API accepts, and ends with a click.
func TestLogin(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	b := open(t, s, s.Anonymous(t))
	if page, _ := b.get(t, "requests"); !strings.Contains(page, "<h1>Log in</h1>") {
		t.Errorf("without a session:\n%s", page)
	}
	for form, want := range map[string]string{"": "This is not a token", "no token": "This is not a token", "abc.def.ghi": "does not accept this token"} {
		if page, code := b.post(t, "login", url.Values{"token": {form}}); code < 400 || !strings.Contains(page, want) {
			t.Errorf("token %q: %d\n%s", form, code, page)
		}
	}
	token, user := tokenOf(t, admin, "login")
	s.Grant(t, user, apitest.Allow("list", "certificatesigningrequests"))
	page, code := b.post(t, "login", url.Values{"token": {" " + token + "\n"}})
	if code != http.StatusOK {
		t.Errorf("%d", code)
	}
	wants(t, page, "<h1>Start</h1>", user, "Log out")
	page, _ = b.get(t, "requests")
	wants(t, page, "<h1>Requests</h1>", "you may not list podcertificaterequests in all namespaces")
	at, _ := url.Parse(b.base)
	for _, cookie := range b.Jar.Cookies(at) {
		if strings.Contains(cookie.Value, token[:20]) {
			t.Errorf("the cookie shows the token: %s", cookie.Value)
		}
	}
	if page, _ := b.post(t, "logout", nil); !strings.Contains(page, "<h1>Log in</h1>") {
		t.Errorf("after logging out:\n%s", page)
	}
	if page, _ := b.get(t, "requests"); !strings.Contains(page, "<h1>Log in</h1>") {
		t.Errorf("after logging out:\n%s", page)
	}
}

// A login leads to the page that was asked for before, if it is one of the console.
func TestPageAfterLogin(t *testing.T) {
	s := shared.Start(t)
	token, _ := tokenOf(t, apitest.Client(t, s.Admin(t)), "after")
	b := open(t, s, s.Anonymous(t))
	page, _ := b.get(t, "issued?name=www.example.com&serial=")
	wants(t, page, "<h1>Log in</h1>", `name="after" value="issued?name=www.example.com&amp;serial="`)
	page, _ = b.post(t, "login", url.Values{"token": {"abc"}, "after": {"issued?name=www.example.com&serial="}})
	wants(t, page, `name="after" value="issued?name=www.example.com&amp;serial="`)
	b.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for after, want := range map[string]string{
		"issued?name=www.example.com&serial=": "/console/issued?name=www.example.com&serial=",
		"object/csr/-/a%2Fb":                  "/console/object/csr/-/a%2Fb",
		"":                                    "/console/",
		"../api/v1/secrets":                   "/console/",
		"%2e%2e/%2e%2e/api":                   "/console/",
		"..//evil.example.com/":               "/console/",
		"//evil.example.com/":                 "/console/evil.example.com/", // of this server
		"x\r\nSet-Cookie: a=b":                "/console/",
		strings.Repeat("x", 501):              "/console/",
	} {
		r, err := b.PostForm(b.base+"login", url.Values{"token": {token}, "after": {after}})
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if to := r.Header.Get("Location"); to != want {
			t.Errorf("after %q the login leads to %q, want %q", after, to, want)
		}
	}
}

// A browser with a client certificate is its user. Forms of other pages are refused: they
// come with the certificate, too.
func TestClientCertificate(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	csr := submit(t, admin, "by-certificate")
	b := open(t, s, s.Login(t, "ann", "system:masters"))
	page, _ := b.get(t, "object/"+requests+"/-/by-certificate")
	wants(t, page, "by-certificate.example.com", `value="`+string(csr.UID)+`"`, "Approve", "Deny")
	at := "object/" + requests + "/-/" + csr.Name
	form := url.Values{"uid": {string(csr.UID)}, "decision": {"approve"}, "message": {"it is ours"}}
	host := strings.TrimSuffix(strings.TrimPrefix(b.base, "https://"), "/console/")
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Origin", "https://evil.example.com"}, {"Origin", "http://" + host}} {
		if _, code := b.post(t, at, form, header...); code != http.StatusForbidden {
			t.Errorf("%s: %d", header, code)
		}
	}
	other := url.Values{"uid": {"another"}, "decision": {"approve"}}
	if page, code := b.post(t, at, other); code != http.StatusConflict || !strings.Contains(page, "another request now has its name") {
		t.Errorf("another request: %d\n%s", code, page)
	}
	if decided, _ := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), csr.Name, metav1.GetOptions{}); len(decided.Status.Conditions) > 0 {
		t.Fatalf("decided by refused forms: %+v", decided.Status.Conditions)
	}
	if page, code := b.post(t, at, form, "Origin", "https://"+host); code != http.StatusOK || strings.Contains(page, `name="decision"`) {
		t.Errorf("%d\n%s", code, page)
	}
	decided, err := admin.CertificatesV1().CertificateSigningRequests().Get(t.Context(), csr.Name, metav1.GetOptions{})
	if err != nil || len(decided.Status.Conditions) != 1 || decided.Status.Conditions[0].Message != "it is ours" {
		t.Errorf("%v %+v", err, decided.Status.Conditions)
	}
}

// What a user sees ends with the right to it, also if it has been followed.
func TestRightsEnd(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	submit(t, admin, "seen")
	token, user := tokenOf(t, admin, "reader")
	s.Grant(t, user, apitest.Allow("list watch get", "certificatesigningrequests"))
	b := open(t, s, s.Anonymous(t))
	page, _ := b.post(t, "login", url.Values{"token": {token}, "after": {"requests"}})
	wants(t, page, "seen.example.com", "may not decide")
	follow(t, b, requests) // lists are answered from what is followed
	submit(t, admin, "later")
	apitest.Eventually(t, "it is shown", func() bool {
		page, _ := b.get(t, "requests?state=all")
		return strings.Contains(page, "later.example.com")
	})
	page, _ = b.get(t, "object/"+requests+"/-/seen")
	wants(t, page, "You may not decide this request", "certplane who-can approve example.com/web")
	if strings.Contains(page, `name="decision"`) {
		t.Errorf("a button for who may not decide:\n%s", page)
	}
	if err := admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), "granted:"+user, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the right has ended", func() bool { page, _ := b.get(t, "requests"); return !strings.Contains(page, "seen.example.com") })
	if page, code := b.get(t, "requests"); code != http.StatusForbidden {
		t.Errorf("%d\n%s", code, page)
	}
}

// follow opens a stream of changes until the test ends, and returns its lines.
func follow(t *testing.T, b browser, of ...string) <-chan string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.base+"live?"+url.Values{"of": of}.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := b.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s", answer.Status)
	}
	lines := make(chan string, 100)
	go func() {
		defer answer.Body.Close()
		for scanner := bufio.NewScanner(answer.Body); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	if line := next(t, lines); line != ": watching" {
		t.Fatalf("%q", line)
	}
	return lines
}

// next returns the next line of a stream that is not empty.
func next(t *testing.T, lines <-chan string) string {
	t.Helper()
	for {
		select {
		case line := <-lines:
			if line != "" {
				return line
			}
		case <-time.After(30 * time.Second):
			t.Fatal("no line in 30s")
		}
	}
}

// What somebody types into the address of a page is answered.
func TestAddresses(t *testing.T) {
	s := shared.Start(t)
	b := open(t, s, s.Login(t, "typist", "system:masters"))
	for path, want := range map[string]string{
		"requests?page=9223372036854775807": "<h1>Requests</h1>",
		"requests?page=-1":                  "<h1>Requests</h1>",
		"requests?page=x&state=nosuch":      "<h1>Requests</h1>",
		"certificates?page=-1":              "<h1>Certificates</h1>",
		"certificates?expiring=soon":        "is not a time such as 7d",
		"issuers?continue-issuers=x":        "begin at the first page",
		"issued?after=x":                    "is not a time such as 7d",
		"issued.csv?expiring=x":             "is not a time such as 7d",
		"issued/abc/key.pem":                "Page not found",
		"issued/abc/certificate.pem":        "Not Found",
		"trust/example.com/none":            "No roots of the signer example.com/none are published",
		"issued?expiring=soon":              "is not a time such as 7d",
		"object/secrets/default/x":          "The console has no page for objects of the resource secrets",
		"object/" + requests + "/-/..%2fx":  "No object can have the name ../x",
		"issued/..%2fx":                     "No record can have the name ../x",
		"object/signers.certplane.dev/-/kubernetes.io/kubelet-serving": "kubernetes.io/kubelet-serving",
		"nosuch": "Page not found",
	} {
		if page, code := b.get(t, path); code >= 500 || !strings.Contains(page, want) {
			t.Errorf("%s: %d\n%s", path, code, page)
		}
	}
}

// Streams say that something has changed, to who may watch it.
func TestLive(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	b := open(t, s, s.Login(t, "bob", "system:masters"))
	for _, of := range []string{requests, "nodes", "signers.certplane.dev"} {
		lines := follow(t, b, of)
		switch of {
		case requests:
			submit(t, admin, "live")
		case "nodes":
			if _, err := admin.CoreV1().Nodes().Create(t.Context(), node("live"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		default:
			continue // it begins
		}
		if line := next(t, lines); line != "data: changed" {
			t.Errorf("%s: %q", of, line)
		}
	}
	token, _ := tokenOf(t, admin, "nobody")
	nobody := open(t, s, s.Anonymous(t))
	nobody.post(t, "login", url.Values{"token": {token}})
	if _, code := nobody.get(t, "live?of="+requests+"&of=secrets"); code != http.StatusNoContent {
		t.Errorf("without rights: %d", code)
	}
	if page, code := open(t, s, s.Anonymous(t)).get(t, "live?of="+requests); code != http.StatusUnauthorized {
		t.Errorf("without a session: %d\n%s", code, page)
	}
}

// The menu has the pages that a user can read.
func TestMenu(t *testing.T) {
	s := shared.Start(t)
	token, user := tokenOf(t, apitest.Client(t, s.Admin(t)), "menu")
	s.Grant(t, user, apitest.Allow("list", "certificatesigningrequests clustertrustbundles"))
	b := open(t, s, s.Anonymous(t))
	page, _ := b.post(t, "login", url.Values{"token": {token}})
	var titles []string
	for _, a := range elements(elements(parse(t, page), "nav")[0], "a") {
		titles = append(titles, text(a))
	}
	if got := strings.Join(titles, " "); got != "Start Requests Trust" {
		t.Errorf("the menu is %q", got)
	}
	if page, _ := b.get(t, "signers"); !strings.Contains(page, "You may not list signers.certplane.dev.") {
		t.Errorf("a page that is not in the menu:\n%s", page)
	}
}

// A user has some streams, and others have some, too.
func TestStreamsAreBounded(t *testing.T) {
	s := shared.Start(t)
	one := open(t, s, s.Login(t, "many", "system:masters"))
	for range 12 {
		follow(t, one, requests)
	}
	if _, code := one.get(t, "live?of="+requests); code != http.StatusTooManyRequests {
		t.Errorf("the 13th stream: %d", code)
	}
	again := open(t, s, s.Login(t, "many", "system:masters")) // with another certificate
	if _, code := again.get(t, "live?of="+requests); code != http.StatusTooManyRequests {
		t.Errorf("with other credentials: %d", code)
	}
	follow(t, open(t, s, s.Login(t, "few", "system:masters")), requests)
}

// Browsers may use nothing but this server, and its pages in no frame.
func TestHeaders(t *testing.T) {
	s := shared.Start(t)
	b := open(t, s, s.Anonymous(t))
	for _, path := range []string{"login", "assets/console.js", "assets/console.css", "nosuch"} {
		answer, err := b.Get(b.base + path)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if policy := answer.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "frame-ancestors 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %q", path, policy)
		}
		if got := answer.Header.Get("Strict-Transport-Security"); got != "max-age=2592000" {
			t.Errorf("%s: Strict-Transport-Security is %q", path, got)
		}
		if answer.Header.Get("X-Content-Type-Options") != "nosniff" || answer.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s: %v", path, answer.Header)
		}
	}
	if _, code := b.get(t, "assets/"); code != http.StatusNotFound {
		t.Errorf("the folder of assets: %d", code)
	}
}

// A browser that asks for the server finds the console; clients of the API find the API.
func TestRoot(t *testing.T) {
	s := shared.Start(t)
	b := open(t, s, s.Anonymous(t))
	for accept, found := range map[string]bool{"text/html,application/xhtml+xml": true, "application/json": false} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, strings.TrimSuffix(b.base, "console/"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Accept", accept)
		answer, err := b.Do(r)
		page, _ := read(t, answer, err)
		if strings.Contains(page, "<h1>Log in</h1>") != found {
			t.Errorf("%s:\n%s", accept, page)
		}
	}
}

func node(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
