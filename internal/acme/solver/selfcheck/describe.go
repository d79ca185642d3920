package selfcheck

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// UnreachableError is the error of a check in which no server has answered: all
// connections were refused, timed out or had no route.
type UnreachableError struct{ err error }

// Error implements error.
func (e *UnreachableError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.err }

// IsUnreachable reports whether no server has answered in a check.
func IsUnreachable(err error) bool {
	var unreachable *UnreachableError
	return errors.As(err, &unreachable)
}

// causes are the texts of errors of the network. Other texts can have bytes of
// the server, or a port that differs each time, and do not get into statuses.
var causes = []struct {
	err  error
	text string
}{
	{syscall.ECONNREFUSED, "connection refused"},
	{syscall.EHOSTUNREACH, "no route to host"},
	{syscall.ENETUNREACH, "network is unreachable"},
	{syscall.EAFNOSUPPORT, "this host does not have this kind of address"},
	{syscall.EADDRNOTAVAIL, "this host does not have this kind of address"},
	{syscall.EACCES, "not permitted by this host"},
	{syscall.EPERM, "not permitted by this host"},
	{syscall.ECONNRESET, "connection reset by the server"},
	{syscall.EPIPE, "connection closed by the server"},
	{io.EOF, "connection closed by the server"},
	{io.ErrUnexpectedEOF, "connection closed by the server"},
	{context.DeadlineExceeded, "timed out"},
	{os.ErrDeadlineExceeded, "timed out"},
	{context.Canceled, "the check was interrupted"},
}

// Describe returns a text for an error of the network that is the same each
// time.
func Describe(err error) string {
	for _, c := range causes {
		if errors.Is(err, c.err) {
			return c.text
		}
	}
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" {
		return alert.Err.Error() // an alert of TLS, with one of a few texts
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timed out"
	}
	return "the server does not speak the protocol"
}

// dialError is the error of a connection that was not opened.
type dialError struct {
	to    netip.AddrPort
	cause error
}

func (e *dialError) Error() string {
	return "connecting to " + e.to.String() + ": " + Describe(e.cause)
}
func (e *dialError) Unwrap() error { return e.cause }

// isConnection reports whether an error means that a connection was not opened.
func isConnection(err error) bool {
	var failed *dialError
	return errors.As(err, &failed)
}

// describeLookup returns a stable text for a name that was not resolved.
func describeLookup(err error) string {
	var failed *net.DNSError
	switch {
	case !errors.As(err, &failed):
		return err.Error()
	case failed.IsNotFound:
		return "no such host"
	case failed.IsTimeout:
		return "the nameservers do not answer in time"
	default:
		return "the nameservers do not answer"
	}
}
