package browser

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// What requesters write into requests, so that something happens to those who look.
const (
	hostileScript = `<script>document.title='hacked'</script>`
	shownScript   = `\<script\>document.title='hacked'\</script\>` // in a subject, by RFC 4514
	hostileImage  = `"><img src=x onerror="document.title='hacked'">`
	hostileLink   = `</pre></details><a href="javascript:document.title='hacked'">click</a>`
	// control characters: the escape sequence of terminals, one that turns the direction
	// of text around, and an end of the line.
	hostileControl = "alice\x1b[31m\u202egnp\r\nApproved: yes"
)

// testHostileText checks that text of requesters is text, whatever it says.
func testHostileText(t *testing.T, w *world, c *browser) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:        pkix.Name{CommonName: hostileScript, Organization: []string{hostileImage, hostileControl}},
		EmailAddresses: []string{hostileImage + "@example.com"},
		URIs:           []*url.URL{{Scheme: "javascript", Opaque: "alert(1)"}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	request := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	object := fmt.Sprintf("{apiVersion: certificates.k8s.io/v1, kind: CertificateSigningRequest, metadata: {name: hostile, annotations: {note: %q}}, spec: {signerName: example.com/web, usages: [client auth], request: %s}}", hostileLink, request)
	if err := os.WriteFile(filepath.Join(w.dir, "hostile.yaml"), []byte(object), 0o600); err != nil {
		t.Fatal(err)
	}
	w.run(t, "certplane kubectl create -f hostile.yaml")

	b := c.tab(t)
	unharmed := func() {
		t.Helper()
		if n := b.count("main script, main img, main a[href^='javascript:'], main [onerror]"); n != 0 {
			t.Errorf("text of a requester has become %d elements of the page", n)
		}
		if title := evaluate[string](b, "document.title"); title == "hacked" {
			t.Error("a script of a requester was run")
		}
		b.showsNot("\x1b", "\u202e")
	}
	b.open(w.console + "requests")
	b.shows("csr/hostile", shownScript, `\x1b[31m`)
	unharmed()
	b.follow(clickLink("csr/hostile"))
	b.shows(shownScript)
	b.do(chromedp.Click(chromedp.CSS("main > details summary")))
	b.shows(hostileLink)
	unharmed()

	b.do(chromedp.Click(chromedp.CSS(".denial summary")), chromedp.SendKeys(chromedp.CSS("#why"), hostileImage))
	b.follow(chromedp.Click(chromedp.CSS("button[value=deny]")))
	b.shows(hostileImage)
	unharmed()
	b.open(w.console + "requests?state=" + url.QueryEscape(hostileImage) + "&signer=" + url.QueryEscape(hostileImage))
	unharmed()
	if got := evaluate[string](b, "document.getElementById('filter-signer').value"); got != hostileImage {
		t.Errorf("the field of the filter has %q", got)
	}
	b.open(w.console + "object/" + url.PathEscape(hostileImage) + "/-/x")
	b.shows(hostileImage)
	unharmed()
}
