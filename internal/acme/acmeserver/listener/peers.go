package listener

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Peers are the other processes of the ACME server. They connect at the same port, and
// show certificates, for which clients are not asked.
type Peers interface {
	http.Handler
	// TLS returns the configuration for a connection of a peer, nil for those of
	// clients.
	TLS(*tls.ClientHelloInfo) *tls.Config
	// At reports whether a peer has an address.
	At(netip.Addr) bool
	// Skew returns how far the clock of a peer is off, at most.
	Skew() time.Duration
}

// Skew returns how far the clock of a peer is off, at most.
func (s *Server) Skew() time.Duration {
	if s.Peers == nil {
		return 0
	}
	return s.Peers.Skew()
}

func (s *Server) tlsOfPeers(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if s.Peers == nil {
		return nil, nil
	}
	return s.Peers.TLS(hello), nil
}

// withPeers passes requests of peers to Peers.
func (s *Server) withPeers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.Peers != nil && len(r.TLS.PeerCertificates) > 0 {
			s.Peers.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// PeerAddress returns where peers reach this process, HOST:PORT.
func (s *Server) PeerAddress() (string, error) {
	host, port, err := net.SplitHostPort(s.settings.Listen)
	if err != nil {
		return "", fmt.Errorf("%s.listen: %w", field, err)
	}
	if s.settings.PeerAddress != "" {
		return peerAddress(s.settings.PeerAddress, port)
	}
	if ip, err := netip.ParseAddr(host); host != "" && (err != nil || !ip.IsUnspecified()) {
		return net.JoinHostPort(host, port), nil
	}
	own, err := utilnet.ChooseHostInterface()
	if err != nil {
		return "", fmt.Errorf("%s.peerAddress: set it: this host has no address of a default route: %w", field, err)
	}
	return net.JoinHostPort(own.String(), port), nil
}

// peerAddress returns HOST:PORT for HOST or HOST:PORT.
func peerAddress(text, defaultPort string) (string, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return net.JoinHostPort(ip.String(), defaultPort), nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		host, port = text, defaultPort
	}
	if ip, err := netip.ParseAddr(host); host == "" || err == nil && ip.IsUnspecified() {
		return "", errors.New("it must be an address at which other servers reach this one")
	}
	if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
		return "", fmt.Errorf("port %q is not a number from 1 to 65535", port)
	}
	return net.JoinHostPort(host, port), nil
}
