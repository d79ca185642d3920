package explain

import (
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// Outdated returns why a Certificate whose condition says that it is ready is
// not ready, in words that follow its name; empty if it is ready. The condition
// can be older than the last change.
func (f *CertificateFacts) Outdated() string {
	crt := f.Certificate
	ready := certmanager.CertificateCondition(crt, cmv1.CertificateConditionReady)
	switch until := crt.Status.NotAfter; {
	case f.SecretExists == No:
		return fmt.Sprintf("has lost its Secret %s, and no controller has said so yet", crt.Spec.SecretName)
	case until != nil && f.Now.After(until.Time):
		return "was ready, and its certificate expired on " + until.UTC().Format(time.RFC3339)
	case ready != nil && ready.ObservedGeneration < crt.Generation:
		return "was ready before the last change of its spec, and no controller has looked at that yet"
	default:
		return ""
	}
}
