package venafi

import (
	"fmt"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/issuing/signer/outbound"
	"github.com/certplane/certplane/internal/run/controllermanager"
	"github.com/certplane/certplane/venafi/internal/signer/venafi"
	"github.com/certplane/certplane/venafi/internal/vcertlog"
)

// Open implements controllermanager.OpenIssuers. The tokens of servers are revoked
// when the manager of p ends.
func Open(p controllermanager.Process, s controllermanager.Settings) (issuertypes.Further, error) {
	vcertlog.Quiet()
	stanza := s.CertManager.Venafi
	servers, err := venafi.New(venafi.Config{
		Timeout: stanza.Timeout.Duration,
		Guard:   outbound.Guard{Loopback: stanza.AllowLoopback, LinkLocal: stanza.AllowLinkLocal, Stanza: "certManager.venafi"},
		Metrics: p.Metrics,
	})
	if err != nil {
		return issuertypes.Further{}, err
	}
	if err := p.Manager.Add(servers); err != nil {
		return issuertypes.Further{}, fmt.Errorf("adding the renewal of the tokens of Certificate Manager servers: %w", err)
	}
	shared := Share(servers)
	return issuertypes.Further{Type: Type, New: func(cfg issuing.Config) issuing.Backend { return New(cfg, shared) }, Changes: shared.Changes}, nil
}
