package pki

import (
	"bytes"
	"crypto/x509"
	"sync"
)

// recent keeps the values of the last encodings, up to a number of them. It is safe for
// concurrent use.
type recent[T any] struct {
	mu    sync.Mutex // guards the fields below
	byDER map[string]T
	// order has the keys, the oldest at next.
	order []string
	next  int
}

func newRecent[T any](number int) *recent[T] {
	return &recent[T]{byDER: map[string]T{}, order: make([]string, number)}
}

// maxKept is the size of the largest encoding whose value is kept, in bytes: larger ones are
// rare, and would take memory.
const maxKept = 4 << 10

func (r *recent[T]) find(der []byte) (value T, found bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	value, found = r.byDER[string(der)]
	return value, found
}

func (r *recent[T]) keep(der []byte, value T) {
	if len(der) > maxKept {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.byDER[string(der)]; known {
		return
	}
	key := string(der)
	delete(r.byDER, r.order[r.next])
	r.byDER[key], r.order[r.next] = value, key
	r.next = (r.next + 1) % len(r.order)
}

// parsedLast keeps the requests that were parsed last: on its way to a certificate, each is
// parsed by the checks of its object, by policies, by approvers and by its signer.
var parsedLast = newRecent[*Request](512)

// parseRequest returns the request if der has been parsed before, or else parses it. The
// result does not change if der is modified later.
func parseRequest(der []byte, parse func([]byte) (*Request, error)) (*Request, error) {
	if kept, found := parsedLast.find(der); found {
		return kept, nil
	}
	r, err := parse(bytes.Clone(der))
	if err == nil {
		parsedLast.keep(r.Raw, r)
	}
	return r, err
}

// signedLast keeps the certificates that this process signed last: until one is stored in its
// request, the API server reads it to validate, to count and to record it.
var signedLast = newRecent[*x509.Certificate](128)

// parseCertificates parses the certificates of a PEM block. They must not be modified.
func parseCertificates(der []byte) ([]*x509.Certificate, error) {
	if kept, found := signedLast.find(der); found {
		return []*x509.Certificate{kept}, nil
	}
	return x509.ParseCertificates(der)
}
