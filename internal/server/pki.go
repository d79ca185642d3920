package server

import (
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/internal/datadir"
	"github.com/certplane/certplane/internal/pki"
)

const (
	// leafLifetime is how long the server's and the admin's certificates live.
	leafLifetime = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = 30 * 24 * time.Hour
)

// credentials are the certificates and keys of a standalone server. They are
// made on first start and kept.
type credentials struct {
	// servingCA signs serving: clients trust it.
	servingCA, serving keyPair
	// servingRoot issues for servingCA.
	servingRoot *pki.Authority
	// clientCA signs admin and other client certificates.
	clientCA clientCA
	admin    keyPair
	signingFor
	// serviceAccountKey signs the tokens of service accounts.
	serviceAccountKey crypto.Signer
}

// signingFor returns how to sign and record a certificate of one of the server's
// own CAs.
type signingFor func(signer, use string) pki.Signing

// openPKI reads the credentials in dir and makes those that do not exist, are
// about to expire or do not fit the server's names any more.
func openPKI(by signingFor, dir string, names []string, now time.Time) (*credentials, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the PKI folder: %w", err)
	}
	servingCA, servingRoot, err := openRoot(by, dir, datadir.ServingCA, "certplane serving CA", now)
	if err != nil {
		return nil, err
	}
	clientCA, err := openClientCA(by, dir, now)
	if err != nil {
		return nil, err
	}
	serviceAccountKey, err := openKey(filepath.Join(dir, datadir.ServiceAccountKey))
	if err != nil {
		return nil, err
	}
	made := &credentials{
		servingCA: servingCA, servingRoot: servingRoot,
		clientCA:          clientCA,
		signingFor:        by,
		serviceAccountKey: serviceAccountKey,
	}
	return made.renewed(dir, names, now)
}

// renewed returns the same credentials with certificates that are valid at now
// and for names.
func (c *credentials) renewed(dir string, names []string, now time.Time) (*credentials, error) {
	server := leaf{name: "serving", signer: "certplane serving CA", subject: servingSubject(names), usages: pki.ServerUsages()}
	serving, err := server.open(c.signingFor, dir, c.servingRoot, now)
	if err != nil {
		return nil, err
	}
	clientCA, err := c.clientCA.renewed(c.signingFor, dir, now)
	if err != nil {
		return nil, err
	}
	administrator := leaf{name: "admin", signer: "certplane client CA", subject: adminSubject(), usages: pki.ClientUsages()}
	admin, err := administrator.open(c.signingFor, dir, clientCA.authority, now)
	if err != nil {
		return nil, err
	}
	renewed := *c
	renewed.serving, renewed.clientCA, renewed.admin = serving, clientCA, admin
	return &renewed, nil
}

func adminSubject() pki.Subject {
	return pki.Subject{CommonName: "certplane:admin", Organizations: []string{user.SystemPrivilegedGroup}}
}

func servingSubject(names []string) pki.Subject {
	subject := pki.Subject{CommonName: "certplane"}
	seen := map[string]bool{}
	for _, name := range names {
		ip := net.ParseIP(name)
		if ip != nil {
			name = ip.String()
		}
		if seen[name] {
			continue
		}
		seen[name] = true
		if ip != nil {
			subject.IPAddresses = append(subject.IPAddresses, ip)
		} else {
			subject.DNSNames = append(subject.DNSNames, name)
		}
	}
	return subject
}

// openRoot reads or makes a self-signed CA.
func openRoot(by signingFor, dir, name, commonName string, now time.Time) (keyPair, *pki.Authority, error) {
	pair, err := readKeyPair(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return makeRoot(by, dir, name, commonName, now)
	}
	if err != nil {
		return keyPair{}, nil, err
	}
	root, err := pki.NewAuthority(pair.chain, pair.key)
	if err != nil {
		return keyPair{}, nil, fmt.Errorf("reading %s: %w", pair.certFile, err)
	}
	return pair, root, nil
}

func makeRoot(by signingFor, dir, name, commonName string, now time.Time) (keyPair, *pki.Authority, error) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return keyPair{}, nil, err
	}
	root, err := pki.NewRoot(by(commonName, "root CA"), commonName, key, pki.DefaultRootLifetime, now)
	if err != nil {
		return keyPair{}, nil, err
	}
	pair, err := writeKeyPair(dir, name, []*x509.Certificate{root.Certificate()}, key)
	return pair, root, err
}

// leaf is an end-entity certificate that the server makes for itself.
type leaf struct {
	name    string
	signer  string
	subject pki.Subject
	usages  pki.Usages
}

// open reads the certificate. It makes a new one if it does not exist, is about
// to expire, or was made for other names or by another CA.
func (l leaf) open(by signingFor, dir string, ca *pki.Authority, now time.Time) (keyPair, error) {
	pair, err := readKeyPair(dir, l.name)
	if err == nil && pair.matches() && l.fits(pair.chain[0], ca, now) {
		return pair, nil
	}
	// A leaf whose key is lost is replaced: its CA issues another.
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errKeyMissing) {
		return keyPair{}, err
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return keyPair{}, err
	}
	chain, err := ca.Issue(by(l.signer, l.name+" certificate"), l.subject, key.Public(), l.usages, leafLifetime, now)
	if err != nil {
		return keyPair{}, fmt.Errorf("issuing the %s certificate: %w", l.name, err)
	}
	return writeKeyPair(dir, l.name, chain, key)
}

func (l leaf) fits(cert *x509.Certificate, ca *pki.Authority, now time.Time) bool {
	return (now.Before(cert.NotAfter.Add(-renewBefore)) || endsWith(cert, ca, now)) &&
		cert.CheckSignatureFrom(ca.Certificate()) == nil &&
		cert.Subject.CommonName == l.subject.CommonName &&
		slices.Equal(cert.Subject.Organization, l.subject.Organizations) &&
		slices.Equal(cert.DNSNames, l.subject.DNSNames) &&
		slices.EqualFunc(cert.IPAddresses, l.subject.IPAddresses, net.IP.Equal)
}

// endsWith reports whether another certificate would end no later: this one is
// valid until its CA ends.
func endsWith(cert *x509.Certificate, ca *pki.Authority, now time.Time) bool {
	return now.Before(cert.NotAfter) && !cert.NotAfter.Before(ca.Validity().NotAfter)
}
