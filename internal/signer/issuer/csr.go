package issuer

import (
	"crypto/x509"
	"fmt"
	"time"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
)

// Annotations of CertificateSigningRequests to issuers.
const (
	// AnnotationDuration is a duration that counts more than expirationSeconds.
	AnnotationDuration = "experimental.cert-manager.io/request-duration"
	// AnnotationIsCA asks for a CA if it is "true".
	AnnotationIsCA = "experimental.cert-manager.io/request-is-ca"
	// AnnotationKey names the Secret with the key, for a SelfSigned issuer: in
	// its namespace, or in that of the Secrets of ClusterIssuers.
	AnnotationKey = "experimental.cert-manager.io/private-key-secret-name"
)

// The reasons for which CertificateSigningRequests alone fail.
const (
	ReasonDeniedReference    = "DeniedReference"
	ReasonErrorParseDuration = "ErrorParseDuration"
	ReasonInvalidDuration    = "InvalidDuration"
)

// minDuration is the shortest life that CertificateSigningRequests can ask for.
const minDuration = 10 * time.Minute

// RequestOfCSR returns what a CertificateSigningRequest asks an issuer for.
func RequestOfCSR(req signer.Request) (Request, error) {
	usages, err := pki.ParseUsages(req.Usages)
	if err != nil {
		return Request{}, signer.Permanent(signer.ReasonInvalidRequest, err)
	}
	asked := Request{PEM: req.PEM, Usages: usages, IsCA: req.Annotations[AnnotationIsCA] == "true", Duration: req.Duration, Why: req.Purpose()}
	if asked.IsCA { // as cert-manager, whether or not the usage is among those of the request
		asked.Usages.Key |= x509.KeyUsageCertSign
	}
	if text, ok := req.Annotations[AnnotationDuration]; ok {
		duration, err := time.ParseDuration(text)
		if err != nil {
			return Request{}, signer.Permanent(ReasonErrorParseDuration, fmt.Errorf("annotation %s: %w; %s", AnnotationDuration, err, certmanager.DurationHint))
		}
		asked.Duration = &duration
	}
	if asked.Duration != nil && *asked.Duration < minDuration {
		return Request{}, signer.Permanent(ReasonInvalidDuration, fmt.Errorf("the duration %v is shorter than %v", *asked.Duration, minDuration))
	}
	return asked, nil
}

// Check reports what an issuer has against a request, whatever signs for it.
func (r Request) Check() error {
	_, err := r.parse()
	return err
}

// NoKey is the verdict of a SelfSigned issuer on a request that names no Secret
// with its key. annotation is where it should.
func NoKey(annotation string) error {
	return signer.Permanent(ReasonMissingAnnotation, fmt.Errorf(
		"annotation %q is missing or empty: it must name the Secret with the private key of the request", annotation))
}

// DeniedReference is the verdict on a request to an Issuer to which its
// requester may not refer.
func DeniedReference(username string, who certmanager.Signer) error {
	return signer.Permanent(ReasonDeniedReference, fmt.Errorf(
		"user %q may not refer to the Issuer %q in namespace %q: grant the verb reference on signers.%s named %q there",
		username, who.Name, who.Namespace, certmanager.Group, who.Name))
}
