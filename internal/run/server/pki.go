package server

import (
	"cmp"
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

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/store/datadir"
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
	// recordOwn records the certificates that the server makes for itself.
	recordOwn pki.Recorder
	// revoked are the known revocations; nil until the store is open.
	revoked *revocation.Index
	// serviceAccountKey signs the tokens of service accounts.
	serviceAccountKey crypto.Signer
}

// signingFor returns how to sign and record a certificate of one of the server's
// own CAs.
type signingFor func(signer, use string) pki.Signing

// The purposes of certificates, as recorded in the inventory.
const (
	rootUse    = "root CA"
	servingUse = "serving certificate"
	adminUse   = "admin certificate"

	acmeServingUse = "acme-server certificate"
)

// ownCertificate is a certificate of the server, and why it was signed.
type ownCertificate struct {
	cert *x509.Certificate
	why  pki.Purpose
}

// held returns the certificates of the server that the inventory has to know.
func (c *credentials) held() []ownCertificate {
	var held []ownCertificate
	add := func(use string, certs ...*x509.Certificate) {
		for _, cert := range certs {
			held = append(held, ownCertificate{cert, pki.Purpose{Signer: cmp.Or(cert.Issuer.CommonName, cert.Issuer.String()), Use: use}})
		}
	}
	add(rootUse, c.servingCA.chain[:1]...)
	add(servingUse, c.serving.chain[:1]...)
	add(adminUse, c.admin.chain[:1]...)
	if issuing := c.clientCA.issuing.chain; c.clientCA.rooted {
		add(issuingUse, issuing[:1]...)
		add(rootUse, issuing[1:]...)
	} else {
		add(rootUse, issuing[:1]...)
	}
	return held
}

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
	serving, err := leaf{"serving", servingUse, servingSubject(names), pki.ServerUsages(), c.servingRoot}.open(c, dir, now)
	if err != nil {
		return nil, err
	}
	clientCA, err := c.clientCA.renewed(c.signingFor, dir, now)
	if err != nil {
		return nil, err
	}
	admin, err := leaf{"admin", adminUse, adminSubject(), pki.ClientUsages(), clientCA.authority}.open(c, dir, now)
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

// servingSubject lists each of names once.
func servingSubject(names []string) pki.Subject {
	var distinct []string
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			name = ip.String()
		}
		if !slices.Contains(distinct, name) {
			distinct = append(distinct, name)
		}
	}
	return rotation.HostSubject("certplane", distinct)
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
	root, err := pki.NewRoot(by(commonName, rootUse), commonName, key, pki.DefaultRootLifetime, now)
	if err != nil {
		return keyPair{}, nil, err
	}
	pair, err := writeKeyPair(dir, name, []*x509.Certificate{root.Certificate()}, key)
	return pair, root, err
}

// leaf is a certificate of the server itself.
type leaf struct {
	name, use string
	subject   pki.Subject
	usages    pki.Usages
	ca        *pki.Authority
}

// isRevoked reports whether a certificate is known to be revoked.
func (c *credentials) isRevoked(cert *x509.Certificate) bool {
	if c.revoked == nil {
		return false
	}
	_, is := c.revoked.Find(cert)
	return is
}

// open reads the certificate. It makes a new one if it does not exist, is about to
// expire, is revoked, or was made for other names or by another CA.
func (l leaf) open(c *credentials, dir string, now time.Time) (keyPair, error) {
	wanted := rotation.Leaf{Subject: l.subject, Usages: l.usages, Lifetime: leafLifetime, RenewBefore: renewBefore}
	pair, err := readKeyPair(dir, l.name)
	if err == nil && pair.matches() && hasSubject(pair.chain[0], l.subject) && wanted.Lasts(pair.chain[0], l.ca.Certificate(), now) && !c.isRevoked(pair.chain[0]) {
		return pair, nil
	}
	// A leaf whose key is lost is replaced: its CA issues another.
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errKeyMissing) {
		return keyPair{}, err
	}
	chain, key, err := wanted.Issue(c.signingFor(l.ca.Certificate().Subject.CommonName, l.use), l.ca, now)
	if err != nil {
		return keyPair{}, fmt.Errorf("issuing the %s: %w", l.use, err)
	}
	return writeKeyPair(dir, l.name, chain, key)
}

func hasSubject(cert *x509.Certificate, subject pki.Subject) bool {
	return cert.Subject.CommonName == subject.CommonName &&
		slices.Equal(cert.Subject.Organization, subject.Organizations) &&
		slices.Equal(cert.DNSNames, subject.DNSNames) &&
		slices.EqualFunc(cert.IPAddresses, subject.IPAddresses, net.IP.Equal)
}
