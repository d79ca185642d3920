package publish

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings is the stanza "publishing".
type Settings struct {
	// rootCAFile holds, in PEM, the roots that the API server's certificate chains to. They
	// are published in each namespace, in the config map kube-root-ca.crt. The file is read
	// again when it changes. A file without certificates is an error at startup, and is
	// ignored later. Default: the CA that this process itself trusts, which is the CA in
	// the kubeconfig of "certplane controllers" and the own CA of "certplane serve". Flag
	// of "certplane controllers": --root-ca-file.
	RootCAFile string `json:"rootCAFile,omitempty"`
	// overlap is how long roots that were removed from the file are still published with
	// the new ones. The API server has to get its new certificate within this time. 0s
	// means no overlap. Default: 24h.
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
		return fmt.Errorf("publishing.overlap: %s is negative: 0s means no overlap", s.Overlap.Duration)
	}
	return nil
}
