package signers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// A Signer's own propagation takes the place of the configured one.
func TestPropagationOfSigner(t *testing.T) {
	s := &v1alpha1.Signer{Spec: v1alpha1.SignerSpec{CA: v1alpha1.SignerCA{Generated: &v1alpha1.GeneratedCA{}}}}
	if got := rulesOf(s, 10*time.Minute).Propagation; got != 10*time.Minute {
		t.Errorf("without its own: %s", got)
	}
	s.Spec.CA.Generated.Propagation = &metav1.Duration{Duration: 336 * time.Hour}
	if got := rulesOf(s, 10*time.Minute).Propagation; got != 336*time.Hour {
		t.Errorf("with its own: %s", got)
	}
}
