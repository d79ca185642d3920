package declared

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// ClientOfPods is the signer of certificates with which pods are clients of
// the API server.
const ClientOfPods = "kubernetes.io/kube-apiserver-client-pod"

// minPodLifetime is the shortest lifetime of a pod's certificate (KEP-4317).
const minPodLifetime = time.Hour

// Sign answers a request at the moment now. Its errors are *profile.Refusal,
// *signer.PermanentError and *signer.PendingError. Refusals come before errors
// about the CA: a bad request is refused even while the CA of an open signer
// cannot be used.
func (s *Signer) Sign(ctx context.Context, facts request.Request, permitted signer.Permission, now time.Time) (*signer.Issued, error) {
	if s.Unready != nil {
		return nil, signer.Unavailable(s.Unready)
	}
	cert, err := s.Profile.DecideWithin(facts, permitted.Lifetime)
	if err != nil {
		return nil, err
	}
	if err := signer.CheckSubject(cert.Subject); err != nil {
		return nil, signer.Permanent(signer.ReasonValidation, err)
	}
	var issued *signer.Issued
	if s.CA != nil {
		issued, err = s.signLocally(ctx, cert, facts, permitted, now)
	} else {
		issued, err = s.signAtEndpoint(ctx, cert, facts, now)
	}
	if err != nil {
		return nil, err
	}
	leaf := issued.Certificate
	issued.RefreshAt = cert.RefreshAt(leaf.NotBefore, leaf.NotAfter, facts.UID)
	return issued, nil
}

func (s *Signer) signLocally(ctx context.Context, cert *profile.Certificate, facts request.Request, permitted signer.Permission, now time.Time) (*signer.Issued, error) {
	ca, err := s.CA()
	if err != nil {
		return nil, signer.Unavailable(err)
	}
	requested := cert.Validity(now)
	validity, err := requested.Within(ca.Validity(), now)
	if err == nil {
		err = checkPodLifetime(facts, validity)
	}
	if err != nil {
		return nil, signer.Expired(err)
	}
	leaf, err := s.sign(ctx, ca, cert, facts, permitted.Purpose(facts), validity)
	if err != nil {
		return nil, err
	}
	return &signer.Issued{
		Certificate: leaf,
		PEM:         pki.EncodeCertificates(s.chain(ca, leaf)...),
		ShortenedBy: requested.NotAfter.Sub(validity.NotAfter),
	}, nil
}

// checkPodLifetime refuses a shorter lifetime, which the API does not accept
// for a pod. It is shorter if the certificate has to end with its CA.
func checkPodLifetime(facts request.Request, validity pki.Validity) error {
	if facts.Kind == v1alpha1.PodCertificateRequests && validity.NotAfter.Sub(validity.NotBefore) < minPodLifetime {
		return fmt.Errorf("the signer's CA expires in less than %v: NotAfter=%v", minPodLifetime, validity.NotAfter)
	}
	return nil
}

func (s *Signer) sign(
	ctx context.Context, ca *pki.Authority, cert *profile.Certificate, facts request.Request, why pki.Purpose, validity pki.Validity,
) (*x509.Certificate, error) {
	serial, err := pki.NewSerial(s.Issuing.Rand)
	if err != nil {
		return nil, signer.Unavailable(err)
	}
	template := cert.Template(validity, serial)
	if s.Name == ClientOfPods && facts.Pod != nil {
		extension, err := podIdentity(facts).Extension()
		if err != nil {
			return nil, signer.Permanent(signer.ReasonRefused, err)
		}
		template.ExtraExtensions = append(template.ExtraExtensions, extension)
	}
	linted, err := ca.Lint(template, pki.Policy{Rule: s.Honoured.Rule(ca), Status: s.Issuing.Status})
	if err != nil {
		return nil, signer.Permanent(signer.ReasonRefused, err)
	}
	leaf, err := linted.Sign(ctx, s.Issuing, why)
	if err != nil {
		return nil, signer.Unavailable(err)
	}
	return leaf, nil
}

func podIdentity(facts request.Request) pki.PodIdentity {
	return pki.PodIdentity{
		Namespace: facts.Namespace, NamespaceUID: string(facts.NamespaceObject.UID),
		ServiceAccountName: facts.ServiceAccount.Name, ServiceAccountUID: string(facts.ServiceAccount.UID),
		PodName: facts.Pod.Name, PodUID: string(facts.Pod.UID),
		NodeName: facts.Node.Name, NodeUID: string(facts.Node.UID),
	}
}

// chain returns the certificates for the requester.
func (s *Signer) chain(ca *pki.Authority, leaf *x509.Certificate) []*x509.Certificate {
	chain := ca.Chain(leaf)
	switch {
	case s.Chain == v1alpha1.ChainNone:
		return chain[:1]
	case s.Chain == v1alpha1.ChainIntermediatesAndRoot && !slices.ContainsFunc(chain, ca.Anchor().Equal):
		return append(chain, ca.Anchor())
	}
	return chain
}
