package server

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/pki"
)

// RevocationConfig is the stanza "revocation".
type RevocationConfig struct {
	// url is where everybody gets the revocation lists: http://HOST or http://HOST:PORT of
	// listen, or of a proxy before it. Certificates name URL/NAME.crl as CRL distribution
	// point, if they live longer than shortLived and their CA can sign lists. Certificates
	// that were issued before keep what they have. Default: none.
	URL string `json:"url,omitempty"`
	// listen is the address, HOST:PORT, where everybody is served the revocation lists, by
	// plain HTTP: GET /NAME.crl, with the name of a RevocationList. A list is signed, so that
	// it needs no TLS, and a proxy may stand between. Default: "0", none.
	Listen string `json:"listen"`
	// lists sets when revocation lists are signed.
	Lists ListsConfig `json:"lists"`
	// shortLived is the longest lifetime of certificates that do not name a list. Default: 1d.
	ShortLived metav1.Duration `json:"shortLived"`
	// noRevAvail adds the extension noRevAvail (RFC 9608) to certificates of end entities
	// that live no longer than shortLived: verifiers that know it look for no list. Signers
	// can set it with spec.revocation.noRevAvail. Default: false.
	NoRevAvail bool `json:"noRevAvail"`
	// webhook configures the webhook with which a kube-apiserver refuses revoked
	// certificates of this server. It presents the certificate of the API: its names are
	// those of serving.
	Webhook frontend.RevocationWebhookConfig `json:"webhook"`
}

func defaultRevocationConfig() RevocationConfig {
	return RevocationConfig{Listen: frontend.Off, Lists: defaultLists(), ShortLived: metav1.Duration{Duration: pki.DefaultShortLived}, Webhook: frontend.DefaultRevocationWebhookConfig()}
}

const listListen = "revocation.listen"

// servesLists reports whether revocation lists are served by plain HTTP.
func (c RevocationConfig) servesLists() bool { return c.Listen != frontend.Off && c.Listen != "" }

func (c RevocationConfig) validate() error {
	errs := []error{checkListURL(c.URL), c.Lists.validate(), c.Webhook.Validate()}
	if c.ShortLived.Duration < 0 {
		errs = append(errs, fmt.Errorf("revocation.shortLived: %s is negative: with 0s, all certificates name lists", c.ShortLived.Duration))
	}
	if c.servesLists() {
		errs = append(errs, frontend.CheckAddress(listListen, c.Listen))
	}
	return errors.Join(errs...)
}

// checkListURL returns an error if lists cannot be served below a URL that is not empty.
func checkListURL(text string) error {
	where, err := url.Parse(text)
	switch {
	case text == "":
		return nil
	case err != nil || where.Scheme != "http":
		return fmt.Errorf("revocation.url: %q: must begin with http://, because a list cannot need a certificate", text)
	case where.Hostname() == "" || strings.Trim(text, "/") != "http://"+where.Host || strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII }):
		return fmt.Errorf("revocation.url: %q: must be http://HOST or http://HOST:PORT, because the lists are at /NAME.crl", text)
	}
	return nil
}

// status returns what certificates tell about their revocation. where returns the URL of the
// list of a CA.
func (c RevocationConfig) status(where func(ca *x509.Certificate) string) pki.StatusInfo {
	if c.URL == "" {
		where = nil
	}
	return pki.StatusInfo{ListURL: where, ShortLived: c.ShortLived.Duration, NoRevAvail: c.NoRevAvail}
}

// checkListen returns an error if revocation lists are to be served at the address of something
// else.
func (c Config) checkListen() error {
	_, port, err := net.SplitHostPort(c.Revocation.Listen)
	if err != nil || port == "0" {
		return nil
	}
	for _, other := range []struct{ field, address string }{
		{"serving.listen", c.Serving.Listen}, {"acmeServer.listen", c.ACMEServer.Listen}, {"acmeServer.rootsListen", c.ACMEServer.RootsListen},
		{"revocation.webhook.listen", c.Revocation.Webhook.Listen},
	} {
		if other.address == c.Revocation.Listen {
			return fmt.Errorf("%s: is the address of %s", listListen, other.field)
		}
	}
	return nil
}
