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

// addressValue is the value of addressKey in a context.
type addressValue struct {
	address netip.Addr
	shared  bool
}

// ClientAddress returns the address of the client that sent the request of ctx, or of a
// trusted proxy that does not report its clients; shared is then set, because many clients
// share the address. It is the zero value outside of a Server.
func ClientAddress(ctx context.Context) (address netip.Addr, shared bool) {
	value, _ := ctx.Value(addressKey{}).(addressValue)
	return value.address, value.shared
}

// withAddress adds the address of the client to the context of requests, and refuses
// clients outside of clientAddresses. The address of the connection was checked before;
// this also checks clients behind a proxy.
func (s *Server) withAddress(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		client := s.clientOf(r)
		if len(s.within) > 0 && !within(s.within, client) {
			http.Error(w, "clients of this address are not served", http.StatusForbidden)
			return
		}
		// Behind a proxy that sets the header, a client cannot suppress it.
		shared := len(r.Header.Values(forwardedFor)) == 0 && within(s.proxies, client)
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), addressKey{}, addressValue{client, shared})))
	})
}

// clientOf returns the address that sent a request: the peer of the connection or, if that
// is a trusted proxy, the last address in the header that is not one. Addresses to its
// left are not trusted: the client may have written them.
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

// addressOf returns the address of ADDRESS or ADDRESS:PORT, the zero value if the text is
// neither.
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

// permits reports whether connections from an address are accepted: from clients, proxies
// and peers.
func (s *Server) permits(address netip.Addr) bool {
	return len(s.within) == 0 || within(s.within, address) || within(s.proxies, address) || s.Peers != nil && s.Peers.At(address)
}

// permitted is a listener that closes connections from other addresses at once.
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
