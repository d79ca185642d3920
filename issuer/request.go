package issuer

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// Request is a request to be signed. It has been approved, and must not be
// modified.
type Request struct {
	// Issuer is the issuer that the request refers to, of one of
	// Controller.Kinds. It is ready.
	Issuer Issuer
	// Object is the request: a *CertificateRequest of cert-manager.io/v1 or a
	// *CertificateSigningRequest of certificates.k8s.io/v1. Its annotations can
	// have changed since its approval.
	Object client.Object
	// Requester is the user who created the request, as authenticated by the
	// API server.
	Requester authenticationv1.UserInfo

	// CSR is the PKCS#10 request, and PEM is the same in PEM. Its signature has
	// been verified: the requester has the key.
	CSR *x509.CertificateRequest
	PEM []byte
	// Duration is the lifetime of the certificate, more than zero.
	Duration time.Duration
	// IsCA is set if a CA certificate is requested.
	IsCA bool
	// KeyUsage and ExtKeyUsage are the requested usages. Those in the CSR, if
	// it has any, are the same in a CertificateRequest; in a
	// CertificateSigningRequest they are ignored.
	KeyUsage    x509.KeyUsage
	ExtKeyUsage []x509.ExtKeyUsage
}

// Usages returns KeyUsage and ExtKeyUsage by the names that the API has for
// them, such as "digital signature" and "server auth".
func (r *Request) Usages() []string { return r.usages().Names() }

func (r *Request) usages() pki.Usages { return pki.Usages{Key: r.KeyUsage, Extended: r.ExtKeyUsage} }

// Template returns a template of the requested certificate for [x509.CreateCertificate],
// with parent as the certificate of the CA that signs. It contains the subject, the
// alternative names and the name constraints of the CSR, byte for byte, the values of the
// other fields, and a random serial number. The key identifier of a CA stays that of its
// earlier certificate. It is valid from now, and ends with parent at the latest. An error
// is Permanent if such a certificate is not possible, and NotReady if parent is not valid
// now.
func (r *Request) Template(parent *x509.Certificate, now time.Time) (*x509.Certificate, error) {
	serial, err := pki.NewSerial(rand.Reader)
	if err != nil {
		return nil, err
	}
	lives := pki.Validity{NotBefore: parent.NotBefore, NotAfter: parent.NotAfter}
	validity, err := pki.Lifetime{Max: r.Duration}.Validity(nil, lives, now)
	if err != nil {
		return nil, NotReady(fmt.Errorf("the CA %s: %w", parent.Subject, err))
	}
	template, err := pki.VerbatimTemplate(r.CSR, parent.PublicKey, pki.Terms{
		Usages: r.usages(), IsCA: r.IsCA, Validity: validity, Serial: serial,
	})
	if err != nil {
		return nil, Permanent(err)
	}
	if r.IsCA && r.Object != nil {
		template.SubjectKeyId = request.SubjectKeyID(r.Object.GetAnnotations())
	}
	return template, nil
}

// accept checks the PEM bundle that Sign has returned and converts it to a
// chain for the status.
func (r *Request) accept(bundle []byte) (*pki.Chain, error) {
	certs, err := pki.ParseCertificates(bundle)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates: %w", err)
	}
	chain, err := pki.AcceptChain(certs, pki.Wanted{Key: r.CSR.PublicKey, CA: r.IsCA}, time.Time{})
	switch {
	case errors.Is(err, pki.ErrOtherKey):
		return nil, errors.New("the certificate is for another key than the request's")
	case errors.Is(err, pki.ErrUnwantedCA):
		return nil, errors.New("the certificate is a CA certificate, but the request does not ask for one")
	}
	return chain, err
}

// newRequest returns the content of a request, or the outcome if the request is
// invalid.
func newRequest(from request.Request, usual, limit time.Duration) (*Request, *outcome.Outcome) {
	terms, err := from.Terms()
	var refused *request.TermsError
	if errors.As(err, &refused) {
		return refuse(refused.Reason, "%v", err)
	}
	r := &Request{
		PEM: from.PEM, IsCA: terms.IsCA, KeyUsage: terms.Usages.Key, ExtKeyUsage: terms.Usages.Extended,
		Requester: authenticationv1.UserInfo{Username: from.Requester.Username, UID: from.Requester.UID, Groups: from.Requester.Groups},
	}
	for key, values := range from.Requester.Extra {
		r.setExtra(key, values)
	}
	csr, err := from.Proven()
	if err := errors.Join(r.setDuration(terms.Duration, usual, limit), err); err != nil {
		return refuse(reasonInvalidRequest, "%v", err)
	}
	r.CSR = csr.CertificateRequest
	return r, nil
}

func refuse(reason, format string, args ...any) (*Request, *outcome.Outcome) {
	o := outcome.Fail(reason, format, args...)
	return nil, &o
}

// setDuration limits the requested duration, which may be nil, to a
// controller's limits. A limit of zero means no limit.
func (r *Request) setDuration(requested *time.Duration, usual, limit time.Duration) error {
	r.Duration = usual
	if requested != nil {
		r.Duration = *requested
	}
	if limit > 0 {
		r.Duration = min(r.Duration, limit)
	}
	if r.Duration <= 0 {
		return fmt.Errorf("the duration %v is not more than zero", r.Duration)
	}
	return nil
}

func (r *Request) setExtra(key string, values []string) {
	if r.Requester.Extra == nil {
		r.Requester.Extra = map[string]authenticationv1.ExtraValue{}
	}
	r.Requester.Extra[key] = values
}
