package pki

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"
)

// List is the content of a certificate revocation list (RFC 5280 section 5), of all
// certificates of a CA: there is no issuing distribution point.
type List struct {
	// Number must be greater than that of every earlier list of the CA.
	Number *big.Int
	// ThisUpdate and NextUpdate limit the time in which the list is valid. Fractions of a
	// second are left out.
	ThisUpdate, NextUpdate time.Time
	// Entries are the revoked certificates, in the order in which they are listed.
	Entries []ListEntry
}

// ListEntry is a revoked certificate in a List.
type ListEntry struct {
	// Serial is the serial number, big-endian; it may have leading zeros.
	Serial []byte
	// Time is when the certificate was revoked, not after the list's ThisUpdate. Fractions of
	// a second are left out.
	Time   time.Time
	Reason Reason
}

// ErrNoLists is the reason why a CA never has a list: its certificate does not allow it to
// sign lists, or it has no name.
var ErrNoLists = errors.New("the CA cannot sign revocation lists")

// ListAuthority is the part of an Authority that signs revocation lists. It cannot sign
// anything else, so it is what the keys of former CAs are opened as. It never changes, so it
// is safe for concurrent use if its key is.
type ListAuthority struct {
	key signingKey
}

// NewListAuthority joins a CA's key with its certificate. A CA that must not sign lists, and
// an expired one, are not refused: Lint checks that. Without a key, nil, it signs nothing, but
// can join lists with their signatures.
func NewListAuthority(ca *x509.Certificate, key crypto.Signer) (*ListAuthority, error) {
	if key != nil && !SameKey(key.Public(), ca.PublicKey) {
		return nil, fmt.Errorf("private key does not belong to the CA certificate of %s", describe(ca))
	}
	if err := checkCA(ca, 0); err != nil {
		return nil, fmt.Errorf("certificate of %s: %w", describe(ca), err)
	}
	return &ListAuthority{signingKey{key, ca}}, nil
}

// ParseListAuthority is NewListAuthority for a certificate and a key in PEM. Other
// certificates may follow. Its errors show nothing of the key.
func ParseListAuthority(certPEM, keyPEM []byte) (*ListAuthority, error) {
	chain, key, err := parsePair(certPEM, keyPEM)
	if err != nil {
		return nil, err
	}
	return NewListAuthority(chain[0], key)
}

// Lists returns the part of the authority that signs revocation lists.
func (a *Authority) Lists() *ListAuthority { return &ListAuthority{a.key} }

// Certificate returns the CA's own certificate. It must not be modified.
func (a *ListAuthority) Certificate() *x509.Certificate { return a.key.public }

// LintedList is a revocation list that has passed the linter and is not yet signed. Only
// ListAuthority.Lint makes one. It is signed once at most, so that there are no two lists of
// one number that differ in their signatures. It is not safe for concurrent use.
type LintedList struct {
	key       signingKey
	algorithm x509.SignatureAlgorithm
	tbs       []byte
	facts     SignedList // without DER
	signed    bool
}

// SignedList describes a list that a key has signed.
type SignedList struct {
	CA                     *x509.Certificate
	Number                 *big.Int
	ThisUpdate, NextUpdate time.Time
	// Entries is the number of entries.
	Entries int
	DER     []byte
}

// ListRecorder is called with each list that a key has signed, before the list is used. If it
// fails, the list is discarded. It must be safe for concurrent use.
type ListRecorder func(ctx context.Context, list SignedList) error

// TBS returns what is signed: the TBSCertList of RFC 5280 section 5.1. It is the same for
// the same content and CA. It must not be modified.
func (l *LintedList) TBS() []byte { return l.tbs }

// Content returns the list as package x509 reads it, without a signature.
func (l *LintedList) Content() (*x509.RevocationList, error) {
	der, err := wrapList(l.tbs, nil)
	if err != nil {
		return nil, err
	}
	return x509.ParseRevocationList(der)
}

// Sign signs with the CA's key, once, and records the list. It returns the list in DER, whose
// signature has been verified with the CA's certificate. Errors come from the key or the
// recorder, not from the content.
func (l *LintedList) Sign(ctx context.Context, rand io.Reader, record ListRecorder) ([]byte, error) {
	if record == nil {
		return nil, errors.New("revocation lists must be recorded, but no recorder is set")
	}
	if err := l.unsigned(); err != nil {
		return nil, err
	}
	if l.key.private == nil {
		return nil, errors.New("the key of the CA is not here")
	}
	signature, err := l.key.sign(rand, l.tbs, l.algorithm)
	if err != nil {
		return nil, fmt.Errorf("signing revocation list: %w", err)
	}
	signed := l.facts
	if signed.DER, err = l.finish(signature); err != nil {
		return nil, err
	}
	if err := record(ctx, signed); err != nil {
		return nil, fmt.Errorf("recording the revocation list: %w", err)
	}
	return signed.DER, nil
}

// Signed returns the list in DER with a signature that was made before or elsewhere, after
// verifying it with the CA's certificate. It does not record the list.
func (l *LintedList) Signed(signature []byte) ([]byte, error) {
	if err := l.unsigned(); err != nil {
		return nil, err
	}
	if err := l.key.public.CheckSignature(l.algorithm, l.tbs, signature); err != nil {
		return nil, fmt.Errorf("verifying the signature of the revocation list: %w", err)
	}
	return l.finish(signature)
}

func (l *LintedList) unsigned() error {
	switch {
	case l.key.public == nil:
		return errors.New("the revocation list has not been linted")
	case l.signed:
		return errors.New("the revocation list has been signed already: lint it again")
	}
	return nil
}

func (l *LintedList) finish(signature []byte) ([]byte, error) {
	der, err := wrapList(l.tbs, signature)
	if err != nil {
		return nil, fmt.Errorf("encoding signed revocation list: %w", err)
	}
	l.signed = true
	return der, nil
}
