package crl

import (
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/revocation"
)

const (
	fetchTimeout = time.Minute
	// maxSize limits what is read, in bytes. A list of a million certificates has 50 MB.
	maxSize = 128 << 20
)

// Fetch returns the lists at a URL, with http or https. The URL can be anybody's: only the
// signature of a list says whose it is.
func Fetch(ctx context.Context, url string) ([]*x509.RevocationList, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("reading a revocation list: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading a revocation list: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading a revocation list: %s answers %s", url, print.Printable(response.Status))
	}
	return Read(response.Body, url)
}

// Read returns the lists in a file, in PEM or DER.
func Read(from io.Reader, name string) ([]*x509.RevocationList, error) {
	data, err := io.ReadAll(io.LimitReader(from, maxSize+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, err)
	case len(data) > maxSize:
		return nil, fmt.Errorf("reading %s: it is larger than %d MiB", name, maxSize>>20)
	}
	lists, err := revocation.ParseLists(data)
	if err != nil {
		return nil, fmt.Errorf("%s has %w", name, err)
	}
	return lists, nil
}
