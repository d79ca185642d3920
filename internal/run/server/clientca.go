package server

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
	"github.com/certplane/certplane/internal/process/atomicfile"
	"github.com/certplane/certplane/internal/store/datadir"
)

const (
	// issuingLifetime is how long the issuing CA lives: long enough that the
	// root's key is needed only every few years.
	issuingLifetime = 5 * 365 * 24 * time.Hour
	// renewIssuingBefore is how long before its end the issuing CA is renewed. No
	// certificate outlives it, so this is more than what signers issue for.
	renewIssuingBefore = 400 * 24 * time.Hour
	// remindEvery is the interval of log messages about the root's key while it is needed.
	remindEvery = 24 * time.Hour

	// clientRootName is the name of the CA that signs the issuing CA, and issuingUse the
	// issuing CA's purpose.
	clientRootName = "certplane client root CA"
	issuingUse     = "issuing CA of client certificates"
)

// clientCARules set when the issuing CA is renewed: by its root, without another CA.
var clientCARules = rotation.Rules{RotateBefore: renewIssuingBefore, KeepsKey: true}

// clientCA is the CA of client certificates and of the signers without their own CA. Client
// certificates come from an issuing CA. The server trusts the root above it, whose key is
// needed only for the first start and for renewals and can be stored elsewhere otherwise.
type clientCA struct {
	issuing   keyPair
	authority *pki.Authority // of issuing
	// trusted is the file with the certificates that the server trusts.
	trusted string
	// rooted reports that there is a root, so that issuing can be renewed. Without
	// it, issuing is trusted itself: older servers made such a CA, and operators
	// put theirs in its place.
	rooted bool

	reminded time.Time // of the root's key
}

// openClientCA reads the CAs in dir and makes those that do not exist. Files
// are written in an order in which those that exist after an interruption are
// complete: root key, root, issuing key, issuing CA.
func openClientCA(by signingFor, dir string, now time.Time) (clientCA, error) {
	pair, err := readKeyPair(dir, datadir.ClientCA)
	if errors.Is(err, fs.ErrNotExist) {
		pair, err = makeIssuing(by, dir, now)
	}
	if err != nil {
		return clientCA{}, err
	}
	authority, err := pki.NewAuthority(pair.chain, pair.key)
	if err != nil {
		return clientCA{}, fmt.Errorf("reading %s: %w", pair.certFile, err)
	}
	ca := clientCA{issuing: pair, authority: authority, trusted: pair.certFile}
	return ca.underRoot(dir)
}

func makeIssuing(by signingFor, dir string, now time.Time) (keyPair, error) {
	_, root, err := openRoot(by, dir, datadir.ClientRootCA, clientRootName, now)
	if err != nil {
		return keyPair{}, fmt.Errorf("making the client CA: %w", err)
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		return keyPair{}, err
	}
	issuing, err := root.NewIntermediate(by(clientRootName, issuingUse), "certplane client CA", key, issuingLifetime, now)
	if err != nil {
		return keyPair{}, err
	}
	return writeKeyPair(dir, datadir.ClientCA, withRoot(issuing, root), key)
}

// withRoot returns the content of the issuing CA's file. It includes the root, so that
// readers of the file see which certificate relying parties must trust.
func withRoot(issuing, root *pki.Authority) []*x509.Certificate {
	return []*x509.Certificate{issuing.Certificate(), root.Certificate()}
}

// underRoot looks for the root. An existing root must fit: certificates that
// the server does not trust must not be issued.
func (c clientCA) underRoot(dir string) (clientCA, error) {
	file, _ := pairFiles(dir, datadir.ClientRootCA)
	roots, err := readRoots(file)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return clientCA{}, err
	}
	if !slices.ContainsFunc(roots, c.issuedBy) {
		return clientCA{}, fmt.Errorf("%s has not issued %s: restore the one that has, or remove %s and its key to have another issued",
			file, c.issuing.certFile, c.issuing.certFile)
	}
	c.trusted, c.rooted = file, true
	return c, nil
}

func (c clientCA) issuedBy(root *x509.Certificate) bool {
	return c.authority.Certificate().CheckSignatureFrom(root) == nil
}

// renewed returns the CA, after renewing it if that is needed and if the root's key is in
// dir. The CA keeps its key and its name: issued certificates stay valid, and only one file
// is written.
func (c clientCA) renewed(by signingFor, dir string, now time.Time) (clientCA, error) {
	cert := c.authority.Certificate()
	if step, _ := clientCARules.Next(rotation.State{Current: cert}, rotation.Publication{}, now); !c.rooted || step == rotation.Wait {
		return c, nil
	}
	root, err := readRoot(dir)
	if err != nil {
		return c.remind(err, now)
	}
	if !rotation.Renews(root.Certificate(), cert) {
		return c, nil
	}
	issuing, err := root.NewIntermediate(by(clientRootName, issuingUse), cert.Subject.CommonName, c.issuing.key, issuingLifetime, now)
	if err != nil {
		return c, err
	}
	return c.replaced(issuing, withRoot(issuing, root))
}

// readRoot reads the root and its key. More roots can follow it in its file; the server also
// trusts them.
func readRoot(dir string) (*pki.Authority, error) {
	pair, err := readKeyPair(dir, datadir.ClientRootCA)
	if err != nil {
		return nil, err
	}
	root, err := pki.NewAuthority(pair.chain[:1], pair.key)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", pair.certFile, err)
	}
	return root, nil
}

// remind logs that the root is needed. It returns an error once the issuing CA
// has ended.
func (c clientCA) remind(problem error, now time.Time) (clientCA, error) {
	end := c.authority.Validity().NotAfter
	if !now.Before(end) {
		return c, fmt.Errorf("%s ended on %s and cannot be renewed: %w", c.issuing.certFile, end.Format(time.RFC3339), problem)
	}
	if now.Sub(c.reminded) >= remindEvery {
		c.reminded = now
		klog.InfoS("The client CA needs the key of its root for its renewal: put it there for a while. Until then certificates end with the CA",
			"certificate", c.issuing.certFile, "notAfter", end, "problem", problem.Error())
	}
	return c, nil
}

func (c clientCA) replaced(issuing *pki.Authority, chain []*x509.Certificate) (clientCA, error) {
	c.authority = issuing
	c.issuing.chain = chain
	c.issuing.certPEM = pki.EncodeCertificates(c.issuing.chain...)
	if err := atomicfile.Write(c.issuing.certFile, c.issuing.certPEM, 0o644); err != nil {
		return c, fmt.Errorf("renewing the client CA: %w", err)
	}
	klog.InfoS("Renewed the client CA", "certificate", c.issuing.certFile, "notAfter", issuing.Validity().NotAfter)
	return c, nil
}

// isLaterThan reports whether another server's CA is older, or cannot be read.
func (c clientCA) isLaterThan(chainPEM []byte) bool {
	chain, err := pki.ParseBundle(chainPEM)
	return err != nil || c.authority.Validity().NotBefore.After(chain[0].NotBefore)
}

// replacedBy returns the CA with the certificate that another server has obtained for it, if
// that is later. It must be for the same key and name, from a root that this server trusts:
// a client that can write to the store must not be able to choose a CA.
func (c clientCA) replacedBy(chainPEM []byte) (clientCA, error) {
	chain, err := pki.ParseBundle(chainPEM)
	if err != nil || !rotation.IsRenewed(chain[0], c.authority.Certificate()) {
		return c, nil // nothing, or another CA, which this server's operator has not chosen
	}
	later, err := pki.NewAuthority(chain, c.issuing.key)
	if err != nil {
		return c, fmt.Errorf("taking the client CA that another server has renewed: %w", err)
	}
	roots, err := readRoots(c.trusted)
	if err != nil {
		return c, err
	}
	if !slices.ContainsFunc(roots, (clientCA{authority: later}).issuedBy) {
		return c, fmt.Errorf("taking the client CA that another server has renewed: %s has not issued it: bring the keys from that server with 'certplane pki export' and 'certplane pki import'", c.trusted)
	}
	return c.replaced(later, chain)
}

// readRoots reads the certificates that the server trusts.
func readRoots(file string) ([]*x509.Certificate, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the client root CA: %w", err)
	}
	roots, err := pki.ParseBundle(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return roots, nil
}
