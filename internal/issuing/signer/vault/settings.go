package vault

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing/signer/outbound"
)

// Settings is the stanza "certManager.vault". It applies to all issuers with
// spec.vault.
type Settings struct {
	// timeout is the time limit of one call to a Vault server, including the connection and
	// a redirect: at most 30s. Issuing a certificate takes up to four calls. A duration
	// such as 5s. Default: 10s.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// allowLoopback lets Issuers use servers on loopback addresses, such as
	// http://127.0.0.1:8200. Users with the right to create Issuers can then reach all
	// services that listen there. ClusterIssuers may always use them. The check applies to
	// the resolved address, not to the name. Default: false.
	AllowLoopback bool `json:"allowLoopback,omitempty"`
	// allowLinkLocal lets all issuers use servers on link-local addresses, such as
	// 169.254.169.254, where clouds serve the credentials of the machine. Default: false.
	AllowLinkLocal bool `json:"allowLinkLocal,omitempty"`
}

// maxTimeout keeps an attempt of four calls and a pause within two minutes, the time limit
// of an attempt.
const maxTimeout = 30 * time.Second

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{Timeout: metav1.Duration{Duration: 10 * time.Second}}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	if d := s.Timeout.Duration; d < 0 || d > maxTimeout {
		return fmt.Errorf("certManager.vault.timeout: %s is out of range: must be more than 0 and at most %s", d, maxTimeout)
	}
	return nil
}

// withDefaults completes s.
func (s Settings) withDefaults() Settings {
	if s.Timeout.Duration == 0 {
		s.Timeout = DefaultSettings().Timeout
	}
	return s
}

// guard returns the restriction of the addresses that an issuer may use. loopback permits
// loopback addresses regardless of the settings.
func (s Settings) guard(loopback bool) outbound.Guard {
	return outbound.Guard{Loopback: loopback || s.AllowLoopback, LinkLocal: s.AllowLinkLocal, Stanza: "certManager.vault"}
}
