package trust

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/issuing/roots"
)

// Settings is the stanza "trust".
type Settings struct {
	// overlap is how long the bundle with a signer's old roots is kept after its roots
	// changed. After this time, certificates from before the change can no longer be
	// verified, so it should not be less than signing.maxDuration. A bundle that must no
	// longer be trusted can be deleted immediately: it is not created again. 0s means no
	// overlap. Default: 8760h, a year.
	Overlap metav1.Duration `json:"overlap"`
	// upcoming are roots that signers do not use yet, each with the signer's
	// name and a rootsFile in PEM, which is read again when it changes. They
	// are published immediately, so that clients already trust them when the
	// signer changes to them. Default: none.
	Upcoming []Upcoming `json:"upcoming,omitempty"`
}

// Upcoming are the future roots of a signer.
type Upcoming struct {
	// signerName is the name of the signer.
	SignerName string `json:"signerName"`
	// rootsFile holds the roots in PEM.
	RootsFile string `json:"rootsFile"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{Overlap: metav1.Duration{Duration: 365 * 24 * time.Hour}}
}

// Validate returns an error for the first invalid value, with the name of its field.
// signers are the names of the existing signers.
func (s Settings) Validate(signers []string) error {
	if s.Overlap.Duration < 0 {
		return fmt.Errorf("trust.overlap: %s is negative: 0s means no overlap", s.Overlap.Duration)
	}
	for i, next := range s.Upcoming {
		field := fmt.Sprintf("trust.upcoming[%d]", i)
		if !slices.Contains(signers, next.SignerName) {
			return fmt.Errorf("%s.signerName: unknown signer %q: use one of %s", field, next.SignerName, strings.Join(signers, ", "))
		}
		if next.RootsFile == "" {
			return fmt.Errorf("%s.rootsFile: missing", field)
		}
	}
	return nil
}

// Roots joins the roots of a signer with its upcoming ones.
func (s Settings) Roots(signerName string, today roots.Roots) (roots.Roots, error) {
	all := []roots.Roots{today}
	for _, next := range s.Upcoming {
		if next.SignerName != signerName {
			continue
		}
		upcoming, err := roots.File(next.RootsFile, nil)
		if err != nil {
			return nil, fmt.Errorf("trust.upcoming: %w", err)
		}
		all = append(all, upcoming)
	}
	return roots.Joined(all...), nil
}
