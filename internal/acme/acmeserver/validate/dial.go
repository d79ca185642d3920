package validate

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeaddress"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// connection is an open connection. It occupies a place of its address.
type connection struct {
	net.Conn
	to    netip.AddrPort
	leave func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	c.leave()
	return c.Conn.Close()
}

// unreachable is the failure of a connection that could not be opened, or that did not
// deliver what. The client does not learn whether a port is closed, filtered, or used by
// another service.
func unreachable(what, site string, cause error) *failure {
	return &failure{kind: rfc8555.ProblemConnection, detail: "no " + what + " from " + site, cause: cause}
}

// connect resolves a host once and connects to the first port that answers. site names the
// host for the client, and what names the thing expected from it.
func (a *attempt) connect(ctx context.Context, host string, ports []uint16, site, what string) (*connection, *failure) {
	a.record.Address = netip.AddrPort{}
	addresses, failed := a.resolve(ctx, host, site)
	if failed != nil {
		return nil, failed
	}
	var cause error
	for _, port := range ports {
		for _, address := range addresses {
			conn, err := a.dial(ctx, netip.AddrPortFrom(address, port))
			var refused *failure
			switch {
			case err == nil:
				return conn, nil
			case errors.As(err, &refused):
				return nil, refused
			case isOurs(err, address):
				return nil, &failure{kind: rfc8555.ProblemServerInternal, detail: "no connection can be opened at the moment", ours: true, cause: err}
			}
			cause = err
		}
	}
	return nil, unreachable(what, site, cause)
}

// targetWait is how long an attempt waits for other attempts to the same address. So an
// address that never answers blocks no more places of the process than its own.
const targetWait = time.Second

// dial connects to an address, if the rules permit it.
func (a *attempt) dial(ctx context.Context, to netip.AddrPort) (*connection, error) {
	a.record.Address = to
	if refusal := acmeaddress.JudgeAddress(to, a.cfg.Addresses); refusal != "" {
		return nil, notPermitted(to.String(), refusal)
	}
	leave := func() {}
	if a.cfg.Targets != nil {
		waiting, cancel := context.WithTimeout(ctx, targetWait)
		defer cancel()
		var err error
		if leave, err = a.cfg.Targets.Take(waiting, fairshare.Tenant{Name: to.Addr().String()}); err != nil {
			return nil, &failure{kind: rfc8555.ProblemServerInternal, detail: "too many validations at the moment", ours: true, cause: err}
		}
	}
	dialer := net.Dialer{Timeout: a.cfg.DialTimeout, FallbackDelay: -1, KeepAlive: -1, Control: a.control}
	conn, err := dialer.DialContext(ctx, "tcp", to.String())
	if err != nil {
		leave()
		return nil, err
	}
	return &connection{Conn: conn, to: to, leave: leave}, nil
}

// control judges the address that is really dialled, before the first packet.
func (a *attempt) control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return notPermitted(strconv.Quote(address), acmeaddress.RefusedInvalid)
	}
	if refusal := acmeaddress.JudgeAddress(to, a.cfg.Addresses); refusal != "" {
		return notPermitted(address, refusal)
	}
	if a.cfg.dialled != nil {
		a.cfg.dialled(to)
	}
	return nil
}

// isOurs reports whether an error of a connection is that of this process or host,
// which has no more files, memory or ports.
func isOurs(err error, to netip.Addr) bool {
	for _, own := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM} {
		if errors.Is(err, own) {
			return true
		}
	}
	return to.Is4() && errors.Is(err, syscall.EADDRNOTAVAIL) // in IPv6, this host may have no such addresses
}
