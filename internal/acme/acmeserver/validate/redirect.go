package validate

import (
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// maxURL is the longest URL that is followed, in bytes.
const maxURL = 2000

func isRedirect(status int) bool {
	return slices.Contains([]int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect}, status)
}

func brokenRedirect(why string) *failure {
	return &failure{kind: rfc8555.ProblemConnection, detail: "a redirect cannot be followed: " + why, final: true}
}

var (
	hosts   = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$`)
	numeric = regexp.MustCompile(`(^|\.)([0-9]+|0x[0-9a-f]*)$`)
)

// redirect returns where an answer redirects to. ports are the permitted ones. Failures do
// not quote the server's answer.
func redirect(from *url.URL, answer *http.Response, ports []uint16) (*url.URL, *failure) {
	location := answer.Header.Get("Location")
	if location == "" || len(location) > maxURL {
		return nil, brokenRedirect("it has no address, or one that is too long")
	}
	to, err := from.Parse(location)
	if err != nil {
		return nil, brokenRedirect("its address is not valid")
	}
	host := strings.ToLower(strings.TrimSuffix(to.Hostname(), "."))
	address, notAddress := netip.ParseAddr(host)
	switch {
	case to.Scheme != "http" && to.Scheme != "https":
		return nil, brokenRedirect("its scheme is neither http nor https")
	case to.User != nil:
		return nil, brokenRedirect("its address has a user")
	case notAddress == nil && address.Zone() != "",
		// Hosts that some libraries take for addresses are not names.
		notAddress != nil && (len(host) > 253 || !hosts.MatchString(host) || numeric.MatchString(host)):
		return nil, brokenRedirect("its host is not valid")
	case !slices.Contains(ports, portOf(to)):
		return nil, brokenRedirect("its port is not permitted")
	}
	to.Host = inURL(host, portText(to.Scheme, portOf(to)))
	to.Fragment, to.RawFragment = "", ""
	if len(to.String()) > maxURL {
		return nil, brokenRedirect("its address is too long")
	}
	return to, nil
}

// portOf returns the port of an address with http or https; 0 if it has a wrong one.
func portOf(of *url.URL) uint16 {
	switch {
	case of.Port() != "":
		number, err := strconv.ParseUint(of.Port(), 10, 16)
		if err != nil {
			return 0
		}
		return uint16(number)
	case of.Scheme == "https":
		return 443
	}
	return 80
}

// portText returns the port part of a URL, empty for the default port of the scheme.
func portText(scheme string, port uint16) string {
	if scheme == "http" && port == 80 || scheme == "https" && port == 443 {
		return ""
	}
	return strconv.Itoa(int(port))
}
