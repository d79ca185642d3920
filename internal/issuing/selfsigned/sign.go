package selfsigned

import (
	"context"
	"errors"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// The reasons of verdicts of SelfSigned issuers.
const (
	ReasonMissingAnnotation  = "MissingAnnotation"
	ReasonMissingSecret      = "MissingSecret"
	ReasonSecretNotFound     = "SecretNotFound" // the same, of CertificateSigningRequests
	ReasonErrorGettingSecret = "ErrorGettingSecret"
	ReasonErrorParsingKey    = "ErrorParsingKey"
	ReasonErrorGenerating    = "ErrorGenerating"
	ReasonErrorPublicKey     = "ErrorPublicKey"
	ReasonErrorKeyMatch      = "ErrorKeyMatch"
	ReasonErrorSigning       = "ErrorSigning"
)

// KeySecret is where the key of a request is.
type KeySecret struct {
	// Annotation is the annotation of the request that names the Secret, and
	// Name is its value; empty if it is missing.
	Annotation, Name string
	// Namespace is the required namespace of the Secret, which is not always
	// the one that the requester expects.
	Namespace string
	// Secret holds the key as tls.key; nil if it does not exist.
	Secret *corev1.Secret
}

// NoKey returns the verdict on a request that names no Secret with its key.
// annotation is the annotation that should name it.
func NoKey(annotation string) error {
	return signer.Permanent(ReasonMissingAnnotation, fmt.Errorf(
		"annotation %q is missing or empty: it must name the Secret with the private key of the request", annotation))
}

// Sign issues a certificate for a SelfSigned issuer with config, signed
// with the key of the request itself. It begins now. A request with an empty
// subject gets a certificate without an issuer's name, which violates RFC 5280
// section 4.1.2.4; a warning says so.
func Sign(ctx context.Context, by pki.Issuing, req issuing.Request, config *cmv1.SelfSignedIssuer, from KeySecret, now time.Time) (*signer.Issued, error) {
	switch {
	case from.Name == "":
		return nil, NoKey(from.Annotation)
	case from.Secret == nil:
		reason := ReasonSecretNotFound
		if req.Kind == request.CertificateRequests {
			reason = ReasonMissingSecret
		}
		return nil, issuing.Pending(reason, fmt.Sprintf("Referenced secret %s/%s not found", from.Namespace, from.Name), nil)
	}
	key, err := pki.ParsePrivateKey(from.Secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, issuing.Pending(ReasonErrorParsingKey, fmt.Sprintf("Failed to get key %q referenced in secret %s/%s", corev1.TLSPrivateKeyKey, from.Namespace, from.Name), err)
	}
	csr, err := req.Parse()
	if err != nil {
		return nil, issuing.Permanent(ReasonErrorGenerating, "Error generating certificate template", err)
	}
	where := pki.Locations{CRLs: config.CRLDistributionPoints}
	template, err := req.Template(csr, key.Public(), req.Lifetime().Unbounded(nil, now), where, by.Rand)
	if err != nil {
		return nil, issuing.Permanent(ReasonErrorGenerating, "Error generating certificate template", err)
	}
	if err := pki.CheckPublicKey(csr.PublicKey, issuing.MinRSABits); err != nil {
		return nil, issuing.Permanent(ReasonErrorPublicKey, "Failed to get public key from the certificate request", err)
	}
	if !pki.SameKey(key.Public(), csr.PublicKey) {
		return nil, issuing.Permanent(ReasonErrorKeyMatch, "Error generating certificate template",
			errors.New("the private key in the Secret does not match the certificate request"))
	}
	if err := req.CheckDuration(); err != nil {
		return nil, issuing.Permanent(ReasonErrorSigning, "Error signing certificate", err)
	}
	linted, err := pki.LintSelfSigned(template, key, pki.Policy{MinRSABits: issuing.MinRSABits})
	if err != nil {
		return nil, issuing.Permanent(ReasonErrorSigning, "Error signing certificate", err)
	}
	cert, err := linted.Sign(ctx, by, req.Purpose())
	if err != nil {
		return nil, issuing.Permanent(ReasonErrorSigning, "Error signing certificate", err)
	}
	data := pki.EncodeCertificates(cert)
	return &signer.Issued{Certificate: cert, PEM: data, CA: data, Warnings: issuing.WarnNameless(cert)}, nil
}
