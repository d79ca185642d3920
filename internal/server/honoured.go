package server

import (
	"bytes"
	"crypto/x509"
	"sync"

	"k8s.io/apiserver/pkg/server/dynamiccertificates"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/signer"
)

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
