package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"syscall"

	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/certplane/certplane/internal/apiserver/advertise"
)

func (c ServingConfig) validate() error {
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("serving.listen: %q is not HOST:PORT", c.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("serving.listen: port %q is not a number from 0 to 65535", port)
	}
	if c.AdvertiseAddress == "" {
		return nil
	}
	switch advertised, err := parseAdvertised(c.AdvertiseAddress, 1); {
	case err != nil:
		return fmt.Errorf("serving.advertiseAddress: %q is neither IP nor IP:PORT; names belong into serving.extraNames", c.AdvertiseAddress)
	case advertised.Addr().IsUnspecified() || advertised.Addr().IsMulticast() || advertised.Addr().Zone() != "":
		return fmt.Errorf("serving.advertiseAddress: %s is not an address at which other hosts can reach a server", advertised.Addr())
	case advertised.Port() == 0:
		return errors.New("serving.advertiseAddress: port 0 cannot be reached; omit the port to use the one of serving.listen")
	}
	return nil
}

func parseAdvertised(address string, defaultPort uint16) (netip.AddrPort, error) {
	if ip, err := netip.ParseAddr(address); err == nil {
		return netip.AddrPortFrom(ip.Unmap(), defaultPort), nil
	}
	endpoint, err := netip.ParseAddrPort(address)
	return netip.AddrPortFrom(endpoint.Addr().Unmap(), endpoint.Port()), err
}

// advertised returns the address of listener for other hosts. A host that listens on all
// addresses and has no route to other hosts can be reached only from itself.
func advertised(cfg ServingConfig, listener net.Listener) netip.AddrPort {
	listening := listener.Addr().(*net.TCPAddr).AddrPort()
	if endpoint, err := parseAdvertised(cfg.AdvertiseAddress, listening.Port()); err == nil {
		return endpoint
	}
	ip := listening.Addr().Unmap().WithZone("")
	if ip.IsUnspecified() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if host, err := utilnet.ChooseHostInterface(); err == nil {
			found, _ := netip.AddrFromSlice(host)
			ip = found.Unmap()
		}
	}
	return netip.AddrPortFrom(ip, listening.Port())
}

// listen opens the API's port before anything is started.
func listen(cfg ServingConfig) (net.Listener, error) {
	listener, err := net.Listen("tcp", cfg.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listening on %s: another program uses this port; stop it or choose another with --listen", cfg.Listen)
	}
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", cfg.Listen, err)
	}
	return listener, nil
}

// localURL returns where programs on this host reach listener: wildcard
// addresses become loopback ones. The wildcard of one family listens for both
// if the host has both, and the listener's own address is then the IPv6 one. So
// the configured address decides which loopback address is used.
func localURL(listen string, listener net.Listener) string {
	addr := listener.Addr().(*net.TCPAddr)
	ip := addr.IP
	if ip.IsUnspecified() {
		ip = net.IPv4(127, 0, 0, 1)
		if addr.IP.To4() == nil && isIPv6(listen) {
			ip = net.IPv6loopback
		}
	}
	return "https://" + net.JoinHostPort(ip.String(), strconv.Itoa(addr.Port))
}

// isIPv6 reports whether HOST:PORT has an IPv6 address as its host.
func isIPv6(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	ip := net.ParseIP(host)
	return err == nil && ip != nil && ip.To4() == nil
}

// servingNames are the names and addresses in the serving certificate.
func servingNames(cfg ServingConfig, listener net.Listener) []string {
	names := []string{"localhost", "127.0.0.1", "::1", advertised(cfg, listener).Addr().String()}
	for _, suffix := range []string{"", ".default", ".default.svc"} { // of the Service that names the API
		names = append(names, advertise.Name+suffix)
	}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	if host, _, err := net.SplitHostPort(cfg.Listen); err == nil && host != "" {
		names = append(names, host)
	}
	if ip := listener.Addr().(*net.TCPAddr).IP; !ip.IsUnspecified() {
		names = append(names, ip.String())
	}
	return append(names, cfg.ExtraNames...)
}
