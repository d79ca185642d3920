package browser

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// maxPage is the most bytes of a page with its assets, before they are compressed.
const maxPage = 100_000

// consolePage is a page of the console.
type consolePage struct {
	name string
	// at is the path below the console; url is another address.
	at, url string
	// status is the status code, 200 if it is 0.
	status int64
	shows  []string
}

// pagesOf returns all pages.
func pagesOf(w *world) []consolePage {
	object := func(resource, namespace, name string) string {
		return "object/" + resource + "/" + namespace + "/" + name
	}
	return []consolePage{
		{name: "start", at: "start", shows: []string{"requests wait for you", "Week from"}},
		{name: "requests", at: "requests", shows: []string{"csr/waiting"}},
		{name: "all-requests", at: "requests?state=all", shows: []string{"csr/www"}},
		{name: "request", at: object("certificatesigningrequests.certificates.k8s.io", "-", "waiting"), shows: []string{"Approve", "Deny"}},
		{name: "issued-request", at: object("certificatesigningrequests.certificates.k8s.io", "-", "www"), shows: []string{"Approved", "Issued the certificate"}},
		{name: "events", at: "events/certificatesigningrequests.certificates.k8s.io/-/www", shows: []string{"Issued the certificate"}},
		{name: "certificaterequest", at: object("certificaterequests.cert-manager.io", "shop", "cart-1"), shows: []string{"asked by the shop team"}},
		{name: "issued", at: "issued", shows: []string{"www.example.com"}},
		{name: "issued-problem", at: "issued?expiring=x", status: 400, shows: []string{"is not a time"}},
		{name: "certificates", at: "certificates", shows: []string{"cart"}},
		{name: "certificate", at: object("certificates.cert-manager.io", "shop", "cart"), shows: []string{"Certificate shop/cart"}},
		{name: "issuers", at: "issuers", shows: []string{"internal"}},
		{name: "issuer", at: object("issuers.cert-manager.io", "shop", "internal"), shows: []string{"Issuer shop/internal"}},
		{name: "signers", at: "signers", shows: []string{"example.com/web"}},
		{name: "signer", at: object("signers.certplane.dev", "-", "web"), shows: []string{"Signer web"}},
		{name: "trust", at: "trust", shows: []string{"Web of example.com"}},
		{name: "hosts", at: "hosts", shows: []string{"edge-1"}},
		{name: "policies", at: "policies", shows: []string{"next"}},
		{name: "policy", at: object("certificatepolicies.certplane.dev", "-", "next"), shows: []string{"What it would change", "would become"}},
		{name: "acme", at: "acme", shows: []string{"corp"}},
		{name: "endpoint", at: object("acmeendpoints.certplane.dev", "-", "corp"), shows: []string{"AcmeEndpoint corp"}},
		{name: "no-page", at: "nothing", status: 404, shows: []string{"Page not found."}},
		{name: "no-object", at: object("signers.certplane.dev", "-", "nothing"), status: 404},
		{name: "login", url: w.server + "/console/login", shows: []string{"Token"}},
	}
}

// testPages opens every page, in light and dark colors, in wide and narrow windows.
func testPages(t *testing.T, w *world, c *browser) {
	w.request(t, "waiting")
	w.until(t, "the policy has counted a difference", "certplane kubectl get certificatepolicy next -o 'jsonpath={.status.shadow.samples[0].request}' | grep .")
	axe, err := os.ReadFile(*axeFlag)
	if err != nil {
		fmt.Println("browser: there is no axe-core, so accessibility was not tested; test/browser/install.sh gets it from npm")
	}
	b := c.tab(t)
	for _, p := range append(pagesOf(w), consolePage{name: "record", url: b.record(w)}) {
		b.page(w, p, string(axe))
	}
}

// record returns the address of the page of a certificate.
func (b *tab) record(w *world) string {
	b.Helper()
	b.open(w.console + "issued?name=www.example.com")
	return evaluate[string](b, "document.querySelector('tbody a').href")
}

// page opens a page, and judges it.
func (b *tab) page(w *world, p consolePage, axe string) {
	b.Helper()
	at := p.url
	if at == "" {
		at = w.console + p.at
	}
	b.forget()
	b.width(desktopWidth)
	if got, want := b.open(at), max(p.status, 200); got != want {
		b.Errorf("%s: the status code is %d, want %d", p.name, got, want)
	}
	b.shows(p.shows...)
	if all, list := b.size(); all > maxPage || all < 1000 {
		b.Errorf("%s has %d bytes, want at most %d:\n%s", p.name, all, maxPage, strings.Join(list, "\n"))
	}
	if axe != "" {
		evaluate[bool](b, axe+";true")
	}
	for _, width := range []int64{desktopWidth, phoneWidth} {
		b.width(width)
		if got := evaluate[int64](b, "document.documentElement.scrollWidth"); got > width {
			b.Errorf("%s is %d pixels wide in a window of %d", p.name, got, width)
		}
		for _, colors := range []string{"light", "dark"} {
			b.scheme(colors)
			for _, violation := range b.violations(axe) {
				b.Errorf("%s, %d pixels, %s: %s", p.name, width, colors, violation)
			}
		}
	}
}

// axeRun has axe judge the page by the rules of WCAG and those that are good practice.
const axeRun = `axe.run(document, {
	runOnly: {type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]},
	resultTypes: ["violations"], preload: false,
}).then((found) => found.violations.map((v) => v.id + ": " + v.help + "\n" + v.nodes.map((n) => n.html + "\n" + n.failureSummary).join("\n")))`

// violations returns what axe finds; nothing without axe.
func (b *tab) violations(axe string) []string {
	b.Helper()
	if axe == "" {
		return nil
	}
	return evaluate[[]string](b, axeRun)
}
