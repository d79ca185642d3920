// Package socket opens the listeners to which ACME servers connect.
package socket

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

const (
	unixPrefix = "unix:"
	fdPrefix   = "fd:"
)

// maxUnixPath is the maximum length of the path of a Unix socket on all systems,
// in bytes.
const maxUnixPath = 103

// Address is where to listen.
type Address struct {
	// kind is how to listen: one of the networks of package net, or "fd".
	kind string
	// at is HOST:PORT, a path, or the name of a socket.
	at string
}

// String returns the address in the form of the configuration.
func (a Address) String() string {
	switch a.kind {
	case "unix":
		return unixPrefix + a.at
	case "fd":
		return fdPrefix + a.at
	}
	return a.at
}

// Parse reads HOST:PORT, unix:PATH or fd:NAME.
func Parse(text string) (Address, error) {
	if path, ok := strings.CutPrefix(text, unixPrefix); ok {
		return parseUnix(path)
	}
	if name, ok := strings.CutPrefix(text, fdPrefix); ok {
		if name == "" || strings.Contains(name, ":") {
			return Address{}, fmt.Errorf("%q is not fd:NAME, with the name of a socket of systemd (FileDescriptorName)", text)
		}
		return Address{kind: "fd", at: name}, nil
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return Address{}, fmt.Errorf("%q is not HOST:PORT, unix:PATH or fd:NAME", text)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return Address{}, fmt.Errorf("%q has the port %q: want a number up to 65535", text, port)
	}
	return Address{kind: network(host), at: text}, nil
}

func parseUnix(path string) (Address, error) {
	switch {
	case !strings.HasPrefix(path, "/"):
		return Address{}, fmt.Errorf("%q is not an absolute path: want unix:/run/NAME.sock", path)
	case len(path) > maxUnixPath:
		return Address{}, fmt.Errorf("the path of a Unix socket has %d bytes: at most %d are possible", len(path), maxUnixPath)
	case strings.ContainsRune(path, 0):
		return Address{}, errors.New("the path of a Unix socket has a NUL byte")
	}
	return Address{kind: "unix", at: path}, nil
}

// network returns the network for a host. An address of one family listens in
// that family only, so that 0.0.0.0 and [::] can stand side by side.
func network(host string) string {
	address, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return "tcp"
	case address.Is4():
		return "tcp4"
	default:
		return "tcp6"
	}
}

// Check returns an error that begins with the path of a field, for the first text that is
// not an address.
func Check(field string, texts []string) error {
	seen := map[string]bool{}
	for i, text := range texts {
		if _, err := Parse(text); err != nil {
			return fmt.Errorf("%s[%d]: %w", field, i, err)
		}
		if seen[text] {
			return fmt.Errorf("%s[%d]: %q is listed twice", field, i, text)
		}
		seen[text] = true
	}
	return nil
}
