package selfcheck

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const (
	// maxRedirects is how many redirects ACME servers follow.
	maxRedirects = 10
	// maxLocation is the longest address that is followed, in bytes.
	maxLocation = 2000
	// maxShown is the maximum length of quotes from servers in texts, in bytes.
	maxShown = 200
)

// redirect returns the target of a redirect, or nil if the answer is not a redirect. It
// refuses what ACME servers refuse: they follow redirects with these statuses, to the
// ports 80 and 443 of a name (CA/Browser Forum Baseline Requirements 3.2.2.4.19).
func redirect(from *url.URL, answer *http.Response) (*url.URL, error) {
	switch answer.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	case http.StatusSeeOther:
		return nil, errors.New("redirect with the status 303, which ACME servers do not follow: use 301, 302, 307 or 308")
	default:
		return nil, nil
	}
	location := answer.Header.Get("Location")
	if location == "" {
		return nil, errors.New("redirect without the header Location")
	}
	if len(location) > maxLocation {
		return nil, fmt.Errorf("redirect to an address of %d bytes: ACME servers follow at most %d", len(location), maxLocation)
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, fmt.Errorf("redirect to %s, which is not a valid address", shown(location))
	}
	to.User, to.Fragment, to.RawFragment = nil, "", ""
	if problem := problem(to); problem != "" {
		return nil, fmt.Errorf("redirect to %s: %s", shown(to.String()), problem)
	}
	return to, nil
}

// problem returns why ACME servers do not follow a redirect, or "".
func problem(to *url.URL) string {
	host := to.Hostname()
	switch {
	case to.Scheme != "http" && to.Scheme != "https":
		return "ACME servers follow redirects to http and https only"
	case host == "" || len(host) > 253:
		return "this is not the address of a server"
	case to.Port() != "" && to.Port() != "80" && to.Port() != "443":
		return "ACME servers follow redirects to the ports 80 and 443 only"
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return "ACME servers do not follow redirects to IP addresses"
	}
	return ""
}

// port returns the port of an http or https address that problem accepts.
func port(of *url.URL) uint16 {
	switch {
	case of.Port() != "":
		number, _ := strconv.ParseUint(of.Port(), 10, 16) // it is 80 or 443
		return uint16(number)
	case of.Scheme == "https":
		return 443
	}
	return 80
}

// shown returns what a server or a user has sent as it can be in texts.
func shown(text string) string {
	if len(text) > maxShown {
		text = strings.ToValidUTF8(text[:maxShown], "") + "…"
	}
	return strconv.QuoteToGraphic(text)
}
