package tlsalpn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/live"
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/acme/solver/socket"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

var (
	// errOff is the error of all challenges while nothing answers.
	errOff      = errors.New(field + `.listen is empty, so nothing answers TLS-ALPN-01 challenges here: set it to an address such as ":443", or to one to which a TCP proxy passes connections for the protocol ` + Protocol)
	errWildcard = errors.New("TLS-ALPN-01 cannot prove wildcards: use a solver with dns01")
)

// Solver returns the solver of TLS-ALPN-01 challenges that this Server answers.
// Checks of the public addresses use the network.
func (s *Server) Solver(network selfcheck.Network) solver.Solver {
	return &serverSolver{server: s, network: network}
}

type serverSolver struct {
	server   *Server
	network  selfcheck.Network
	fallback selfcheck.Fallback
}

// Prepare implements solver.Solver. Nothing is written anywhere.
func (*serverSolver) Prepare(context.Context, solver.Task) (string, error) { return "", nil }

// Present implements solver.Solver. The index has the challenge already.
func (s *serverSolver) Present(_ context.Context, task solver.Task) error {
	switch {
	case s.server.settings.Off():
		return errOff
	case task.Challenge.Spec.Wildcard:
		return errWildcard
	}
	return nil
}

// Check implements solver.Solver.
func (s *serverSolver) Check(ctx context.Context, task solver.Task) (solver.Found, error) {
	if err := s.Present(ctx, task); err != nil {
		return solver.Found{}, err
	}
	return s.fallback.Check(ctx, s.server.settings.SelfCheck, task, s.checkOwn, s.checkPublic)
}

func (s *serverSolver) checkPublic(ctx context.Context, task solver.Task) (solver.Found, error) {
	return s.network.CheckTLS(ctx, task, func(ctx context.Context, connection net.Conn) error { return validate(ctx, connection, task) })
}

// CleanUp implements solver.Solver. The index removes the challenge on its own.
func (s *serverSolver) CleanUp(_ context.Context, task solver.Task) error {
	s.fallback.Forget(task.Challenge.UID)
	return nil
}

// checkOwn looks at all addresses of this process.
func (s *serverSolver) checkOwn(ctx context.Context, task solver.Task) (solver.Found, error) {
	addresses, err := s.server.place.Addresses()
	if err != nil {
		return solver.Found{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	for i, address := range addresses {
		if err := validateAt(ctx, address, task); err != nil {
			return solver.Found{}, fmt.Errorf("the built-in server does not answer at %s.listen[%d]: %w", field, i, err)
		}
	}
	return solver.Found{}, nil
}

func validateAt(ctx context.Context, address net.Addr, task solver.Task) error {
	connection, err := socket.Dial(ctx, address)
	if err != nil {
		return errors.New(selfcheck.Describe(err))
	}
	defer connection.Close()
	return validate(ctx, connection, task)
}

// validate looks as an ACME server does.
func validate(ctx context.Context, connection net.Conn, task solver.Task) error {
	spec := task.Challenge.Spec
	client := tls.Client(connection, &tls.Config{
		ServerName: live.ServerName(spec.DNSName), NextProtos: []string{Protocol}, MinVersion: tls.VersionTLS12,
		// The content of such a certificate is the proof, not its issuer.
		InsecureSkipVerify: true,
	})
	if err := client.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("the TLS handshake fails: %s", selfcheck.Describe(err))
	}
	state := client.ConnectionState()
	if state.NegotiatedProtocol != Protocol {
		return fmt.Errorf("it does not speak the protocol %s", Protocol)
	}
	return rfc8555.CheckTLSALPN(state.PeerCertificates[0], live.Host(spec.DNSName), spec.Key)
}
