package issuing

import (
	"bytes"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// MinRSABits is the smallest size of RSA keys that get a certificate. Issuers
// refuse only keys that cannot be used; approvers decide about the others.
const MinRSABits = 1024

// Request is an approved request for a certificate, from any kind of object.
type Request struct {
	request.Request
	// Terms are the requested properties outside of the PKCS#10 request.
	Terms request.Terms
	// Permission is the content that policies permit.
	Permission signer.Permission
}

// Purpose returns the reason for signing a certificate.
func (r Request) Purpose() pki.Purpose { return r.Permission.Purpose(r.Request) }

// RequestOf returns the Request for an issuer. Its errors are verdicts.
func RequestOf(req request.Request) (Request, error) {
	terms, err := req.Terms()
	var refused *request.TermsError
	switch {
	case errors.As(err, &refused) && refused.Reason == request.ReasonErrorParseDuration:
		return Request{}, signer.Permanent(refused.Reason, fmt.Errorf("%w; %s", err, certmanager.DurationHint))
	case errors.As(err, &refused):
		return Request{}, signer.Permanent(refused.Reason, err)
	}
	return Request{Request: req, Terms: terms.ForCA()}, nil // as in cert-manager, whether or not a CSR lists the usage
}

// The reasons of warnings.
const (
	// WarningShortened: the certificate ends with its CA, earlier than
	// requested.
	WarningShortened = "CertificateShortened"
	// WarningBadConfig: the certificate breaks a rule that some verifiers enforce.
	WarningBadConfig = "BadConfig"
)

// Parse returns the PKCS#10 request. It verifies that the requester holds the private key,
// and that the PKCS#10 request and the object request the same content.
func (r Request) Parse() (*x509.CertificateRequest, error) {
	csr, err := r.Proven()
	if err != nil {
		return nil, err
	}
	return csr.CertificateRequest, certmanager.CheckContent(csr, r.Terms.Usages, r.Terms.IsCA)
}

// ParseVerbatim is like Parse, for issuers that forward the request unchanged.
func (r Request) ParseVerbatim() (*x509.CertificateRequest, error) {
	if err := r.CheckVerbatim(); err != nil {
		return nil, err
	}
	return r.Parse()
}

// Check returns an error if an issuer of any type would refuse the request.
func (r Request) Check() error {
	_, err := r.Parse()
	return err
}

// CheckDuration refuses a duration that leaves no time between notBefore and
// notAfter, which have no fractions of a second.
func (r Request) CheckDuration() error {
	if r.Terms.Duration != nil && *r.Terms.Duration < time.Second {
		return fmt.Errorf("the requested duration %v is shorter than a second", *r.Terms.Duration)
	}
	return nil
}

// Lifetime returns a Lifetime that starts now: unlike the signers of
// Kubernetes, Issuers do not backdate.
func (r Request) Lifetime() pki.Lifetime {
	lifetime := pki.Lifetime{Max: certmanager.DefaultDuration}
	if asked := r.Permission.Lifetime.Within(r.Terms.Duration); asked != nil {
		lifetime.Max = *asked
	}
	return lifetime.Limited(r.Permission.Lifetime.Max)
}

// Template returns the template of the certificate for csr, to be signed with
// the key whose public half is by.
func (r Request) Template(csr *x509.CertificateRequest, by crypto.PublicKey, validity pki.Validity, where pki.Locations, rand io.Reader) (*x509.Certificate, error) {
	serial, err := pki.NewSerial(rand)
	if err != nil {
		return nil, signer.Unavailable(err)
	}
	template, err := pki.VerbatimTemplate(csr, by, pki.Terms{
		Usages: r.Terms.Usages, IsCA: r.Terms.IsCA, Validity: validity, Serial: serial, Locations: where,
	})
	if err == nil && r.Terms.IsCA {
		template.SubjectKeyId = request.SubjectKeyID(r.ObjectAnnotations)
	}
	return template, err
}

// Permanent returns a verdict that ends a request, unless err is already a
// verdict. Its text is for the requester, and must not show a key.
func Permanent(reason, text string, err error) error {
	if verdict := new(signer.PendingError); errors.As(err, &verdict) {
		return err
	}
	if verdict := new(signer.PermanentError); errors.As(err, &verdict) {
		return err
	}
	return signer.Permanent(reason, fmt.Errorf("%s: %w", text, err))
}

// Pending returns a verdict about an object of Needs for which a request waits.
// err may be nil. Its text is for the requester, and must not show a key.
func Pending(reason, text string, err error) error {
	if err == nil {
		err = errors.New(text)
	} else {
		err = fmt.Errorf("%s: %w", text, err)
	}
	return &signer.PendingError{Reason: reason, Message: err.Error(), Err: err, Watched: true}
}

// WarnNameless warns of a certificate without an issuer's name, which violates
// RFC 5280 section 4.1.2.4.
func WarnNameless(cert *x509.Certificate) []signer.Warning {
	if !bytes.Equal(cert.RawIssuer, []byte{0x30, 0x00}) {
		return nil
	}
	return []signer.Warning{{Reason: WarningBadConfig, Message: "Certificate will be issued with an empty Issuer DN, which contravenes RFC 5280 and could break some strict clients"}}
}
