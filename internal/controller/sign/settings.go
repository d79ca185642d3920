package sign

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/signer/webhook"
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
	// webhooks are the signers that are HTTPS endpoints, each with signerName,
	// url, caFile, serverName, certFile, keyFile, tokenFile, timeout, retries,
	// maxDuration and concurrency: see docs/webhook-signer.md. Default: none.
	Webhooks []webhook.Settings `json:"webhooks,omitempty"`
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
	return s.validateWebhooks()
}

// validateWebhooks: each has a name of its own.
func (s Settings) validateWebhooks() error {
	for i, w := range s.Webhooks {
		path := fmt.Sprintf("signing.webhooks[%d]", i)
		if err := checkDelegated(w); err != nil {
			return fmt.Errorf("%s.signerName: %w", path, err)
		}
		if first := webhook.Choose(s.Webhooks, w.SignerName); first != i {
			return fmt.Errorf("%s.signerName: %q is that of signing.webhooks[%d] already", path, w.SignerName, first)
		}
		if err := w.Validate(path); err != nil {
			return err
		}
	}
	return nil
}

func checkDelegated(w webhook.Settings) error {
	name := w.SignerName
	if domain, ok := w.Domain(); ok {
		name = domain + "/any"
	}
	if len(certificates.ValidateSignerName(nil, name)) > 0 {
		return fmt.Errorf("%q must be a signer such as example.com/my-signer, or example.com/* for all of a domain", w.SignerName)
	}
	return nil
}

// Delegated returns the names of the signers that are webhooks.
func (s Settings) Delegated() []string {
	var names []string
	for _, w := range s.Webhooks {
		names = append(names, w.SignerName)
	}
	return names
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
