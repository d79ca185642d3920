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
// *RefusedError, the first of each rule for entries. They match ErrNoLists if the CA never has
// a list.
//
// Lint needs memory for the encoding, about 50 bytes an entry, and little more.
func (a *ListAuthority) Lint(list List, last *big.Int) (*LintedList, error) {
	refused := func(problems ...error) error { return &RefusedError{Problems: problems} }
	id, err := authorityKeyID(a.key.public)
	if err != nil {
		return nil, refused(err)
	}
	algorithm, err := Content{}.algorithm(a.key.public.PublicKey) // as certificates of the CA have
	if err != nil {
		return nil, refused(err)
	}
	encoded, err := listHead{algorithm, a.key.public.RawSubject, id, list.Number, list.ThisUpdate, list.NextUpdate}.encode(list)
	if err != nil {
		return nil, refused(fmt.Errorf("encoding: %w", err))
	}
	draft, err := readList(encoded.tbs())
	if err != nil {
		return nil, refused(fmt.Errorf("reading back: %w", err))
	}
	draft.ca, draft.keyID, draft.last = a.key.public, id, last
	count, problems := draft.lint()
	if len(problems) > 0 {
		return nil, refused(problems...)
	}
	return &LintedList{key: a.key, algorithm: draft.SignatureAlgorithm, encoded: encoded, facts: SignedList{
		CA: a.key.public, Number: draft.Number, ThisUpdate: draft.ThisUpdate, NextUpdate: draft.NextUpdate, Entries: count,
	}}, nil
}

// listDraft is a list as the linter sees it.
type listDraft struct {
	*x509.RevocationList // parsed from its encoding, but without entries
	parts                listParts
	ca                   *x509.Certificate
	keyID                []byte   // that certificates of the CA have
	last                 *big.Int // nil if the CA has no list
}

// listParts are the parts of the content of a TBSCertList.
type listParts struct {
	head, tail []byte // before and after the entries
	algorithm  []byte
	// entries are the entries, one after the other. They are in a sequence, even without
	// entries, if sequence is set.
	entries  []byte
	sequence bool
}

func splitList(tbs []byte) (p listParts, err error) {
	members, err := structure(tbs, 4, 7)
	if err != nil {
		return listParts{}, err
	}
	if last := members[len(members)-1]; last.Class == asn1.ClassContextSpecific {
		p.tail, members = last.FullBytes, members[:len(members)-1]
	}
	// The version, the algorithm, the issuer and thisUpdate come first.
	if last := members[len(members)-1]; len(members) > 4 && isConstructed(last, asn1.TagSequence) {
		p.entries, p.sequence, members = last.Bytes, true, members[:len(members)-1]
	}
	for _, member := range members {
		p.head = append(p.head, member.FullBytes...)
	}
	p.algorithm = members[1].FullBytes
	return p, nil
}

// parse returns the list of some of the entries, as package x509 reads it.
func (p listParts) parse(entries []byte) (*x509.RevocationList, error) {
	content := slices.Clone(p.head)
	if len(entries) > 0 {
		content = append(appendHeader(content, tagSequence, len(entries)), entries...)
	}
	content = append(content, p.tail...)
	der, err := asn1.Marshal(struct {
		Content, Algorithm asn1.RawValue
		Signature          asn1.BitString
	}{Content: asn1.RawValue{Tag: asn1.TagSequence, IsCompound: true, Bytes: content}, Algorithm: asn1.RawValue{FullBytes: p.algorithm}})
	if err != nil {
		return nil, err
	}
	return x509.ParseRevocationList(der)
}

func readList(tbs []byte) (listDraft, error) {
	parts, err := splitList(tbs)
	if err != nil {
		return listDraft{}, err
	}
	list, err := parts.parse(nil)
	return listDraft{RevocationList: list, parts: parts}, err
}

// lint returns the number of entries, and the problems.
func (d listDraft) lint() (entries int, problems []error) {
	for _, rule := range listRules {
		if err := rule(d); err != nil {
			problems = append(problems, err)
		}
	}
	entries, more := d.lintEntries()
	return entries, append(problems, more...)
}

// listRules are the rules for a list without its entries.
var listRules = []func(listDraft) error{
	listDraft.checkMaySign,
	listDraft.checkIssuer,
	listDraft.checkTimes,
	listDraft.checkNumber,
	listDraft.checkExtensions,
	listDraft.checkEncoding,
}

func (d listDraft) checkMaySign() error { return checkSignsLists(d.ca) }

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

// checkIssuer: RFC 5280 sections 5.1.2.3 and 5.2.1.
func (d listDraft) checkIssuer() error {
	switch {
	case !bytes.Equal(d.RawIssuer, d.ca.RawSubject):
		return errors.New("the issuer is not the CA's subject")
	case !bytes.Equal(d.AuthorityKeyId, d.keyID):
		return errors.New("the authority key identifier is not that of the CA")
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
	case d.ThisUpdate.Before(d.ca.NotBefore):
		return errors.New("thisUpdate must not be before the CA begins")
	case d.NextUpdate.After(d.ca.NotAfter):
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

// checkExtensions permits the two that every list needs (RFC 5280 section 5.2). A delta
// indicator, a distribution point and a freshest CRL change what a list means.
func (d listDraft) checkExtensions() error {
	for _, extension := range d.Extensions {
		switch {
		case !extension.Id.Equal(oidAuthorityKeyID) && !extension.Id.Equal(oidCRLNumber):
			return fmt.Errorf("extension %v has no place in a list", extension.Id)
		case extension.Critical:
			return fmt.Errorf("extension %v must not be critical", extension.Id)
		}
	}
	return nil
}

// checkEncoding: what the parser reads, encoded again, must be the same, and a list of no
// entries must be absent (RFC 5280 section 5.1.2.6).
func (d listDraft) checkEncoding() error {
	algorithm, known := signatureAlgorithms[d.SignatureAlgorithm]
	if !known {
		return fmt.Errorf("the signature algorithm %v is not supported", d.SignatureAlgorithm)
	}
	again := listHead{algorithm, d.RawIssuer, d.AuthorityKeyId, d.Number, d.ThisUpdate, d.NextUpdate}
	head, err := again.head()
	if err != nil {
		return err
	}
	tail, err := again.tail()
	if err != nil {
		return err
	}
	switch {
	case !bytes.Equal(head, d.parts.head) || !bytes.Equal(tail, d.parts.tail):
		return errors.New("the list is encoded otherwise than package x509 reads it")
	case d.parts.sequence && len(d.parts.entries) == 0:
		return errors.New("a list without entries must not have an empty sequence of them")
	}
	return nil
}

// entryRules are the rules for each entry.
var entryRules = []func(listDraft, *x509.RevocationListEntry) error{
	listDraft.checkEntrySerial,
	listDraft.checkEntryTime,
	listDraft.checkEntryReason,
	listDraft.checkEntryExtensions,
	listDraft.checkEntryEncoding,
}

// lintBatch is the number of entries that are parsed at once: package x509 needs ten times the
// memory of their encoding.
const lintBatch = 1000

// lintEntries returns the number of entries, and the first problem by each rule.
func (d listDraft) lintEntries() (count int, problems []error) {
	first := make([]error, len(entryRules))
	var serials []int // where in the entries
	for rest := d.parts.entries; len(rest) > 0; {
		batch := rest
		for end := len(serials) + lintBatch; len(rest) > 0 && len(serials) < end; {
			var entry asn1.RawValue
			after, err := asn1.Unmarshal(rest, &entry)
			if err != nil {
				return 0, []error{errEntries}
			}
			serials, rest = append(serials, len(d.parts.entries)-len(after)-len(entry.Bytes)), after
		}
		list, err := d.parts.parse(batch[:len(batch)-len(rest)])
		if err != nil {
			return 0, []error{fmt.Errorf("%w: %w", errEntries, err)}
		}
		count += len(list.RevokedCertificateEntries)
		for i := range list.RevokedCertificateEntries {
			for j, rule := range entryRules {
				if first[j] == nil {
					first[j] = rule(d, &list.RevokedCertificateEntries[i])
				}
			}
		}
	}
	if count != len(serials) {
		return 0, []error{errEntries}
	}
	if problems = slices.DeleteFunc(first, func(err error) bool { return err == nil }); len(problems) > 0 {
		return count, problems
	}
	if err := d.checkUnique(serials); err != nil {
		return count, []error{err}
	}
	return count, nil
}

var errEntries = errors.New("the entries cannot be read back")

// maxListedSerial is the size of the serial number of an entry, in bits: 20 octets without
// sign. Some CAs issue such certificates, which break RFC 5280 section 4.1.2.2 by the octet of
// the sign. It must be possible to revoke them.
const maxListedSerial = 160

func (d listDraft) checkEntrySerial(e *x509.RevocationListEntry) error {
	if e.SerialNumber.Sign() <= 0 || e.SerialNumber.BitLen() > maxListedSerial {
		return fmt.Errorf("serial number %x must be positive and of at most 20 octets", e.SerialNumber)
	}
	return nil
}

// checkUnique takes where in the entries the serial numbers are: each is of less than 128
// octets, so that the second octet is its length.
func (d listDraft) checkUnique(serials []int) error {
	serial := func(at int) []byte { return d.parts.entries[at : at+2+int(d.parts.entries[at+1])] }
	slices.SortFunc(serials, func(a, b int) int { return bytes.Compare(serial(a), serial(b)) })
	for i := range serials[:max(len(serials)-1, 0)] {
		if one := serial(serials[i]); bytes.Equal(one, serial(serials[i+1])) {
			return fmt.Errorf("serial number %x is listed twice", one[2:])
		}
	}
	return nil
}

func (d listDraft) checkEntryTime(e *x509.RevocationListEntry) error {
	switch {
	case e.RevocationTime.IsZero():
		return fmt.Errorf("serial number %x: the time of the revocation is missing", e.SerialNumber)
	case e.RevocationTime.After(d.ThisUpdate):
		return fmt.Errorf("serial number %x: revoked at %s, after thisUpdate", e.SerialNumber, e.RevocationTime.Format(time.RFC3339))
	}
	return nil
}

// checkEntryReason: RFC 5280 section 5.3.1.
func (d listDraft) checkEntryReason(e *x509.RevocationListEntry) error {
	if e.ReasonCode < 0 || e.ReasonCode > 255 || reasonNames[Reason(e.ReasonCode)] == "" {
		return fmt.Errorf("serial number %x: the reason %d is not supported", e.SerialNumber, e.ReasonCode)
	}
	return nil
}

// checkEntryExtensions permits only a reason (RFC 5280 section 5.3): a certificate issuer
// would say that another CA has issued the certificate.
func (d listDraft) checkEntryExtensions(e *x509.RevocationListEntry) error {
	for _, extension := range e.Extensions {
		switch {
		case !extension.Id.Equal(oidReasonCode):
			return fmt.Errorf("serial number %x: extension %v has no place in an entry", e.SerialNumber, extension.Id)
		case extension.Critical:
			return fmt.Errorf("serial number %x: the reason must not be critical", e.SerialNumber)
		}
	}
	return nil
}

// checkEntryEncoding is checkEncoding for an entry.
func (d listDraft) checkEntryEncoding(e *x509.RevocationListEntry) error {
	again, err := ListEntry{Serial: e.SerialNumber.Bytes(), Time: e.RevocationTime, Reason: Reason(e.ReasonCode)}.append(nil)
	if err != nil || !bytes.Equal(again, e.Raw) {
		return fmt.Errorf("serial number %x: the entry is encoded otherwise than package x509 reads it", e.SerialNumber)
	}
	return nil
}
