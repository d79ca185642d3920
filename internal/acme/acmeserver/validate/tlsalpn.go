package validate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// handshake names the expected answer of a server for tls-alpn-01.
const handshake = "TLS handshake"

// tlsALPN01 looks at the certificate of a tls-alpn-01 challenge (RFC 8737 section 3).
func (a *attempt) tlsALPN01(ctx context.Context) *failure {
	name := a.Identifier.Value
	conn, failed := a.connect(ctx, name, a.cfg.TLSPorts, name, handshake)
	if failed != nil {
		return failed
	}
	// The TCP connection is closed directly: nothing is sent after the handshake.
	defer conn.Close()
	client := tls.Client(conn, &tls.Config{
		ServerName: rfc8555.ServerName(name), NextProtos: []string{rfc8555.TLSALPNProtocol}, MinVersion: tls.VersionTLS12,
		// The content of such a certificate is the proof, not its issuer.
		InsecureSkipVerify: true,
	})
	if err := client.HandshakeContext(ctx); err != nil {
		return handshakeFailure(err, name)
	}
	state := client.ConnectionState()
	a.record.TLSVersion = tls.VersionName(state.Version)
	switch {
	case state.NegotiatedProtocol != rfc8555.TLSALPNProtocol:
		return &failure{kind: rfc8555.ProblemTLS, detail: fmt.Sprintf("%s does not speak the protocol %s", name, rfc8555.TLSALPNProtocol)}
	case len(state.PeerCertificates) != 1:
		return wrongCertificate(name, fmt.Errorf("it has %d certificates, expected 1", len(state.PeerCertificates)))
	}
	a.record.SHA256 = hash(state.PeerCertificates[0].Raw)
	if err := rfc8555.CheckTLSALPN(state.PeerCertificates[0], name, a.KeyAuthorization); err != nil {
		return wrongCertificate(name, err)
	}
	return nil
}

func wrongCertificate(name string, err error) *failure {
	return &failure{kind: rfc8555.ProblemUnauthorized, detail: fmt.Sprintf("%s does not answer the challenge: %v", name, err), final: true}
}

// handshakeFailure returns the failure of a handshake with a server. Of the
// server's, it shows alerts, which are one of a few texts.
func handshakeFailure(err error, name string) *failure {
	if strings.Contains(err.Error(), "failed to parse certificate from server") { // of crypto/tls, which has no type for it
		failed := wrongCertificate(name, errors.New("its certificate cannot be read"))
		failed.cause = err
		return failed
	}
	if isBroken(err) {
		return unreachable(handshake, name, err)
	}
	detail := fmt.Sprintf("the TLS handshake with %s fails", name)
	var alert *net.OpError
	if errors.As(err, &alert) && alert.Op == "remote error" {
		detail += ": " + alert.Err.Error()
	}
	return &failure{kind: rfc8555.ProblemTLS, detail: detail, cause: err}
}

// isBroken reports whether a connection has ended or times out.
func isBroken(err error) bool {
	var timeout net.Error
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, &timeout) && timeout.Timeout()
}
