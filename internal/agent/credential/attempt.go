package credential

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/backoff"
)

// NewRequest creates a key of a type that pods can ask for, and a request for it. The
// request contains no other fields: the API adds the requester.
func NewRequest(keyType string, purpose Purpose) (*Request, error) {
	key, err := newKey(keyType)
	if err != nil {
		return nil, err
	}
	csr, err := pki.NewStubRequest(key)
	if err != nil {
		return nil, err
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(csr)
	return &Request{For: purpose, Name: "req-" + hex.EncodeToString(digest[:10]), Key: keyPEM, CSR: csr}, nil
}

// WithRequest returns the record with a new request that is not sent yet.
func (r Record) WithRequest(request *Request) Record {
	r.Pending = request
	return r
}

// Sent returns the record after the server has accepted the pending request.
func (r Record) Sent(now time.Time, jitter backoff.Jitter) Record {
	r = r.copy()
	r.Pending.SentAt = now
	if r.Failure != nil && r.Failure.Kind == Unsent {
		r.Failure = nil // its cause is gone
	}
	r.Pending.AbandonAt = now.Add(abandonAfter + jitter(maxJitter))
	return r
}

// Unsent returns the record after sending has failed. The request is kept for
// the next attempt, unless the server will never accept it.
func (r Record) Unsent(err error, never bool, now time.Time, jitter backoff.Jitter) Record {
	r = r.copy()
	r.Failure = Failure{For: r.Pending.For, Kind: Unsent, Message: err.Error()}.following(r.Failure, now, jitter)
	if never {
		r.Pending = nil
	}
	return r
}

// Retry returns the record without its wait: the operator declares the cause of the failure
// resolved.
func (r Record) Retry(now time.Time) Record {
	r = r.copy()
	if r.Failure != nil {
		r.Failure.RetryAt = now
	}
	return r
}

// Revoked returns the record of a credential that was revoked: the next one is due now.
func (r Record) Revoked(now time.Time) Record {
	r = r.copy()
	if now.Before(r.Current.RefreshAt) {
		r.Current.RefreshAt = now
	}
	return r
}

var backoffs = map[FailureKind]backoff.Backoff{
	// The request was denied: a person or a policy has to change first.
	Denied:   {First: 5 * time.Minute, Most: time.Hour},
	Failed:   {First: 5 * time.Minute, Most: time.Hour},
	Unusable: {First: 5 * time.Minute, Most: time.Hour},
	// Each such request existed for a quarter of an hour. A signer that starts
	// should find a pending one.
	Unanswered: {First: 30 * time.Second, Most: 5 * time.Minute},
	// The server is away, or does not know the pod yet.
	Unsent: {First: time.Second, Most: time.Minute},
}

// following returns f as the failure that follows last.
func (f Failure) following(last *Failure, now time.Time, jitter backoff.Jitter) *Failure {
	f.At, f.Count = now, 1
	if last != nil && last.Kind == f.Kind {
		f.Count = last.Count + 1
	}
	wait := backoffs[f.Kind].After(f.Count)
	f.RetryAt = now.Add(wait + jitter(wait/4+1))
	return &f
}

// credential combines the request's key with the certificates of a status.
func (r *Request) credential(status *certificatesv1.PodCertificateRequestStatus) (*Credential, error) {
	certs, err := pki.ParseBundle([]byte(status.CertificateChain))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate chain: %w", err)
	}
	leaf := certs[0]
	if err := r.owns(leaf); err != nil {
		return nil, err
	}
	c := &Credential{
		// Bare blocks: no text between them, no headers.
		For: r.For, Key: r.Key, Chain: pki.EncodeCertificates(certs...),
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
		// For signers that give no time, the refresh is due after two thirds of
		// the lifetime.
		RefreshAt: leaf.NotBefore.Add(leaf.NotAfter.Sub(leaf.NotBefore) * 2 / 3),
	}
	if status.BeginRefreshAt != nil {
		c.RefreshAt = status.BeginRefreshAt.Time
	}
	return c, nil
}

// owns checks that the certificate is for the request's key.
func (r *Request) owns(leaf *x509.Certificate) error {
	key, err := pki.ParsePrivateKey(r.Key)
	if err != nil {
		return fmt.Errorf("reading the request's key: %w", err)
	}
	if !pki.SameKey(key.Public(), leaf.PublicKey) {
		return fmt.Errorf("the certificate %w", pki.ErrOtherKey)
	}
	return nil
}
