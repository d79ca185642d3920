package selfcheck

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/certplane/certplane/internal/acme/solver"
)

// tlsPort is the port of TLS-ALPN-01.
const tlsPort = 443

// CheckTLS looks at port 443 of the public addresses, on connections that it
// opens and closes. If no server has answered, IsUnreachable is true for the
// error.
func (n Network) CheckTLS(ctx context.Context, task solver.Task, look func(context.Context, net.Conn) error) (solver.Found, error) {
	name := task.Challenge.Spec.DNSName
	target, err := newTarget(task)
	if err != nil {
		return solver.Found{}, err
	}
	views, err := n.views(ctx, target.start.Hostname(), func(ctx context.Context, address netip.Addr) error {
		to := netip.AddrPortFrom(address, tlsPort)
		connection, err := n.dial(ctx, to, netip.Addr{})
		if err != nil {
			return fmt.Errorf("failed to perform self check of %s: %w", name, err)
		}
		defer connection.Close()
		if err := look(ctx, connection); err != nil {
			return fmt.Errorf("failed to perform self check of %s: %s: %w", name, to, err)
		}
		return nil
	})
	if err != nil {
		return solver.Found{}, fmt.Errorf("failed to perform self check of %s: %w", name, err)
	}
	return judge(views, Presented(task))
}
