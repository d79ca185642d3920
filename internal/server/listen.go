package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

func (c ServingConfig) validate() error {
	_, port, err := net.SplitHostPort(c.Listen)
	if err != nil {
		return fmt.Errorf("serving.listen: %q is not HOST:PORT", c.Listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("serving.listen: port %q is not a number from 0 to 65535", port)
	}
	return nil
}

// listen opens the API's port before anything else is started.
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

// localURL is how programs on this host reach listener: wildcard addresses
// become loopback ones.
func localURL(listener net.Listener) string {
	addr := listener.Addr().(*net.TCPAddr)
	ip := addr.IP
	switch {
	case ip.Equal(net.IPv4zero):
		ip = net.IPv4(127, 0, 0, 1)
	case ip.IsUnspecified():
		ip = net.IPv6loopback
	}
	return "https://" + net.JoinHostPort(ip.String(), strconv.Itoa(addr.Port))
}

// servingNames are the names and addresses in the serving certificate.
func servingNames(cfg ServingConfig, listener net.Listener) []string {
	names := []string{"localhost", "127.0.0.1", "::1"}
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
