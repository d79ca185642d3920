package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"
)

// unixMode lets web servers with any account connect: what is served at these
// sockets is public.
const unixMode = 0o666

// probeTimeout is how long it may take to see whether a Unix socket has a server.
const probeTimeout = time.Second

// Listen opens all addresses of a field of the configuration, or none of them.
// Its errors name the field, the address and the cause.
func Listen(ctx context.Context, field string, texts []string, inherited Inherited) ([]net.Listener, error) {
	var all []net.Listener
	for i, text := range texts {
		opened, err := listen(ctx, text, inherited)
		if err != nil {
			Close(all)
			return nil, fmt.Errorf("%s[%d]: listening on %q: %w", field, i, text, explain(err))
		}
		all = append(all, opened...)
	}
	return all, nil
}

// Close closes listeners.
func Close(all []net.Listener) {
	for _, l := range all {
		_ = l.Close() // nothing was accepted or everything was answered
	}
}

func listen(ctx context.Context, text string, inherited Inherited) ([]net.Listener, error) {
	address, err := Parse(text)
	if err != nil {
		return nil, err
	}
	switch address.kind {
	case "fd":
		return inherited.listeners(address.at)
	case "unix":
		return one(listenUnix(ctx, address.at))
	}
	return one((&net.ListenConfig{}).Listen(ctx, address.kind, address.at))
}

func one(l net.Listener, err error) ([]net.Listener, error) {
	if err != nil {
		return nil, err
	}
	return []net.Listener{l}, nil
}

// listenUnix replaces a socket that an earlier process has left behind.
func listenUnix(ctx context.Context, path string) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, unixMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return errors.New("there is a file that is not a socket")
	}
	connection, err := (&net.Dialer{Timeout: probeTimeout}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = connection.Close() // only its existence counts
		return syscall.EADDRINUSE
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return err
	}
	return os.Remove(path)
}

// explain adds what can be done about a cause.
func explain(err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w: another program listens there; listen elsewhere and have that program pass requests on", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%w: a port below 1024 needs the capability CAP_NET_BIND_SERVICE, or a socket that systemd opens (fd:NAME)", err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w: this host does not have the address", err)
	}
	return err
}
