package main

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/examples/external-issuer/api/v1alpha1"
	"github.com/certplane/certplane/issuer"
)

// signer signs with CAs in Secrets.
type signer struct {
	secrets          client.Reader
	clusterNamespace string
}

// check reports whether an issuer has its CA.
func (s signer) check(ctx context.Context, i issuer.Issuer) error {
	_, err := s.open(ctx, i)
	return err
}

// sign answers a request that has been approved.
func (s signer) sign(ctx context.Context, request *issuer.Request) ([]byte, error) {
	if err := checkNames(request.CSR, specOf(request.Issuer).Domains); err != nil {
		return nil, issuer.Permanent(err)
	}
	ca, err := s.open(ctx, request.Issuer)
	if err != nil {
		// The fault is not in this request: all others would fail as well.
		return nil, issuer.NotReady(err)
	}
	template, err := request.Template(ca.certificate(), time.Now())
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.certificate(), request.CSR.PublicKey, ca.key)
	if err != nil {
		return nil, fmt.Errorf("signing: %w", err)
	}
	return ca.with(der), nil
}

// specOf returns the spec, which both kinds have in common.
func specOf(i issuer.Issuer) v1alpha1.IssuerSpec {
	switch i := i.(type) {
	case *v1alpha1.SampleIssuer:
		return i.Spec
	case *v1alpha1.SampleClusterIssuer:
		return i.Spec
	default:
		panic(fmt.Sprintf("%T is not one of the kinds in main", i))
	}
}

// checkNames is the policy of this issuer: it checks that all names are in the
// permitted domains. Other kinds of names need an issuer without domains.
func checkNames(csr *x509.CertificateRequest, domains []string) error {
	if len(domains) == 0 {
		return nil
	}
	if len(csr.IPAddresses)+len(csr.EmailAddresses)+len(csr.URIs) > 0 {
		return errors.New("this issuer certifies DNS names only")
	}
	names := csr.DNSNames
	if csr.Subject.CommonName != "" {
		names = append(slices.Clone(names), csr.Subject.CommonName)
	}
	for _, name := range names {
		if !slices.ContainsFunc(domains, func(domain string) bool { return name == domain || strings.HasSuffix(name, "."+domain) }) {
			return fmt.Errorf("the name %s is not under %s", name, strings.Join(domains, " or "))
		}
	}
	return nil
}

// ca signs certificates.
type ca struct {
	chain []*x509.Certificate // the issuing CA first
	key   crypto.PrivateKey
}

func (c ca) certificate() *x509.Certificate { return c.chain[0] }

// with returns a certificate with its chain in PEM.
func (c ca) with(der []byte) []byte {
	out := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for _, cert := range c.chain {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return out
}

// open reads the CA of an issuer. Every client that may read the issuer's
// requests can read the errors: they show nothing of the Secret's content.
func (s signer) open(ctx context.Context, i issuer.Issuer) (ca, error) {
	name := types.NamespacedName{Namespace: i.GetNamespace(), Name: specOf(i).SecretName}
	if name.Namespace == "" {
		name.Namespace = s.clusterNamespace
	}
	secret := &corev1.Secret{}
	if err := s.secrets.Get(ctx, name, secret); err != nil {
		return ca{}, fmt.Errorf("reading the CA: %w", err)
	}
	pair, err := tls.X509KeyPair(secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return ca{}, fmt.Errorf("the CA in secret %s cannot be used: %w", name, err)
	}
	opened := ca{key: pair.PrivateKey}
	for _, der := range pair.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return ca{}, fmt.Errorf("the CA in secret %s cannot be used: %w", name, err)
		}
		opened.chain = append(opened.chain, cert)
	}
	if now := time.Now(); !opened.certificate().IsCA || now.After(opened.certificate().NotAfter) {
		return ca{}, fmt.Errorf("the certificate in secret %s is not a CA, or has expired", name)
	}
	return opened, nil
}
