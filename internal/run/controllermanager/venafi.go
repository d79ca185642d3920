package controllermanager

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing/issuertypes"
)

// OpenIssuers opens the parts that the issuers of a type share in a process, for
// types that only some programs have.
type OpenIssuers func(Process, Settings) (issuertypes.Further, error)

// VenafiSettings is the stanza "certManager.venafi". Every program has it, so that
// all read the same files.
type VenafiSettings struct {
	// timeout is how long one call to a server may take, connecting included: at
	// most 30s. Issuing a certificate takes up to six calls, and an attempt has a
	// minute. A duration such as 5s. Default: 10s.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// allowLoopback lets Issuers name servers on loopback addresses, such as
	// https://127.0.0.1. Users who may create Issuers can then call services that
	// listen there. ClusterIssuers may always do so. The check uses the address
	// that the name resolves to, not the name. Default: false.
	AllowLoopback bool `json:"allowLoopback,omitempty"`
	// allowLinkLocal lets all issuers name servers on link-local addresses, such as
	// 169.254.169.254, where clouds serve the credentials of the machine. Default:
	// false.
	AllowLinkLocal bool `json:"allowLinkLocal,omitempty"`
}

const maxVenafiTimeout = 30 * time.Second

func defaultVenafiSettings() VenafiSettings {
	return VenafiSettings{Timeout: metav1.Duration{Duration: 10 * time.Second}}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s VenafiSettings) Validate() error {
	if d := s.Timeout.Duration; d < 0 || d > maxVenafiTimeout {
		return fmt.Errorf("certManager.venafi.timeout: %s is out of range: must be more than 0 and at most %s", d, maxVenafiTimeout)
	}
	return nil
}
