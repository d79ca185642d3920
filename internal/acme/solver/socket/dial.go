package socket

import (
	"context"
	"errors"
	"net"
)

// Dial connects to a listener of this process.
func Dial(ctx context.Context, to net.Addr) (net.Conn, error) {
	var failed error
	for _, address := range reachable(to) {
		connection, err := (&net.Dialer{}).DialContext(ctx, to.Network(), address)
		if err == nil {
			return connection, nil
		}
		failed = errors.Join(failed, err)
	}
	return nil, failed
}

// reachable returns the addresses at which a listener is reached from this host. A
// listener on all addresses is reached on the loopback interface; [::] can include IPv4.
func reachable(to net.Addr) []string {
	tcp, ok := to.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return []string{to.String()}
	}
	port := tcp.AddrPort().Port()
	four := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(port)}).String()
	if tcp.IP.To4() != nil {
		return []string{four}
	}
	return []string{(&net.TCPAddr{IP: net.IPv6loopback, Port: int(port)}).String(), four}
}
