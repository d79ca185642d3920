package issuer

import (
	"crypto/rand"
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/answer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// Request is what Sign makes a certificate from. It has been approved, and is
// not to be modified.
type Request struct {
	// Issuer is the issuer that was asked, of one of Controller.Kinds. It is
	// ready.
	Issuer Issuer
	// Object is the request: a *CertificateRequest of cert-manager.io/v1 or a
	// *CertificateSigningRequest of certificates.k8s.io/v1. Its annotations can
	// have changed since its approval.
	Object client.Object
	// Requester is who made it, as the API server knows them.
	Requester authenticationv1.UserInfo

	// CSR is the PKCS#10 request, and PEM is the same in PEM. Its signature has
	// been verified: the requester has the key.
	CSR *x509.CertificateRequest
	PEM []byte
	// Duration is how long the certificate is to live, more than zero.
	Duration time.Duration
	// IsCA reports whether the certificate is to be that of a CA.
	IsCA bool
	// KeyUsage and ExtKeyUsage are what the key is to be used for. Those of the
	// CSR, if it has any, are the same in a CertificateRequest; in a
	// CertificateSigningRequest they do not count.
	KeyUsage    x509.KeyUsage
	ExtKeyUsage []x509.ExtKeyUsage
}

// Usages returns KeyUsage and ExtKeyUsage by the names that the API has for
// them, such as "digital signature" and "server auth".
func (r *Request) Usages() []string { return r.usages().Names() }

func (r *Request) usages() pki.Usages { return pki.Usages{Key: r.KeyUsage, Extended: r.ExtKeyUsage} }

// Template describes the certificate that is asked for, for
// [x509.CreateCertificate] with parent as the certificate of the CA that signs.
// It has the subject, the alternative names and the name constraints of the CSR,
// to the byte, what the other fields say, and a random serial number. It begins
// now and ends with parent at the latest. An error is Permanent if there can be
// no such certificate, and NotReady if parent is not valid now.
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
	return template, nil
}

// accept makes what Sign has returned what goes into a status.
func (r *Request) accept(bundle []byte) (*pki.Chain, error) {
	certs, err := pki.ParseCertificates(bundle)
	if err != nil {
		return nil, fmt.Errorf("reading the certificates: %w", err)
	}
	chain, err := pki.AcceptChain(certs, pki.Wanted{Key: r.CSR.PublicKey, CA: r.IsCA}, time.Time{})
	switch {
	case errors.Is(err, pki.ErrOtherKey):
		return nil, errors.New("the certificate is for another key than that of the request")
	case errors.Is(err, pki.ErrUnwantedCA):
		return nil, errors.New("the certificate is that of a CA, and none was asked for")
	}
	return chain, err
}

// newRequest returns what is in a request, or the outcome if it asks for what
// cannot be.
func newRequest(from request.Request, usual, limit time.Duration) (*Request, *answer.Outcome) {
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

// setDuration keeps a wish, which is nil if there is none, to a controller's
// limits. A limit of zero is none.
func (r *Request) setDuration(wish *time.Duration, usual, limit time.Duration) error {
	r.Duration = usual
	if wish != nil {
		r.Duration = *wish
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
