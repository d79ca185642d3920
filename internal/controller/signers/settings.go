package signers

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings is the stanza "declaredSigners".
type Settings struct {
	// propagation is how long the root of a CA that certplane generates is published before
	// the CA signs, so that all verifiers trust it by then. It is limited to a tenth of the
	// CA's lifetime. Kubelets need some minutes. A duration such as 10m. Default: 10m.
	Propagation metav1.Duration `json:"propagation"`
	// warnBefore is how long before the expiry of a CA its Signer begins to warn with a
	// daily Event, if certplane does not replace the CA. It is limited to a fifth of the
	// CA's lifetime. Default: 720h, thirty days.
	WarnBefore metav1.Duration `json:"warnBefore"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{
		Propagation: metav1.Duration{Duration: 10 * time.Minute},
		WarnBefore:  metav1.Duration{Duration: 30 * 24 * time.Hour},
	}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	if d := s.Propagation.Duration; d < 0 {
		return fmt.Errorf("declaredSigners.propagation: %s is negative: with 0s, new CAs sign at once", d)
	}
	if d := s.WarnBefore.Duration; d < 0 {
		return fmt.Errorf("declaredSigners.warnBefore: %s is negative: 0s means no warning", d)
	}
	return nil
}
