package main

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/certplane/certplane/api/signing/v1alpha1"
)

// backdate is for verifiers whose clocks are slow.
const backdate = time.Minute

// signer decides which certificates are issued, and issues them.
type signer struct {
	name   string // the name of this signer
	domain string // under which certificates are issued
	ca     authority
}

// authority is the CA. The key can be anywhere: it only has to sign a hash, so
// a cloud KMS or an HSM fits here.
type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func loadCA(certFile, keyFile string) (authority, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return authority{}, fmt.Errorf("reading the CA: %w", err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return authority{}, errors.New("reading the CA: the key cannot sign")
	}
	return authority{certificate: pair.Leaf, key: key}, nil
}

// answer signs valid requests, and returns the reason for the others. An error
// is about the signer: the same request may be repeated.
func (s signer) answer(request *v1alpha1.SigningRequest, now time.Time) (*v1alpha1.SigningResponse, error) {
	if request.SignerName != s.name {
		return request.Refused("WrongSigner", "this is not the signer "+request.SignerName), nil
	}
	block, _ := pem.Decode([]byte(request.Request))
	if block == nil {
		return request.Refused("InvalidRequest", "the request is not PEM"), nil
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = csr.CheckSignature()
	}
	if err != nil {
		return request.Refused("InvalidRequest", err.Error()), nil
	}
	if err := s.checkNames(csr); err != nil {
		return request.Refused("NameNotAllowed", err.Error()), nil
	}
	keyUsage, extended, err := usages(request.Usages)
	if err != nil {
		return request.Refused("UsageNotAllowed", err.Error()), nil
	}
	chain, err := s.ca.issue(&x509.Certificate{
		Subject:     csr.Subject,
		DNSNames:    csr.DNSNames,
		NotBefore:   now.Add(-backdate),
		NotAfter:    now.Add(time.Duration(request.MaxExpirationSeconds) * time.Second),
		KeyUsage:    keyUsage,
		ExtKeyUsage: extended,
	}, csr.PublicKey)
	if err != nil {
		return nil, err
	}
	return request.Issued(chain), nil
}

// checkNames is the policy: only DNS names of the domain.
func (s signer) checkNames(csr *x509.CertificateRequest) error {
	if len(csr.IPAddresses)+len(csr.EmailAddresses)+len(csr.URIs) > 0 {
		return errors.New("certificates are issued for DNS names only")
	}
	for _, name := range csr.DNSNames {
		if !strings.HasSuffix(strings.ToLower(name), "."+s.domain) {
			return fmt.Errorf("%s is not under %s", name, s.domain)
		}
	}
	return nil
}

// usages converts the Kubernetes names of usages.
func usages(names []string) (key x509.KeyUsage, extended []x509.ExtKeyUsage, err error) {
	for _, name := range names {
		switch name {
		case "digital signature":
			key |= x509.KeyUsageDigitalSignature
		case "key encipherment":
			key |= x509.KeyUsageKeyEncipherment
		case "server auth":
			extended = append(extended, x509.ExtKeyUsageServerAuth)
		case "client auth":
			extended = append(extended, x509.ExtKeyUsageClientAuth)
		default:
			return 0, nil, fmt.Errorf("this signer does not permit the usage %q", name)
		}
	}
	return key, extended, nil
}

// issue signs and returns the certificate in PEM. An intermediate CA would
// append its own certificate.
func (a authority) issue(template *x509.Certificate, key crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1)) // never 0
	template.BasicConstraintsValid = true                     // states "not a CA"
	if template.NotAfter.After(a.certificate.NotAfter) {
		template.NotAfter = a.certificate.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key, a.key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}
