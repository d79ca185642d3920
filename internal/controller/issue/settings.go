package issue

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/issuance"
)

// CertificateSettings are the settings for Certificates in the stanza
// "certManager".
type CertificateSettings struct {
	// backoffMin is the time between a failed issuance of a Certificate and the next
	// attempt. It doubles with each failure. A change of the spec and "certplane renew"
	// start an attempt immediately. A duration such as 1h. Default: 1h.
	BackoffMin metav1.Duration `json:"backoffMin"`
	// backoffMax is the maximum of this time. Default: 32h.
	BackoffMax metav1.Duration `json:"backoffMax"`
	// enableCertificateOwnerRef makes a Certificate the owner of its Secret, so
	// that the Secret is deleted with it. If false, the Secret stays. Default:
	// false.
	EnableCertificateOwnerRef bool `json:"enableCertificateOwnerRef"`
	// copiedAnnotationPrefixes select the annotations that are copied from a Certificate to
	// its CertificateRequests, by prefix. "*" selects all annotations, and a prefix after
	// "-" excludes annotations. The last matching prefix decides. Default: all annotations
	// except those of kubectl, Flux, Argo CD and the controllers ingress-shim and gateway-shim.
	CopiedAnnotationPrefixes []string `json:"copiedAnnotationPrefixes"`
	// renewalInformation lets ACME servers set the renewal time of certificates (RFC 9773),
	// for instance before they revoke them: each certificate is renewed at a random time in
	// the window that its CA suggests. If false, the controller does not query CAs, and
	// only the Certificates' renewBefore applies. Default: true.
	RenewalInformation bool `json:"renewalInformation"`
}

// DefaultCertificateSettings returns the defaults.
func DefaultCertificateSettings() CertificateSettings {
	return CertificateSettings{
		BackoffMin:               metav1.Duration{Duration: issuance.DefaultBackoff().Min},
		BackoffMax:               metav1.Duration{Duration: issuance.DefaultBackoff().Max},
		CopiedAnnotationPrefixes: []string{"*", "-kubectl.kubernetes.io/", "-fluxcd.io/", "-argocd.argoproj.io/", "-certplane.dev/shim"},
		RenewalInformation:       true,
	}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s CertificateSettings) Validate() error {
	if d := s.BackoffMin.Duration; d <= 0 {
		return fmt.Errorf("certManager.backoffMin: %s must be more than 0s", d)
	}
	if d := s.BackoffMax.Duration; d < s.BackoffMin.Duration {
		return fmt.Errorf("certManager.backoffMax: %s must be at least backoffMin, %s", d, s.BackoffMin.Duration)
	}
	return nil
}

func (s CertificateSettings) backoff() issuance.Backoff {
	return issuance.Backoff{Min: s.BackoffMin.Duration, Max: s.BackoffMax.Duration}
}
