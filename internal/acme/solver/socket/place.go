package socket

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
)

// Place is where a server listens, and whether it does. It is safe for
// concurrent use.
type Place struct {
	// Server is the name of the server in errors.
	Server string
	// Field and Texts are as in Listen: a field of the configuration. Without
	// Texts, the server is off.
	Field string
	Texts []string
	// Inherited are the sockets that systemd has opened.
	Inherited Inherited

	// open holds the addresses once all of them are open.
	open atomic.Pointer[[]net.Addr]
}

// Open opens all addresses or none. The server must call Close when it does not
// answer any more.
func (p *Place) Open(ctx context.Context) ([]net.Listener, error) {
	listeners, err := Listen(ctx, p.Field, p.Texts, p.Inherited)
	if err != nil {
		return nil, err
	}
	var addresses []net.Addr
	for _, l := range listeners {
		addresses = append(addresses, l.Addr())
	}
	p.open.Store(&addresses)
	return listeners, nil
}

// Close records that the server does not answer any more. It does not close the listeners.
func (p *Place) Close() { p.open.Store(nil) }

// Addresses returns where the server listens; an error if it does not yet.
func (p *Place) Addresses() ([]net.Addr, error) {
	open := p.open.Load()
	if open == nil {
		return nil, fmt.Errorf("%s does not listen yet", p.Server)
	}
	return *open, nil
}

// Ready is a probe: it returns why the server cannot answer yet. A server that is
// off is ready.
func (p *Place) Ready(*http.Request) error {
	if len(p.Texts) == 0 {
		return nil
	}
	_, err := p.Addresses()
	return err
}
