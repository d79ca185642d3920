package tlsalpn

import (
	"github.com/certplane/certplane/internal/acme/solver/selfcheck"
	"github.com/certplane/certplane/internal/acme/solver/socket"
)

// field is the path of the settings.
const field = "acme.tlsALPN01"

// Settings is the stanza "acme.tlsALPN01".
type Settings struct {
	// listen is where TLS-ALPN-01 challenges are answered: a list of HOST:PORT,
	// unix:PATH, or fd:NAME for a socket that systemd opens
	// (FileDescriptorName). ACME servers connect to port 443 of each name: listen
	// there, or have a TCP proxy there pass connections for the protocol
	// acme-tls/1 on to here. Nothing else is served. Each of several servers
	// answers for all. Default: none; then TLS-ALPN-01 challenges fail before the
	// ACME server is asked to look.
	Listen []string `json:"listen,omitempty"`
	// selfCheck is as in acme.http01. Default: Full.
	SelfCheck selfcheck.Policy `json:"selfCheck"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{SelfCheck: selfcheck.Full} }

// Validate returns an error for the first invalid value, with the path of its
// field.
func (s Settings) Validate() error {
	if err := socket.Check(field+".listen", s.Listen); err != nil {
		return err
	}
	return s.SelfCheck.Validate(field + ".selfCheck")
}

// Off reports whether nothing answers.
func (s Settings) Off() bool { return len(s.Listen) == 0 }
