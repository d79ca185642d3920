package publish

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings is the stanza "publishing".
type Settings struct {
	// rootCAFile holds, in PEM, the roots that the API server's certificate
	// chains to. They are published in each namespace, in the config map
	// kube-root-ca.crt. The file is read again when it changes; one without
	// certificates stops the start, and later changes nothing. Default: the CA
	// that this process itself trusts: that of its kubeconfig in "certplane
	// controllers", its own in "certplane serve". Flag of "certplane
	// controllers": --root-ca-file.
	RootCAFile string `json:"rootCAFile,omitempty"`
	// overlap is how long roots that have gone from the file are published
	// beside the new ones, in which time the API server can get its new
	// certificate. 0s is not at all. Default: 24h.
	Overlap metav1.Duration `json:"overlap"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{Overlap: metav1.Duration{Duration: 24 * time.Hour}}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	if s.Overlap.Duration < 0 {
		return fmt.Errorf("publishing.overlap: %s is negative: 0s is no overlap", s.Overlap.Duration)
	}
	return nil
}
