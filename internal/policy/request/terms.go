package request

import (
	"cmp"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
)

// Annotations of CertificateSigningRequests for issuers.
const (
	// AnnotationDuration is a duration that takes precedence over
	// expirationSeconds.
	AnnotationDuration = "experimental.cert-manager.io/request-duration"
	// AnnotationIsCA requests a CA certificate if it is "true".
	AnnotationIsCA = "experimental.cert-manager.io/request-is-ca"
	// AnnotationKey names the Secret with the key, for a SelfSigned issuer. The Secret is
	// in the issuer's namespace, or in the namespace of the Secrets of ClusterIssuers.
	AnnotationKey = "experimental.cert-manager.io/private-key-secret-name"
)

// minDuration is the shortest lifetime that CertificateSigningRequests can
// request.
const minDuration = 10 * time.Minute

// The reasons for refusing terms.
const (
	ReasonInvalidRequest     = "InvalidRequest"
	ReasonErrorParseDuration = "ErrorParseDuration"
	ReasonInvalidDuration    = "InvalidDuration"
)

// Terms are the requested properties of a certificate from an issuer.
type Terms struct {
	// Usages of a CA must include cert sign.
	Usages pki.Usages
	IsCA   bool
	// Duration is the requested lifetime; nil leaves it to the issuer.
	Duration *time.Duration
}

// TermsError reports why the terms of a request are invalid.
type TermsError struct {
	// Reason is one of the reasons above.
	Reason string
	Err    error
}

func (e *TermsError) Error() string { return e.Err.Error() }
func (e *TermsError) Unwrap() error { return e.Err }

// Terms returns the terms of the request. Its errors are *TermsError.
func (r Request) Terms() (Terms, error) {
	usages, err := pki.ParseUsages(r.Usages)
	if err != nil {
		return Terms{}, &TermsError{ReasonInvalidRequest, fmt.Errorf("spec.usages: %w", err)}
	}
	terms := Terms{Usages: usages, IsCA: r.IsCA, Duration: r.Duration}
	if r.Kind != v1alpha1.CertificateSigningRequests {
		return terms.ForCA(), nil
	}
	terms.IsCA = r.ObjectAnnotations[AnnotationIsCA] == "true"
	if text, ok := r.ObjectAnnotations[AnnotationDuration]; ok {
		duration, err := time.ParseDuration(text)
		if err != nil {
			return Terms{}, &TermsError{ReasonErrorParseDuration, fmt.Errorf("annotation %s: %w", AnnotationDuration, err)}
		}
		terms.Duration = &duration
	}
	if terms.Duration != nil && *terms.Duration < minDuration {
		return Terms{}, &TermsError{ReasonInvalidDuration, fmt.Errorf("the duration %v is shorter than %v", *terms.Duration, minDuration)}
	}
	return terms, nil
}

// ForCA returns the terms, with the usage that a CA needs if they are for a CA.
func (t Terms) ForCA() Terms {
	if t.IsCA {
		t.Usages.Key |= x509.KeyUsageCertSign
	}
	return t
}

// AsksForCA reports whether anything in the request asks for the certificate of
// a CA, or for a usage that only CAs have.
func (r Request) AsksForCA() bool {
	if r.IsCA || r.ObjectAnnotations[AnnotationIsCA] == "true" ||
		slices.Contains(r.Usages, "cert sign") || slices.Contains(r.Usages, "crl sign") {
		return true
	}
	if r.PKCS10 == nil {
		return false
	}
	const usages = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	ca := r.PKCS10.CA // basic constraints that cannot be read may ask for a CA
	return ca.Err != nil || ca.Value.IsCA || r.PKCS10.KeyUsage.Value&usages != 0
}

// Proven returns the PKCS#10 request after verifying its proof that the
// requester has the key. It is for issuers, whose requests follow
// cert-manager's conventions.
func (r Request) Proven() (*pki.Request, error) {
	if err := cmp.Or(certmanager.CheckSize(r.PEM), r.Unreadable); err != nil {
		return nil, fmt.Errorf("reading the certificate request: %w", err)
	}
	if err := pki.VerifyRequest(r.PKCS10.CertificateRequest); err != nil {
		return nil, fmt.Errorf("verifying the certificate request: %w", err)
	}
	return r.PKCS10, nil
}
