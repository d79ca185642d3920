package declared

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	signing "github.com/certplane/certplane/api/signing/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// maxPodSkew is the longest time between the API server's clock and the
// notBefore of a pod's certificate (KEP-4317).
const maxPodSkew = 5 * time.Minute

// signAtEndpoint lets the endpoint sign. Chain does not apply: the endpoint
// answers with the certificates that are needed.
func (s *Signer) signAtEndpoint(ctx context.Context, cert *profile.Certificate, facts request.Request, now time.Time) (*signer.Issued, error) {
	if facts.PKCS10 == nil {
		return nil, signer.Permanent(signer.ReasonInvalidRequest,
			errors.New("the signer is an endpoint that needs a PKCS#10 request: make the request with stubPKCS10Request"))
	}
	forEndpoint := facts
	forEndpoint.PEM, forEndpoint.Usages = pki.EncodeRequest(facts.PKCS10.CertificateRequest), cert.Usages.Names()
	order := webhook.Order{Request: forEndpoint, Template: cert.Template(pki.Validity{}, nil), Duration: cert.Duration, Pod: podOf(facts)}
	issued, err := s.Endpoint.Issue(ctx, order, now)
	if err != nil || facts.Kind != v1alpha1.PodCertificateRequests {
		return issued, err
	}
	if err := checkForPod(issued.Certificate, cert, now); err != nil {
		return nil, &signer.PendingError{
			Reason: signer.ReasonInvalidAnswer, Message: "the signer returned an invalid answer; it keeps trying", Err: err,
		}
	}
	return issued, nil
}

// checkForPod refuses a certificate that the API would not accept: otherwise
// the request would be retried without end, each time with another certificate.
func checkForPod(leaf *x509.Certificate, cert *profile.Certificate, now time.Time) error {
	life, off := leaf.NotAfter.Sub(leaf.NotBefore), leaf.NotBefore.Sub(now)
	switch {
	case life < minPodLifetime || life > cert.Duration:
		return fmt.Errorf("the lifetime of the endpoint's certificate is %v: it must be between %v and %v", life, minPodLifetime, cert.Duration)
	case off >= maxPodSkew || off <= -maxPodSkew:
		return fmt.Errorf("the endpoint's certificate begins at %v: it must begin within %v from now", leaf.NotBefore, maxPodSkew)
	}
	return nil
}

func podOf(facts request.Request) *signing.Pod {
	if facts.Pod == nil {
		return nil
	}
	return &signing.Pod{
		Namespace: facts.Namespace, Name: facts.Pod.Name, UID: string(facts.Pod.UID),
		ServiceAccountName: facts.ServiceAccount.Name, ServiceAccountUID: string(facts.ServiceAccount.UID),
		NodeName: facts.Node.Name, NodeUID: string(facts.Node.UID),
	}
}
