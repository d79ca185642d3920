package listener

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwardedFor is the header in which proxies name their clients.
const forwardedFor = "X-Forwarded-For"

type addressKey struct{}

// addressValue is what a context has for addressKey.
type addressValue struct {
	address netip.Addr
	shared  bool
}

// ClientAddress returns the address of the client who has sent the request of ctx, or of
// a trusted proxy that does not say who its clients are: many clients share that. It is
// the zero value outside of a Server.
func ClientAddress(ctx context.Context) (address netip.Addr, shared bool) {
	value, _ := ctx.Value(addressKey{}).(addressValue)
	return value.address, value.shared
}

// withAddress has requests know their client, and refuses those of clients elsewhere than
// in clientAddresses: who connects was looked at before, but not who is behind a proxy.
func (s *Server) withAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := s.clientOf(r)
		if len(s.within) > 0 && !within(s.within, client) {
			http.Error(w, "clients of this address are not served", http.StatusForbidden)
			return
		}
		// Behind a proxy that sets the header, no client can have it left out.
		shared := len(r.Header.Values(forwardedFor)) == 0 && within(s.proxies, client)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), addressKey{}, addressValue{client, shared})))
	})
}

// clientOf returns who has sent a request: who connects, or the last address before the
// trusted proxies. What is left of that one, anybody can have written.
func (s *Server) clientOf(r *http.Request) netip.Addr {
	client := addressOf(r.RemoteAddr)
	if !within(s.proxies, client) {
		return client
	}
	hops := strings.Split(strings.Join(r.Header.Values(forwardedFor), ","), ",")
	for _, hop := range slices.Backward(hops) {
		before := addressOf(strings.TrimSpace(hop))
		if !before.IsValid() {
			return client
		}
		if client = before; !within(s.proxies, client) {
			return client
		}
	}
	return client
}

// addressOf returns the address of ADDRESS or ADDRESS:PORT, the zero value if it is
// none.
func addressOf(text string) netip.Addr {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Unmap().WithZone("")
	}
	both, _ := netip.ParseAddrPort(text)
	return both.Addr().Unmap().WithZone("")
}

func within(networks []netip.Prefix, address netip.Addr) bool {
	return slices.ContainsFunc(networks, func(network netip.Prefix) bool { return network.Contains(address) })
}

// permits reports whether who connects is a client, a proxy or a peer.
func (s *Server) permits(address netip.Addr) bool {
	return len(s.within) == 0 || within(s.within, address) || within(s.proxies, address) || s.Peers != nil && s.Peers.At(address)
}

// permitted closes connections of others at once.
type permitted struct {
	net.Listener
	permits func(netip.Addr) bool
}

// Accept implements net.Listener.
func (l permitted) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || l.permits(addressOf(c.RemoteAddr().String())) {
			return c, err
		}
		c.Close()
	}
}
