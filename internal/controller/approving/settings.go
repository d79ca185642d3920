package approving

import "fmt"

// Settings is the stanza "approval".
type Settings struct {
	// concurrency is the maximum number of requests that are decided at the same time. Each
	// decision waits for two or three answers of the API server. Default: 5.
	Concurrency int `json:"concurrency"`
	// strict approves only requests whose common name is "system:node:" followed by a valid
	// node name. Kubernetes also approves requests without a valid node name. See also
	// signing.strict and signing.minRSABits. Default: false.
	Strict bool `json:"strict,omitempty"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{Concurrency: 5} }

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	if s.Concurrency < 1 {
		return fmt.Errorf("approval.concurrency: %d must be at least 1", s.Concurrency)
	}
	return nil
}

// withDefaults completes settings that were made without DefaultSettings.
func (s Settings) withDefaults() Settings {
	if s.Concurrency == 0 {
		s.Concurrency = DefaultSettings().Concurrency
	}
	return s
}
