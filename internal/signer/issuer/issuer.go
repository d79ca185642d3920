// Package issuer signs the way Issuers of cert-manager.io do.
//
// Like all of signing it decides from its arguments alone. Its errors are
// *signer.PermanentError and *signer.PendingError; their reasons are those of
// the Events that clients of cert-manager.io know, and their texts are for the
// requester: they show no key.
package issuer

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
)

// minRSABits is the size below which RSA keys get no certificate. Issuers do
// not judge keys beyond what nobody can use: approvers do.
const minRSABits = 1024

// Request is what a certificate is made from, of whichever kind of object. It
// has been approved.
type Request struct {
	// PEM is the PKCS#10 request.
	PEM []byte
	// Usages are those of the certificate. A CA's need to have cert sign.
	Usages pki.Usages
	IsCA   bool
	// Duration is how long the certificate is to live; nil: 90 days.
	Duration *time.Duration
	// Why is for the record of certificates.
	Why pki.Purpose
}

// RequestOf returns what a CertificateRequest asks for. It fails if that has
// usages which do not exist.
func RequestOf(cr *cmv1.CertificateRequest) (Request, error) {
	usages, err := certmanager.Usages(cr.Spec.Usages, cr.Spec.IsCA)
	if err != nil {
		return Request{}, fmt.Errorf("spec.usages: %w", err)
	}
	req := Request{PEM: cr.Spec.Request, Usages: usages, IsCA: cr.Spec.IsCA, Why: pki.Purpose{
		Signer: certmanager.ReferredSigner(cr).String(), Requester: cr.Spec.Username,
		Kind: cmv1.CertificateRequestKind, Namespace: cr.Namespace, Name: cr.Name, UID: string(cr.UID),
	}}
	if cr.Spec.Duration != nil {
		req.Duration = &cr.Spec.Duration.Duration
	}
	return req, nil
}

// The reasons of warnings.
const (
	// WarningShortened: the certificate ends with its CA, before its time.
	WarningShortened = "CertificateShortened"
	// WarningBadConfig: the certificate breaks a rule that some verifiers enforce.
	WarningBadConfig = "BadConfig"
)

// parse reads the request, and proves that the requester has its key and that
// nothing else is asked for in it than beside it.
func (r Request) parse() (*x509.CertificateRequest, error) {
	csr, err := certmanager.ParseRequest(r.PEM)
	if err != nil {
		return nil, fmt.Errorf("reading the certificate request: %w", err)
	}
	if err := pki.VerifyRequest(csr); err != nil {
		return nil, fmt.Errorf("verifying the certificate request: %w", err)
	}
	return csr, certmanager.CheckContent(csr, r.Usages, r.IsCA)
}

// checkDuration refuses what leaves no time between the beginning of a
// certificate and its end, which have no fractions of a second.
func (r Request) checkDuration() error {
	if r.Duration != nil && *r.Duration < time.Second {
		return fmt.Errorf("the duration %v that is asked for is shorter than a second", *r.Duration)
	}
	return nil
}

// lifetime starts now: other than the signers of Kubernetes, Issuers do not
// backdate.
func (r Request) lifetime() pki.Lifetime {
	if r.Duration != nil {
		return pki.Lifetime{Max: *r.Duration}
	}
	return pki.Lifetime{Max: certmanager.DefaultDuration}
}

// template describes the certificate for csr, to be signed by who has the
// public key by.
func (r Request) template(csr *x509.CertificateRequest, by crypto.PublicKey, validity pki.Validity, where pki.Locations, rand io.Reader) (*x509.Certificate, error) {
	serial, err := pki.NewSerial(rand)
	if err != nil {
		return nil, signer.Unavailable(err)
	}
	return pki.VerbatimTemplate(csr, by, pki.Terms{
		Usages: r.Usages, IsCA: r.IsCA, Validity: validity, Serial: serial, Locations: where,
	})
}

// permanent makes a verdict that ends a request, unless err is a verdict.
func permanent(reason, text string, err error) error {
	if verdict := new(signer.PendingError); errors.As(err, &verdict) {
		return err
	}
	return signer.Permanent(reason, fmt.Errorf("%s: %w", text, err))
}

// pending makes a verdict about what a request waits for. err may be nil.
func pending(reason, text string, err error) error {
	if err == nil {
		err = errors.New(text)
	} else {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return &signer.PendingError{Reason: reason, Message: err.Error(), Err: err}
}
