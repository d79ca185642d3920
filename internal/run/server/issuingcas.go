package server

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

// issuingCAs are the present and former CAs of the signers of the API's clients. The server
// accepts client certificates of exactly these CAs, not of other CAs below the same root. It
// keeps the CAs in a file, so that a certificate stays valid to its end even after its
// signer's CA was replaced. It is safe for concurrent use.
type issuingCAs struct {
	file string

	mu        sync.Mutex // guards all below
	certs     []*x509.Certificate
	content   []byte
	options   x509.VerifyOptions
	listeners []dynamiccertificates.Listener
}

var _ dynamiccertificates.CAContentProvider = &issuingCAs{}

// openIssuingCAs reads the CAs in file, without those that have ended.
func openIssuingCAs(file string, now time.Time) (*issuingCAs, error) {
	cas := &issuingCAs{file: file}
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return cas, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the CAs of client certificates: %w", err)
	}
	certs, err := pki.ParseBundle(data)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w: correct it, or remove it if no client has a certificate of a former CA", file, err)
	}
	cas.use(slices.DeleteFunc(certs, func(ca *x509.Certificate) bool { return now.After(ca.NotAfter) }))
	return cas, nil
}

// honour adds the CA with which a signer of clients signs from now on.
func (c *issuingCAs) honour(ca *pki.Authority) {
	cert := ca.Certificate()
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.certs, cert.Equal) {
		return
	}
	c.use(append(slices.Clip(c.certs), cert))
	if err := atomicfile.Write(c.file, c.content, 0o644); err != nil {
		klog.ErrorS(err, "Cannot remember a CA of client certificates: name it in authentication.clientCAFile before another replaces it",
			"subject", cert.Subject.String(), "sha256", pki.Fingerprint(cert))
	}
	klog.V(1).InfoS("Accepting the client certificates of a CA that signs for the API's clients", "subject", cert.Subject.String(), "sha256", pki.Fingerprint(cert))
	for _, listener := range c.listeners {
		listener.Enqueue()
	}
}

// use must be called with mu held, or with the only reference.
func (c *issuingCAs) use(certs []*x509.Certificate) {
	c.certs, c.content = certs, pki.EncodeCertificates(certs...)
	c.options = x509.VerifyOptions{Roots: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	for _, cert := range certs {
		c.options.Roots.AddCert(cert)
	}
}

// Name implements dynamiccertificates.CAContentProvider.
func (c *issuingCAs) Name() string { return "client-signers" }

// CurrentCABundleContent implements dynamiccertificates.CAContentProvider.
func (c *issuingCAs) CurrentCABundleContent() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.content
}

// VerifyOptions implements dynamiccertificates.CAContentProvider.
func (c *issuingCAs) VerifyOptions() (x509.VerifyOptions, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.options, len(c.certs) > 0
}

// AddListener implements dynamiccertificates.Notifier.
func (c *issuingCAs) AddListener(listener dynamiccertificates.Listener) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners = append(c.listeners, listener)
}

// honoured returns the current CAs of client certificates. They are parsed when
// they have changed.
func honoured(cas dynamiccertificates.CAContentProvider) signer.Honoured {
	var (
		mu     sync.Mutex // guards both below
		seen   []byte
		parsed []*x509.Certificate
	)
	return func() []*x509.Certificate {
		content := cas.CurrentCABundleContent()
		mu.Lock()
		defer mu.Unlock()
		if bytes.Equal(content, seen) {
			return parsed
		}
		// The provider accepts nothing that cannot be parsed.
		if certs, err := pki.ParseBundle(content); err == nil {
			seen, parsed = content, certs
		}
		return parsed
	}
}
