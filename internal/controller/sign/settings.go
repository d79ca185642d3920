package sign

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings is the stanza "signing".
type Settings struct {
	// maxDuration is the longest life of a certificate, and the life of one
	// whose request names no expirationSeconds. A request for more gets this
	// much, without an error. A certificate never outlives its CA, whatever is
	// said here. A duration such as 24h. Default: 8760h, a year.
	MaxDuration metav1.Duration `json:"maxDuration"`
	// concurrency is how many requests each signer works on at the same time.
	// More helps while the API server is slow to store certificates.
	// Default: 5.
	Concurrency int `json:"concurrency"`
}

// DefaultSettings returns what applies when nothing is said.
func DefaultSettings() Settings {
	return Settings{MaxDuration: metav1.Duration{Duration: 365 * 24 * time.Hour}, Concurrency: 5}
}

// Validate reports the first value that cannot work, by its field.
func (s Settings) Validate() error {
	if s.MaxDuration.Duration < time.Minute {
		return fmt.Errorf("signing.maxDuration: %s is too short: must be at least 1m", s.MaxDuration.Duration)
	}
	if s.Concurrency < 1 {
		return fmt.Errorf("signing.concurrency: %d must be at least 1", s.Concurrency)
	}
	return nil
}

// withDefaults completes settings that were made without DefaultSettings.
func (s Settings) withDefaults() Settings {
	defaults := DefaultSettings()
	if s.MaxDuration.Duration == 0 {
		s.MaxDuration = defaults.MaxDuration
	}
	if s.Concurrency == 0 {
		s.Concurrency = defaults.Concurrency
	}
	return s
}
