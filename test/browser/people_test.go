package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

func testLogin(t *testing.T, w *world, c *browser) {
	b := c.tab(t)
	b.open(w.server + "/console/")
	b.shows("Log in", "Token")
	b.showsNot("Log out", "Requests")

	b.tabTo("#token", "")
	b.do(press("no-token-of-this-server"))
	b.tabTo("button", "Log in")
	if status := b.follow(press(kb.Enter)); status != 401 {
		t.Errorf("a wrong token is answered with %d", status)
	}
	b.shows("The server does not accept this token.")

	b.login(w, w.token(t, "officer"))
	b.shows("requests wait for you")
	if cookies := evaluate[string](b, "document.cookie"); cookies != "" {
		t.Errorf("scripts can read the cookie %q", cookies)
	}

	b.tabTo("button", "Log out")
	b.follow(press(kb.Enter))
	b.open(w.server + "/console/issued")
	b.shows("Log in", "Token")
}

// testOpenIDConnect logs in at an issuer of another site, from which the browser comes
// back: cookies for this site alone would be lost on the way.
func testOpenIDConnect(t *testing.T, w *world, c *browser) {
	b := c.tab(t)
	b.open(strings.Replace(w.server, "127.0.0.1", "localhost", 1) + "/console/certificates")
	b.tabTo("a", "Log in with OpenID Connect")
	b.follow(press(kb.Enter))
	b.shows("oidc:ann", "Log out", "Certificates")
	b.open(strings.Replace(w.server, "127.0.0.1", "localhost", 1) + "/console/")
	b.shows("oidc:ann", "requests wait for you")
}

// testKeyboard decides about requests of two kinds without a pointer.
func testKeyboard(t *testing.T, w *world, c *browser) {
	w.request(t, "keyboard")
	w.run(t, "sh request.sh denied denied.shop.example.com")
	b := c.tab(t)
	b.open(w.console + "requests")
	b.shows("csr/keyboard", "DNS:keyboard.example.com", "digital signature, server auth", "cr/denied", "DNS:denied.shop.example.com", "may decide")

	b.do(press(kb.Tab))
	b.shows("Skip to the content")
	b.follow(b.linkByKeyboard("csr/keyboard"))
	b.shows("CertificateSigningRequest keyboard", "certplane.dev/server", "Approve", "Deny")
	b.tabTo("#message", "")
	b.do(press("the name", kb.Enter, "is ours")) // Enter decides nothing
	b.tabTo("button", "Approve")
	b.follow(press(kb.Enter))
	b.shows("keyboard is approved.", "Approved", "the name is ours")
	b.until("the certificate is issued", func(text string) bool {
		return strings.Contains(text, "issued") && b.count("button[value=approve]") == 0
	})
	if got := w.run(t, "certplane kubectl get csr keyboard -o 'jsonpath={.status.conditions[0].type}: {.status.conditions[0].message}'"); got != "Approved: the name is ours" {
		t.Errorf("the request is %q", got)
	}
	w.until(t, "the certificate is issued", "certplane kubectl get csr keyboard -o 'jsonpath={.status.certificate}' | grep .")

	b.open(w.console + "requests")
	b.follow(b.linkByKeyboard("cr/denied"))
	b.shows("CertificateRequest shop/denied")
	b.tabTo("summary", "Deny it")
	b.do(press(kb.Enter))
	b.tabTo("#why", "")
	b.do(press("not our shop", kb.Enter))
	b.tabTo("button", "Deny")
	b.follow(press(kb.Enter))
	b.shows("not our shop")
	if got := w.run(t, "certplane kubectl get certificaterequest denied -n shop -o 'jsonpath={.status.conditions[?(@.type==\"Denied\")].message}'"); got != "not our shop" {
		t.Errorf("the request was denied with the message %q", got)
	}
}

// testLoginLink logs in with what the command line prints for a client certificate.
func testLoginLink(t *testing.T, w *world, c *browser) {
	var link string
	for line := range strings.SplitSeq(w.run(t, "certplane console --login-link"), "\n") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "https://") {
			link = line
		}
	}
	b := c.tab(t)
	b.open(link)
	b.until("the code is in the form", func(string) bool { return evaluate[string](b, "document.getElementById('token').value") != "" })
	if at := evaluate[string](b, "location.href"); strings.Contains(at, "#") {
		t.Errorf("the code stays in the address %s", at)
	}
	b.tabTo("button", "Log in")
	b.follow(press(kb.Enter))
	b.shows("Log in as certplane:admin", "If you did not make it yourself")
	b.tabTo("button", "Log in as certplane:admin")
	b.follow(press(kb.Enter))
	b.shows("requests wait for you", "certplane:admin", "Log out")
	b.open(link)
	b.tabTo("button", "Log in")
	b.follow(press(kb.Enter))
	b.shows("This link cannot be used")
}

// testRefused reads the reason of a refused decision, on a page that is updated at the
// same time.
func testRefused(t *testing.T, w *world, c *browser) {
	w.request(t, "refused")
	at := w.console + "object/certificatesigningrequests.certificates.k8s.io/-/refused"
	b := c.tab(t)
	b.open(at)
	evaluate[bool](b, "document.querySelectorAll('input[name=uid]').forEach((e) => { e.value = 'former' }), true")
	b.do(chromedp.Click(chromedp.CSS(".denial summary")), chromedp.SendKeys(chromedp.CSS("#why"), "not ours"))
	if status := b.follow(chromedp.Click(chromedp.CSS("button[value=deny]"))); status != 409 {
		t.Errorf("the answer is %d", status)
	}
	b.shows("another request now has its name")
	w.run(t, "certplane kubectl label csr refused team=web")
	b.until("the page is updated", func(string) bool {
		return strings.Contains(evaluate[string](b, "document.querySelector('main > details pre').textContent"), "team: web")
	})
	b.shows("another request now has its name", "CertificateSigningRequest refused")
	if got := evaluate[string](b, "document.getElementById('why').value"); got != "not ours" {
		t.Errorf("after the refusal the field has %q", got)
	}
	if got := evaluate[string](b, "location.href"); got != at {
		t.Errorf("the page is at %s", got)
	}
}

// testMany denies two requests with one confirmation.
func testMany(t *testing.T, w *world, c *browser) {
	w.request(t, "first-of-many")
	w.request(t, "second-of-many")
	b := c.tab(t)
	b.open(w.console + "requests?search=of-many")
	b.shows("csr/first-of-many", "csr/second-of-many")
	choose := func(name string) {
		b.tabTo("a", "csr/"+name)
		b.do(press("x"))
	}
	choose("first-of-many")
	w.run(t, "certplane kubectl label csr first-of-many second-of-many team=web")
	choose("second-of-many")
	w.request(t, "third-of-many")
	b.shows("csr/third-of-many")
	if n := b.count("input[name=choice]:checked"); n != 2 {
		t.Errorf("after an update %d requests are chosen, want 2", n)
	}
	b.tabTo("input[name=choice]", "")
	b.do(press(kb.Enter)) // it sends nothing
	b.shows("csr/third-of-many")
	if got := evaluate[string](b, "location.pathname + location.search"); !strings.HasSuffix(got, "/requests?search=of-many") {
		t.Errorf("Enter in a box leads to %s", got)
	}
	b.open(w.console + "requests?search=of-many")
	b.do(chromedp.Click(chromedp.CSS("tr:has(a[href$=first-of-many]) input")), chromedp.Click(chromedp.CSS("tr:has(a[href$=second-of-many]) input")))
	b.follow(chromedp.Click(chromedp.CSS(".many .deny")))
	b.shows("Deny 2 requests?", "csr/first-of-many", "csr/second-of-many")
	b.showsNot("csr/third-of-many")
	b.do(chromedp.SendKeys(chromedp.CSS("#message"), "not these"))
	b.follow(chromedp.Click(chromedp.CSS("button[value=deny]")))
	b.shows("2 of 2 requests decided.", "not these")
	if got := w.run(t, "certplane kubectl get csr first-of-many second-of-many third-of-many -o 'jsonpath={range .items[*]}{.status.conditions[0].message};{end}'"); got != "not these;not these;;" {
		t.Errorf("the messages are %q", got)
	}
}

// testPhone looks at the list on a narrow screen.
func testPhone(t *testing.T, w *world, c *browser) {
	w.run(t, "certplane request --signer server --dns a-very-long-name-of-a-host.of-some-department.in-some-country.example.com --name phone --out phone --wait 0")
	b := c.tab(t)
	b.width(phoneWidth)
	b.open(w.console + "requests?search=phone")
	b.shows("csr/phone", "a-very-long-name-of-a-host", "may decide")
	for what, selector := range map[string]string{"names": "td[data-column='Subject and names']", "state": "td[data-column=You]", "choice": "input[name=choice]"} {
		const visible = "(() => { const r = document.querySelector(%q).getBoundingClientRect(); return r.width > 0 && r.left >= 0 && r.right <= innerWidth })()"
		if !evaluate[bool](b, fmt.Sprintf(visible, selector)) {
			t.Errorf("the %s are not on the screen", what)
		}
	}
	if n := evaluate[int64](b, "document.querySelector('.scroll').scrollWidth - document.querySelector('.scroll').clientWidth"); n > 0 {
		t.Errorf("the list has to be moved by %d pixels", n)
	}
	const menu = "document.getElementById('menu').checkVisibility()"
	if evaluate[bool](b, menu) {
		t.Error("the menu is open at first")
	}
	b.do(chromedp.Click(chromedp.CSS("button.menu")))
	if !evaluate[bool](b, menu) {
		t.Error("the menu does not open")
	}
	b.follow(clickLink("Trust"))
	b.shows("Roots")
}

// linkByKeyboard gives a link the focus, and returns the key that opens it.
func (b *tab) linkByKeyboard(text string) chromedp.Action[chromedp.Void] {
	b.Helper()
	b.tabTo("a", text)
	return press(kb.Enter)
}

// clickLink clicks a link with a text.
func clickLink(text string) chromedp.Action[chromedp.Void] {
	return chromedp.Click(chromedp.Search(fmt.Sprintf("//a[text()=%q]", text)))
}

// testLive looks at pages that are open while something changes.
func testLive(t *testing.T, w *world, c *browser) {
	list := c.tab(t)
	list.login(w, w.token(t, "officer"))
	list.open(w.server + "/console/requests")
	list.shows("Requests that wait for a decision")
	evaluate[bool](list, "window.same = true")
	w.request(t, "live")
	list.shows("csr/live", "DNS:live.example.com")

	one := c.tab(t)
	one.open(w.console + "object/certificatesigningrequests.certificates.k8s.io/-/live")
	one.do(chromedp.SendKeys(chromedp.CSS("#message"), "half a sent"))
	w.run(t, "certplane kubectl label csr live team=web")
	one.until("the page is updated", func(string) bool {
		return strings.Contains(evaluate[string](one, "document.querySelector('details pre').textContent"), "team: web")
	})
	one.do(press("ence"))
	if got := evaluate[string](one, "document.getElementById('message').value"); got != "half a sentence" {
		t.Errorf("after an update the field has %q", got)
	}
	if got := evaluate[string](one, "document.activeElement.id"); got != "message" {
		t.Errorf("after an update %q has the focus", got)
	}
	one.follow(chromedp.Click(chromedp.CSS("button[value=approve]")))
	list.until("the request no longer waits", func(text string) bool { return !strings.Contains(text, "csr/live") })
	if !evaluate[bool](list, "window.same === true") {
		t.Error("the page was loaded again")
	}

	// Another user's decision removes the form.
	w.request(t, "elsewhere")
	one.open(w.console + "object/certificatesigningrequests.certificates.k8s.io/-/elsewhere")
	one.do(chromedp.SendKeys(chromedp.CSS("#message"), "too late"))
	w.run(t, "certplane deny csr/elsewhere --message 'denied by somebody else'")
	one.shows("denied by somebody else")
	if one.count("button[value=approve]") != 0 {
		t.Error("a request that is denied can be approved")
	}
}

func testWithoutRights(t *testing.T, w *world, c *browser) {
	w.request(t, "foreign")
	b := c.tab(t)
	b.login(w, w.token(t, "reader"))
	b.open(w.server + "/console/requests")
	b.shows("csr/foreign", "may not decide", "you may not list certificaterequests")
	b.follow(clickLink("csr/foreign"))
	b.shows("You may not decide this request.", "certplane who-can approve certplane.dev/server")
	if n := b.count(".decision button, .decision input"); n != 0 {
		t.Errorf("who may not decide has %d buttons and fields", n)
	}
	b.open(w.server + "/console/signers")
	b.shows("You may not list signers.certplane.dev.")
	b.open(w.server + "/console/hosts")
	b.shows("You may not list nodes")

	guest := c.tab(t)
	guest.login(w, w.token(t, "guest"))
	guest.open(w.server + "/console/requests")
	guest.shows("cannot list")
	guest.open(w.server + "/console/issued")
	guest.shows("cannot list")
}

// testWithoutScripts decides in a browser that runs no scripts.
func testWithoutScripts(t *testing.T, w *world, c *browser) {
	w.request(t, "plain")
	b := c.tab(t)
	b.withoutScripts()
	b.open(w.console + "requests")
	b.shows("csr/plain")
	b.follow(clickLink("csr/plain"))
	b.do(chromedp.SendKeys(chromedp.CSS("#message"), "without scripts"))
	b.follow(chromedp.Click(chromedp.CSS("button[value=approve]")))
	b.shows("without scripts", "Approved")
	b.open(w.console + "issued")
	b.do(chromedp.SendKeys(chromedp.CSS("#filter-name"), "www.example.com"))
	b.follow(chromedp.Click(chromedp.CSS(".filters button")))
	b.shows("www.example.com")
	if n := b.count("tbody tr"); n != 1 {
		t.Errorf("the search finds %d certificates", n)
	}
}
