package podsign

import "fmt"

// Settings is the stanza "podSigning".
type Settings struct {
	// concurrency is the maximum number of pods' requests that are processed at the same
	// time. A higher number helps if the API server is slow to store certificates. Default:
	// 20.
	Concurrency int `json:"concurrency"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{Concurrency: 20} }

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	if s.Concurrency < 1 {
		return fmt.Errorf("podSigning.concurrency: %d must be at least 1", s.Concurrency)
	}
	return nil
}
