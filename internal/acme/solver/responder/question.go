package responder

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
)

// maxToken is the length of the longest token that is looked up, in bytes.
const maxToken = 512

// tokenOf returns the token in a path as sent. It decodes nothing, since a token has no
// character that needs encoding.
func tokenOf(path string) (token string, ok bool) {
	token, ok = strings.CutPrefix(path, selfcheck.Path)
	return token, ok && token != "" && len(token) <= maxToken && !strings.ContainsFunc(token, isNotBase64URL)
}

func isNotBase64URL(r rune) bool {
	switch {
	case 'A' <= r && r <= 'Z', 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-', r == '_':
		return false
	}
	return true
}

// hostOf returns the name or the address in a header Host, as live.Host does.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		header = host
	}
	return live.Host(header)
}

// last returns the last value of a header that is a list: the one that the
// nearest proxy has added.
func last(header http.Header, name string) string {
	values := header.Values(name)
	if len(values) == 0 {
		return ""
	}
	list := values[len(values)-1]
	return strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
}

// source is where a request comes from.
type source struct {
	// client is the zero Addr if it is not known, as at a Unix socket.
	client netip.Addr
	// trusted is set for a proxy that passes requests on.
	trusted bool
}

// sourceOf returns where a request comes from. proxies are trusted ones.
func sourceOf(r *http.Request, proxies []netip.Prefix) source {
	s := source{client: addressOf(r.RemoteAddr)}
	if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && local.Network() == "unix" {
		s = source{trusted: true}
	} else {
		s.trusted = slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(s.client) })
	}
	if s.trusted {
		if forwarded := addressOf(last(r.Header, "X-Forwarded-For")); forwarded.IsValid() {
			s.client = forwarded
		}
	}
	return s
}

// addressOf returns the address in a text, with or without a port.
func addressOf(text string) netip.Addr {
	if at, err := netip.ParseAddrPort(text); err == nil {
		return at.Addr().Unmap().WithZone("")
	}
	address, _ := netip.ParseAddr(text) // the zero Addr is no address
	return address.Unmap().WithZone("")
}

// forHost reports whether a request is for a host.
func (s source) forHost(r *http.Request, host string) bool {
	return hostOf(r.Host) == host || s.trusted && hostOf(last(r.Header, "X-Forwarded-Host")) == host
}

// network returns the network of a client: addresses in it are counted as one. It is the
// zero Prefix for an invalid address, which clients of a Unix socket have.
func network(client netip.Addr) netip.Prefix {
	client = client.Unmap().WithZone("")
	bits := 48
	if client.Is4() {
		bits = 24
	}
	network, err := client.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return network
}
