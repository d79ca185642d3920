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

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/signer"
)

// minRSABits is the size below which RSA keys get no certificate. Issuers do
// not judge keys beyond what nobody can use: approvers do.
const minRSABits = 1024

// Request is what a certificate is made from, of whichever kind of object. It
// has been approved.
type Request struct {
	request.Request
	// Terms are what is asked for beside the PKCS#10 request.
	Terms request.Terms
}

// RequestOf returns what an issuer is asked for. Its errors are verdicts.
func RequestOf(req request.Request) (Request, error) {
	terms, err := req.Terms()
	var refused *request.TermsError
	switch {
	case errors.As(err, &refused) && refused.Reason == request.ReasonErrorParseDuration:
		return Request{}, signer.Permanent(refused.Reason, fmt.Errorf("%w; %s", err, certmanager.DurationHint))
	case errors.As(err, &refused):
		return Request{}, signer.Permanent(refused.Reason, err)
	}
	return Request{Request: req, Terms: terms.ForCA()}, nil // as cert-manager, whether or not the usage is among those of a CSR
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
	csr, err := r.Proven()
	if err != nil {
		return nil, err
	}
	return csr.CertificateRequest, certmanager.CheckContent(csr, r.Terms.Usages, r.Terms.IsCA)
}

// Check reports what an issuer has against a request, whatever signs for it.
func (r Request) Check() error {
	_, err := r.parse()
	return err
}

// checkDuration refuses what leaves no time between the beginning of a
// certificate and its end, which have no fractions of a second.
func (r Request) checkDuration() error {
	if r.Terms.Duration != nil && *r.Terms.Duration < time.Second {
		return fmt.Errorf("the duration %v that is asked for is shorter than a second", *r.Terms.Duration)
	}
	return nil
}

// lifetime starts now: other than the signers of Kubernetes, Issuers do not
// backdate.
func (r Request) lifetime() pki.Lifetime {
	if r.Terms.Duration != nil {
		return pki.Lifetime{Max: *r.Terms.Duration}
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
		Usages: r.Terms.Usages, IsCA: r.Terms.IsCA, Validity: validity, Serial: serial, Locations: where,
	})
}

// permanent makes a verdict that ends a request, unless err is a verdict.
func permanent(reason, text string, err error) error {
	if verdict := new(signer.PendingError); errors.As(err, &verdict) {
		return err
	}
	return signer.Permanent(reason, fmt.Errorf("%s: %w", text, err))
}

// pending makes a verdict about a Secret that a request waits for. err may be nil.
func pending(reason, text string, err error) error {
	if err == nil {
		err = errors.New(text)
	} else {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return &signer.PendingError{Reason: reason, Message: err.Error(), Err: err, Watched: true}
}
