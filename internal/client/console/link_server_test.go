package console_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/console"
)

// linkFor asks for the code of a login link as a client of the API.
func linkFor(t *testing.T, s *apitest.Server, cfg *rest.Config, header ...string) (console.LoginCode, int) {
	t.Helper()
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Admin(t).Host+console.Path+console.LinkPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer, err := client.Do(r)
	body, status := read(t, answer, err)
	var code console.LoginCode
	if status == http.StatusOK {
		if err := json.Unmarshal([]byte(body), &code); err != nil {
			t.Fatal(err)
		}
	}
	return code, status
}

// A login link logs a browser in as the user of a client certificate, once, after it has
// said who that is.
func TestLoginLink(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	csr := submit(t, admin, "by-link")
	code, _ := linkFor(t, s, s.Login(t, "bob-of-link", "system:masters"))
	if code.User != "bob-of-link" {
		t.Fatalf("%+v", code)
	}
	b := open(t, s, s.Anonymous(t))
	form := url.Values{"token": {code.Code}, "after": {"signers"}}
	for range 2 { // to look uses nothing up
		page, _ := b.post(t, "login", form)
		wants(t, page, "<h1>Log in as bob-of-link</h1>", "If you did not make it yourself", `name="after" value="signers"`)
		if page, _ := b.get(t, "requests"); !strings.Contains(page, "<h1>Log in</h1>") {
			t.Fatal("logged in without a confirmation")
		}
	}
	form.Set("confirmed", "yes")
	page, _ := b.post(t, "login", form)
	wants(t, page, "<h1>Signers</h1>", "bob-of-link", "Log out")
	page, status := open(t, s, s.Anonymous(t)).post(t, "login", form)
	if status != http.StatusUnauthorized {
		t.Errorf("used twice: %d", status)
	}
	wants(t, page, "This link cannot be used")

	page, _ = b.post(t, "object/"+requests+"/-/by-link", url.Values{"uid": {string(csr.UID)}, "decision": {"approve"}})
	wants(t, page, "by-link is approved.")
	at, _ := url.Parse(b.base)
	for _, cookie := range b.Jar.Cookies(at) {
		if strings.Contains(cookie.Value, code.Code) {
			t.Error("the cookie shows the code")
		}
	}
	// Two sessions of certificates are two users.
	other, _ := linkFor(t, s, s.Login(t, "eve-of-link"))
	eve := open(t, s, s.Anonymous(t))
	eve.post(t, "login", url.Values{"token": {other.Code}, "confirmed": {"yes"}})
	if page, status := eve.get(t, "requests"); status != http.StatusForbidden || strings.Contains(page, "by-link.example.com") {
		t.Errorf("another user: %d\n%s", status, page)
	}
}

// Only who proves to be a user gets a code for that user.
func TestLoginLinkIsForItsUser(t *testing.T) {
	s := shared.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	bob := s.Login(t, "bob-of-many-links")
	for what, header := range map[string][]string{
		"impersonation": {"Impersonate-User", "alice"}, "a page of another site": {"Origin", "https://evil.example.com"}, "a page of this site": {"Origin", s.Admin(t).Host},
	} {
		if code, status := linkFor(t, s, bob, header...); status < 400 {
			t.Errorf("%s: %d %+v", what, status, code)
		}
	}
	if _, status := linkFor(t, s, s.Anonymous(t)); status != http.StatusUnauthorized {
		t.Errorf("nobody: %d", status)
	}
	if _, status := linkFor(t, s, s.Anonymous(t), "Authorization", "Bearer abc.def.ghi"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d", status)
	}
	token, user := tokenOf(t, admin, "link")
	code, _ := linkFor(t, s, s.Anonymous(t), "Authorization", "Bearer "+token)
	if code.User != user {
		t.Errorf("%+v", code)
	}
	// A session ends with the account.
	b := open(t, s, s.Anonymous(t))
	b.post(t, "login", url.Values{"token": {code.Code}, "confirmed": {"yes"}})
	if page, _ := b.get(t, "trust"); strings.Contains(page, "<h1>Log in</h1>") {
		t.Errorf("not logged in:\n%s", page)
	}
	if err := admin.CoreV1().ServiceAccounts("default").Delete(t.Context(), "link", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the session has ended", func() bool {
		page, _ := b.get(t, "requests")
		return strings.Contains(page, "<h1>Log in</h1>") || strings.Contains(page, "Log in, and try again")
	})
	for range 10 {
		linkFor(t, s, bob)
	}
	if _, status := linkFor(t, s, bob); status != http.StatusTooManyRequests {
		t.Errorf("the 11th link: %d", status)
	}
	if _, status := linkFor(t, s, s.Login(t, "another-of-links")); status != http.StatusOK {
		t.Errorf("another user: %d", status)
	}
}
