package acmecert

import (
	"cmp"
	"crypto"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rotation"
)

// Keys in the Secret. The server's own CA uses further keys.
const (
	certKey, keyKey, rootsKey = "tls.crt", "tls.key", "ca.crt"
	// sourceKey holds the source that issued the certificate.
	sourceKey = "source"
	// nextKey holds the private key for which a certificate is requested.
	nextKey = "next.key"
)

// state is the content of the Secret.
type state struct {
	source string
	chain  []*x509.Certificate // empty if there is none
	key    crypto.Signer
	roots  []*x509.Certificate // empty if they are not known
	next   crypto.Signer       // nil if nothing is requested
	former former
}

// parse reads the data of a Secret. Errors name the invalid key, but do not contain its
// value.
func parse(data map[string][]byte) (state, error) {
	s := state{source: string(data[sourceKey])}
	var err error
	if s.former, err = parseFormer(data); err != nil {
		return state{}, err
	}
	if len(data[nextKey]) > 0 {
		if s.next, err = pki.ParsePrivateKey(data[nextKey]); err != nil {
			return state{}, fmt.Errorf("%s: %w", nextKey, err)
		}
	}
	if len(data[certKey]) == 0 {
		return s, nil
	}
	if s.chain, err = pki.ParseCertificates(data[certKey]); err != nil {
		return state{}, fmt.Errorf("%s: %w", certKey, err)
	}
	if s.key, err = pki.ParsePrivateKey(data[keyKey]); err != nil {
		return state{}, fmt.Errorf("%s: %w", keyKey, err)
	}
	if len(s.chain) == 0 || !pki.SameKey(s.key.Public(), s.chain[0].PublicKey) {
		return state{}, fmt.Errorf("%s: the key does not belong to %s", keyKey, certKey)
	}
	if len(data[rootsKey]) == 0 {
		return s, nil
	}
	if s.roots, err = pki.ParseCertificates(data[rootsKey]); err != nil {
		return state{}, fmt.Errorf("%s: %w", rootsKey, err)
	}
	return s, nil
}

// data returns the state as the data of a Secret.
func (s state) data() (map[string][]byte, error) {
	data := map[string][]byte{sourceKey: []byte(s.source)}
	s.former.put(data)
	var err error
	if s.next != nil {
		if data[nextKey], err = pki.EncodePrivateKey(s.next); err != nil {
			return nil, err
		}
	}
	if len(s.chain) == 0 {
		return data, nil
	}
	data[certKey] = pki.EncodeCertificates(s.chain...)
	if len(s.roots) > 0 {
		data[rootsKey] = pki.EncodeCertificates(s.roots...)
	}
	data[keyKey], err = pki.EncodePrivateKey(s.key)
	return data, err
}

// maxEarly is the longest time before its expiry at which a certificate is renewed.
const maxEarly = 30 * 24 * time.Hour

// renewal returns the time of the certificate's renewal: after two thirds of its lifetime,
// or at once if it lacks a name.
func (s state) renewal(hosts []string) time.Time {
	if len(s.chain) == 0 {
		return time.Time{}
	}
	leaf := s.chain[0]
	if slices.ContainsFunc(hosts, func(host string) bool { return leaf.VerifyHostname(host) != nil }) {
		return time.Time{}
	}
	return rotation.Renewal(leaf, maxEarly)
}

// provers returns roots sorted so that roots which verify the chain come first. It returns
// nil if no root does: clients with only these roots would not trust the server.
func provers(chain, roots []*x509.Certificate, now time.Time) []*x509.Certificate {
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	rank := map[*x509.Certificate]int{}
	for _, root := range roots {
		pool := x509.NewCertPool()
		pool.AddCert(root)
		if _, err := chain[0].Verify(x509.VerifyOptions{Roots: pool, Intermediates: between, CurrentTime: now}); err != nil {
			rank[root] = 1
		}
	}
	if len(rank) == len(roots) {
		return nil
	}
	ordered := slices.Clone(roots)
	slices.SortStableFunc(ordered, func(a, b *x509.Certificate) int { return cmp.Compare(rank[a], rank[b]) })
	return ordered
}
