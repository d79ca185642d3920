package revocation

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// ListID identifies a CA in the names of its lists. A CA that is renewed with the same name
// and key stays the same CA.
func ListID(ca *x509.Certificate) string {
	sum := halfSum(slices.Concat(ca.RawSubject, ca.RawSubjectPublicKeyInfo))
	return hex.EncodeToString(sum[:])
}

// Backdate is how much earlier than the clock lists begin, for verifiers whose clocks are
// behind.
const Backdate = 5 * time.Minute

// listFormat is the format of the lists that this version builds. It changes with the
// encoding: another server must not build other bytes for a stored signature.
const listFormat = 1

// StoredList is what the store has of the list that a CA has signed last: all that a server
// needs to build its bytes from the entries. It is about 1 KB however long the list is.
type StoredList struct {
	Format int `json:"format"`
	// Signers are the names of the signers that sign with the CA.
	Signers []string `json:"signers,omitempty"`
	// Chain are the certificates of the CA and of the CAs above it, in DER.
	Chain  [][]byte `json:"chain"`
	Number int64    `json:"number"`
	// ThisUpdate and NextUpdate limit the validity of the list, in whole seconds.
	ThisUpdate time.Time `json:"thisUpdate"`
	NextUpdate time.Time `json:"nextUpdate"`
	// RenewBy is when the next list is signed, at the latest.
	RenewBy time.Time `json:"renewBy"`
	// Ends is when the last certificate of a former CA ends; zero for other CAs.
	Ends time.Time `json:"ends,omitzero"`
	// Covers is the revision up to which the list has all entries of the CA.
	Covers int64 `json:"covers"`
	// EndedBefore leaves out certificates that ended earlier.
	EndedBefore time.Time `json:"endedBefore"`
	Entries     int       `json:"entries"`
	// Size is the number of bytes of the list, SHA256 its digest.
	Size      int    `json:"size"`
	SHA256    []byte `json:"sha256"`
	Signature []byte `json:"signature"`
	// Whole are the bytes of the list, if Seal has noted them.
	Whole []byte `json:"whole,omitempty"`
}

// Over reports whether no certificate of a former CA is valid any more, so that its list is
// not needed. It is false for nil.
func (s *StoredList) Over(now time.Time) bool {
	return s != nil && !s.Ends.IsZero() && !now.Before(s.Ends)
}

// Certificates returns Chain, which has at least one certificate.
func (s *StoredList) Certificates() (chain []*x509.Certificate, err error) {
	for _, der := range s.Chain {
		ca, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("reading the CA certificates of the stored list: %w", err)
		}
		chain = append(chain, ca)
	}
	if len(chain) == 0 {
		return nil, errors.New("the stored list has no CA certificate")
	}
	return chain, nil
}

// Revoked returns the entries of a CA's list, with the times at which the certificates were
// revoked.
func (s *StoredList) Revoked(ca *x509.Certificate, index *Index) []pki.ListEntry {
	entries := index.List(AuthoritiesOf(ca), s.Covers, s.EndedBefore, rootOf(ca))
	return slices.DeleteFunc(entries, func(e pki.ListEntry) bool { return len(e.Serial) == 0 }) // lists cannot have them
}

// Lint returns the list, ready to be signed, and sets the number of its entries. last is the
// number of the former list; 0 if there is none. Without by, the key is not here, so that Sign of
// the list fails.
func (s *StoredList) Lint(by *pki.ListAuthority, index *Index, last int64) (*pki.LintedList, error) {
	s.Format = listFormat
	if err := index.Err(); err != nil {
		return nil, err
	}
	if by == nil {
		chain, err := s.Certificates()
		if err != nil {
			return nil, err
		}
		if by, err = pki.NewListAuthority(chain[0], nil); err != nil {
			return nil, err
		}
	}
	entries := s.Revoked(by.Certificate(), index)
	for i := range entries {
		if entries[i].Time = entries[i].Time.Add(-Backdate); entries[i].Time.After(s.ThisUpdate) {
			entries[i].Time = s.ThisUpdate
		}
	}
	var former *big.Int
	if last > 0 {
		former = big.NewInt(last)
	}
	s.Entries = len(entries)
	return by.Lint(pki.List{Number: big.NewInt(s.Number), ThisUpdate: s.ThisUpdate, NextUpdate: s.NextUpdate, Entries: entries}, former)
}

// mostWhole limits the size of lists that are stored whole, in bytes.
const mostWhole = 64 << 10

// UnlistedAfter is how long a certificate is on lists after its end, at least: it must be on a
// regular list after that (RFC 5280 section 3.3).
const UnlistedAfter = 48 * time.Hour

// rootOf returns the fingerprint of a CA that is a root; zero for others. A root is on no list:
// only the removal of trust revokes it.
func rootOf(ca *x509.Certificate) Digest {
	if !bytes.Equal(ca.RawIssuer, ca.RawSubject) {
		return Digest{}
	}
	return halfSum(ca.Raw)
}

// Seal notes the bytes of the signed list, and the bytes themselves if whole is set and they are
// few: then the list can be served for longer than its entries are kept.
func (s *StoredList) Seal(der []byte, whole bool) error {
	sum := sha256.Sum256(der)
	s.Size, s.SHA256 = len(der), sum[:]
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return fmt.Errorf("reading back the signed list: %w", err)
	}
	s.Signature = list.Signature
	if whole && len(der) <= mostWhole {
		s.Whole = der
	}
	return nil
}

// build returns the bytes of a stored list.
func (s *StoredList) build(index *Index) ([]byte, error) {
	if len(s.Whole) > 0 {
		return s.Whole, nil
	}
	if s.Format != listFormat {
		return nil, fmt.Errorf("the list has format %d, but this version builds format %d", s.Format, listFormat)
	}
	built := *s
	linted, err := built.Lint(nil, index, 0)
	if err != nil {
		return nil, err
	}
	if built.Entries != s.Entries {
		return nil, fmt.Errorf("the list has %d entries, but this server has %d for it", s.Entries, built.Entries)
	}
	der, err := linted.Signed(s.Signature)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(der); string(sum[:]) != string(s.SHA256) {
		return nil, errors.New("this server builds other bytes than were signed")
	}
	return der, nil
}
