package pki

import (
	"crypto"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"slices"
	"time"
)

// Wanted has the requirements for certificates from other signers.
type Wanted struct {
	// Key is the public key of the certificate.
	Key crypto.PublicKey
	// CA is set if the certificate may be a CA certificate.
	CA bool
	// Usages are the permitted usages; nil leaves them to the signer.
	Usages *Usages
	// Names has the subject and the alternative names that the certificate must
	// have; nil leaves them to the signer.
	Names *x509.CertificateRequest
	// Life is how long the certificate may be valid from now; nil leaves all times
	// to the signer.
	Life *time.Duration
}

const (
	// signerSkew is the permitted difference between the signer's clock and
	// ours.
	signerSkew = 5 * time.Minute
	// maxBackdate is how long before now a certificate may begin, on top of its
	// lifetime: CAs do that for verifiers whose clocks are slow.
	maxBackdate = time.Hour
)

// The errors of a certificate that cannot be used for the request at all.
var (
	ErrOtherKey   = errors.New("is for another key than the request")
	ErrUnwantedCA = errors.New("it is a CA certificate, which was not requested")
)

// AcceptPath checks certificates in the order in which they are presented, each
// issued by the next, and returns them without the root.
func AcceptPath(certs []*x509.Certificate, w Wanted, now time.Time) ([]*x509.Certificate, error) {
	if len(certs) > 0 && !SameKey(certs[0].PublicKey, w.Key) {
		return nil, fmt.Errorf("certificate %w", ErrOtherKey)
	}
	path, err := Path(certs)
	if err != nil {
		return nil, fmt.Errorf("checking the chain: %w", err)
	}
	if err := w.check(path, now); err != nil {
		return nil, fmt.Errorf("checking the certificate: %w", err)
	}
	return path, nil
}

// AcceptChain checks certificates in any order, which must form one chain.
func AcceptChain(certs []*x509.Certificate, w Wanted, now time.Time) (*Chain, error) {
	chain, err := BuildChain(certs)
	if err != nil {
		return nil, err
	}
	if !SameKey(chain.Certificates[0].PublicKey, w.Key) {
		return nil, fmt.Errorf("certificate %w", ErrOtherKey)
	}
	if err := w.check(chain.Certificates, now); err != nil {
		return nil, fmt.Errorf("checking the certificate: %w", err)
	}
	return chain, nil
}

func (w Wanted) check(path []*x509.Certificate, now time.Time) error {
	for _, rule := range []func(Wanted, []*x509.Certificate, time.Time) error{
		Wanted.checkCA, Wanted.checkValidity, Wanted.checkUsages, Wanted.checkIssuers, Wanted.checkNames,
	} {
		if err := rule(w, path, now); err != nil {
			return err
		}
	}
	return nil
}

// checkCA refuses a CA certificate that was not requested: a requester without
// approval to sign certificates must not be able to.
func (w Wanted) checkCA(path []*x509.Certificate, _ time.Time) error {
	if path[0].IsCA && !w.CA {
		return ErrUnwantedCA
	}
	return nil
}

func (w Wanted) checkValidity(path []*x509.Certificate, now time.Time) error {
	cert := path[0]
	switch ahead, whole := cert.NotAfter.Sub(now), cert.NotAfter.Sub(cert.NotBefore); {
	case w.Life == nil:
		return nil
	case ahead <= 0:
		return errors.New("it has expired")
	case cert.NotBefore.After(now.Add(signerSkew)):
		return errors.New("it is not valid yet")
	case ahead > *w.Life+signerSkew || whole > *w.Life+maxBackdate:
		return fmt.Errorf("it is valid for %v, longer than %v", whole, *w.Life)
	}
	return nil
}

func (w Wanted) checkUsages(path []*x509.Certificate, _ time.Time) error {
	if w.Usages == nil {
		return nil
	}
	return WithinUsages(path[0], *w.Usages)
}

func (w Wanted) checkIssuers(path []*x509.Certificate, now time.Time) error {
	for _, issuer := range path[1:] {
		if w.Life != nil && (now.After(issuer.NotAfter) || now.Before(issuer.NotBefore.Add(-signerSkew))) {
			return fmt.Errorf("the CA %q that comes with it is not valid now", issuer.Subject)
		}
	}
	return nil
}

func (w Wanted) checkNames(path []*x509.Certificate, _ time.Time) error {
	cert, req := path[0], w.Names
	switch {
	case req == nil:
		return nil
	case !slices.EqualFunc(cert.Subject.Names, req.Subject.Names, sameAttribute):
		return errors.New("its subject differs from the request's")
	case !slices.Equal(
		altNames(cert.DNSNames, cert.EmailAddresses, cert.IPAddresses, cert.URIs),
		altNames(req.DNSNames, req.EmailAddresses, req.IPAddresses, req.URIs)):
		return errors.New("its alternative names differ from the request's")
	}
	return nil
}

// sameAttribute ignores the ASN.1 string type of a value.
func sameAttribute(a, b pkix.AttributeTypeAndValue) bool {
	return a.Type.Equal(b.Type) && reflect.DeepEqual(a.Value, b.Value)
}

// altNames returns subject alternative names in a canonical order.
func altNames(dns, emails []string, ips []net.IP, uris []*url.URL) []string {
	var all []string
	for _, name := range dns {
		all = append(all, "DNS:"+name)
	}
	for _, email := range emails {
		all = append(all, "email:"+email)
	}
	for _, ip := range ips {
		all = append(all, "IP:"+ip.String())
	}
	for _, uri := range uris {
		all = append(all, "URI:"+uri.String())
	}
	slices.Sort(all)
	return all
}
