package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"time"
)

// Lint checks a revocation list: it must follow RFC 5280 and lie within the CA's powers, and
// its number must be greater than last, that of the CA's last list, nil if there is none. The
// rules check the finished encoding, not the content. All problems are returned in one
// *RefusedError, but only the first one of the entries. They match ErrNoLists if the CA never
// has a list.
func (a *ListAuthority) Lint(list List, last *big.Int) (*LintedList, error) {
	entries := make([]byte, 0, len(list.Entries)*entryRoom)
	for _, entry := range list.Entries {
		var err error
		if entries, err = entry.append(entries); err != nil {
			return nil, &RefusedError{Problems: []error{fmt.Errorf("encoding: %w", err)}}
		}
	}
	tbs, err := a.encode(list, entries)
	if err != nil {
		return nil, &RefusedError{Problems: []error{fmt.Errorf("encoding: %w", err)}}
	}
	return a.lint(tbs, last)
}

// entryRoom is the size of an entry with a serial number of certplane and a reason, in bytes.
const entryRoom = 50

// LintEncoded is Lint for the TBS of a list that a server without the CA's key has made.
func (a *ListAuthority) LintEncoded(tbs []byte) (*LintedList, error) {
	return a.lint(slices.Clone(tbs), nil)
}

// lint checks an encoded list.
func (a *ListAuthority) lint(tbs []byte, last *big.Int) (*LintedList, error) {
	draft, err := readList(tbs)
	if err != nil {
		return nil, &RefusedError{Problems: []error{fmt.Errorf("reading back: %w", err)}}
	}
	draft.by, draft.last = a, last
	var problems []error
	for _, rule := range listRules {
		if err := rule(draft); err != nil {
			problems = append(problems, err)
		}
	}
	count, err := draft.lintEntries()
	if err != nil {
		problems = append(problems, err)
	}
	if len(problems) > 0 {
		return nil, &RefusedError{Problems: problems}
	}
	return &LintedList{key: a.key, algorithm: draft.SignatureAlgorithm, tbs: tbs, facts: SignedList{
		CA: a.key.public, Number: draft.Number, ThisUpdate: draft.ThisUpdate, NextUpdate: draft.NextUpdate, Entries: count,
	}}, nil
}

// listDraft is a list as the linter sees it.
type listDraft struct {
	*x509.RevocationList        // parsed from head
	head                 []byte // the TBSCertList without its entries
	entries              []byte // one after the other
	isEmpty              bool   // there is a sequence of no entries
	by                   *ListAuthority
	last                 *big.Int // nil if the CA has no list
}

// readList reads a TBSCertList but for its entries, for which package x509 needs ten times the
// memory of their encoding.
func readList(tbs []byte) (d listDraft, err error) {
	members, err := structure(tbs, 5, 7)
	if err != nil {
		return listDraft{}, err
	}
	if len(members) == 7 {
		d.entries, d.isEmpty = members[5].Bytes, len(members[5].Bytes) == 0
		members = slices.Delete(members, 5, 6)
	}
	if d.head, err = asn1.Marshal(members); err != nil {
		return listDraft{}, err
	}
	list, err := wrapList(d.head, nil)
	if err != nil {
		return listDraft{}, err
	}
	d.RevocationList, err = x509.ParseRevocationList(list)
	return d, err
}

// listRules are the rules for a list without its entries.
var listRules = []func(listDraft) error{
	listDraft.checkMaySign,
	listDraft.checkTimes,
	listDraft.checkNumber,
	listDraft.checkEncoding,
}

func (d listDraft) checkMaySign() error { return checkSignsLists(d.by.key.public) }

// checkSignsLists: RFC 5280 sections 4.2.1.3 (cRLSign) and 5.1.2.3 (the name). A CA without key
// usage has all usages.
func checkSignsLists(ca *x509.Certificate) error {
	if ca.KeyUsage != 0 && ca.KeyUsage&x509.KeyUsageCRLSign == 0 {
		return fmt.Errorf("%w: its key usage lacks cRLSign", ErrNoLists)
	}
	if err := hasName(ca); err != nil {
		return fmt.Errorf("%w: it %w", ErrNoLists, err)
	}
	return nil
}

// checkTimes: RFC 5280 sections 5.1.2.4 and 5.1.2.5. The CA's key can only be verified while
// its certificate is valid.
func (d listDraft) checkTimes() error {
	switch {
	case d.NextUpdate.IsZero():
		return errors.New("nextUpdate is missing")
	case !d.NextUpdate.After(d.ThisUpdate):
		return errors.New("nextUpdate must be after thisUpdate")
	case d.ThisUpdate.Before(d.by.key.public.NotBefore):
		return errors.New("thisUpdate must not be before the CA begins")
	case d.NextUpdate.After(d.by.key.public.NotAfter):
		return errors.New("nextUpdate must not be after the CA ends")
	}
	return nil
}

// maxNumber is the size of the number of a list, in bits: 20 octets, the first bit of which is
// the sign.
const maxNumber = 159

// checkNumber: RFC 5280 section 5.2.3.
func (d listDraft) checkNumber() error {
	switch number := d.Number; {
	case number == nil:
		return errors.New("the number is missing")
	case number.Sign() <= 0 || number.BitLen() > maxNumber:
		return errors.New("the number must be positive and of at most 20 octets")
	case d.last != nil && number.Cmp(d.last) <= 0:
		return fmt.Errorf("the number %v must be greater than %v, that of the last list", number, d.last)
	}
	return nil
}

// checkEncoding: times and number as the parser reads them, encoded again, must be the same. So the
// name and the key identifier are those of the CA (RFC 5280 sections 5.1.2.3 and 5.2.1). There is
// no extension but the two that every list needs: a delta indicator, a distribution point and a
// freshest CRL change what a list means.
func (d listDraft) checkEncoding() error {
	if d.isEmpty { // RFC 5280 section 5.1.2.6
		return errors.New("a list without entries must not have an empty sequence of them")
	}
	again, err := d.by.encode(List{Number: d.Number, ThisUpdate: d.ThisUpdate, NextUpdate: d.NextUpdate}, nil)
	if err != nil || !bytes.Equal(again, d.head) {
		return errors.New("the list has other content than the name and the key identifier of the CA, two times, a number and entries, or another encoding")
	}
	return nil
}

// listedEntry is an entry of a TBSCertList.
type listedEntry struct {
	Raw        asn1.RawContent
	Serial     *big.Int
	Time       time.Time
	Extensions asn1.RawValue `asn1:"optional"`
}

// maxListedSerial is the size of the serial number of an entry, in octets without sign. Some CAs
// issue certificates that break RFC 5280 section 4.1.2.2 by the octet of the sign. It must be
// possible to revoke them.
const maxListedSerial = 20

// lintEntries returns the number of entries, and the first problem.
func (d listDraft) lintEntries() (int, error) {
	var serials [][maxListedSerial]byte
	for rest := d.entries; len(rest) > 0; {
		var e listedEntry
		var err error
		if rest, err = asn1.Unmarshal(rest, &e); err != nil {
			return 0, fmt.Errorf("the entries cannot be read back: %w", err)
		}
		if err := d.checkEntry(&e); err != nil {
			return 0, err
		}
		serials = append(serials, [maxListedSerial]byte{})
		e.Serial.FillBytes(serials[len(serials)-1][:])
	}
	slices.SortFunc(serials, func(a, b [maxListedSerial]byte) int { return bytes.Compare(a[:], b[:]) })
	for i := range serials[:max(len(serials)-1, 0)] {
		if serials[i] == serials[i+1] {
			return 0, fmt.Errorf("serial number %x is listed twice", bytes.TrimLeft(serials[i][:], "\x00"))
		}
	}
	return len(serials), nil
}

// checkEntry permits no extension but a reason (RFC 5280 section 5.3): a certificate issuer would
// say that another CA has issued the certificate.
func (d listDraft) checkEntry(e *listedEntry) error {
	reason := ReasonUnspecified
	if len(e.Extensions.FullBytes) > 0 {
		reason = Reason(e.Raw[len(e.Raw)-1])
	}
	switch {
	case e.Serial.Sign() <= 0 || e.Serial.BitLen() > 8*maxListedSerial:
		return fmt.Errorf("serial number %x must be positive and of at most %d octets", e.Serial, maxListedSerial)
	case e.Time.IsZero():
		return fmt.Errorf("serial number %x: the time of the revocation is missing", e.Serial)
	case e.Time.After(d.ThisUpdate):
		return fmt.Errorf("serial number %x: revoked at %s, after thisUpdate", e.Serial, e.Time.Format(time.RFC3339))
	case reasonNames[reason] == "": // RFC 5280 section 5.3.1
		return fmt.Errorf("serial number %x: the reason %d is not supported", e.Serial, reason)
	}
	var room [64]byte
	again, err := ListEntry{Serial: e.Serial.Bytes(), Time: e.Time, Reason: reason}.append(room[:0])
	if err != nil || !bytes.Equal(again, e.Raw) {
		return fmt.Errorf("serial number %x: the entry has other content than a number, a time and a reason, or another encoding", e.Serial)
	}
	return nil
}
