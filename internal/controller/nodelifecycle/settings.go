package nodelifecycle

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/process/duration"
)

// shortest is the shortest grace period: hosts renew their leases every ten
// seconds, and shorter periods are only for tests.
const shortest = time.Second

// Settings is the stanza "nodeLifecycle".
type Settings struct {
	// gracePeriod is how long a node may renew neither its Lease nor its status
	// before its condition Ready becomes Unknown. Agents and kubelets renew
	// their Leases every 10s. Default: 50s, as in Kubernetes.
	GracePeriod metav1.Duration `json:"gracePeriod"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{GracePeriod: metav1.Duration{Duration: 50 * time.Second}}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	if s.GracePeriod.Duration < shortest {
		return fmt.Errorf("nodeLifecycle.gracePeriod: %s must be at least %s", duration.Format(s.GracePeriod.Duration), duration.Format(shortest))
	}
	return nil
}
