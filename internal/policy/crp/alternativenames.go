package crp

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/pki"
)

// alternativeNames are the names of a subjectAltName extension that Go does not read.
// Issuers copy the extension unchanged.
type alternativeNames struct {
	others found
	// forbidden has an entry for each name that no policy can allow.
	forbidden map[nameType]int
}

// nameType is a type of name that no policy can allow, as violations call it.
type nameType string

// forbiddenNames are the types in the order of violations.
var forbiddenNames = []nameType{"directoryName", "x400Address", "ediPartyName", "registeredID", unreadName}

// unreadName is a name that neither Go nor cert-manager reads. approver-policy
// does not see it.
const unreadName nameType = "unreadable"

// The tags of GeneralName (RFC 5280 section 4.2.1.6).
const (
	tagOtherName = iota
	tagEmail
	tagDNS
	tagX400Address
	tagDirectoryName
	tagEDIPartyName
	tagURI
	tagIP
	tagRegisteredID
)

// otherName is that of RFC 5280 section 4.2.1.6. The value is in its explicit
// tag.
type otherName struct {
	TypeID asn1.ObjectIdentifier
	Value  asn1.RawValue `asn1:"tag:0,explicit"`
}

// ediPartyName is that of RFC 5280 section 4.2.1.6.
type ediPartyName struct {
	NameAssigner string `asn1:"tag:0,optional"`
	PartyName    string `asn1:"tag:1"`
}

// readAlternativeNames reads the extensions of a request. What cannot be read
// denies the request, because an issuer would sign it.
func (c *content) readAlternativeNames(extensions []pkix.Extension) {
	count := 0
	for _, extension := range extensions {
		if !extension.Id.Equal(pki.OIDSubjectAltName) {
			continue
		}
		if count++; count > 1 {
			c.denied = "CSR contains multiple SAN extensions; at most one is permitted"
			return
		}
		if err := c.alternative.read(extension.Value); err != nil {
			c.denied = fmt.Sprintf("subjectAltName (SAN) extension could not be decoded: %s", withoutDetails(err))
			return
		}
	}
}

// withoutDetails returns the text of an error of encoding/asn1 without the state
// of its parser, which contains addresses in memory: a condition must not change
// from one attempt to the next.
func withoutDetails(err error) string {
	text, _, _ := strings.Cut(err.Error(), " (")
	return text
}

func (a *alternativeNames) read(value []byte) error {
	var sequence asn1.RawValue
	switch rest, err := asn1.Unmarshal(value, &sequence); {
	case err != nil:
		return err
	case len(rest) > 0:
		return errors.New("x509: trailing data after X.509 extension")
	case !sequence.IsCompound || sequence.Tag != asn1.TagSequence || sequence.Class != asn1.ClassUniversal:
		return asn1.StructuralError{Msg: "bad SAN sequence"}
	}
	a.forbidden = map[nameType]int{}
	for rest := sequence.Bytes; len(rest) > 0; {
		var name asn1.RawValue
		var err error
		if rest, err = asn1.Unmarshal(rest, &name); err != nil {
			return err
		}
		if err := a.readName(name); err != nil {
			return err
		}
	}
	return nil
}

func (a *alternativeNames) readName(name asn1.RawValue) error {
	switch name.Tag {
	case tagOtherName:
		return a.readOtherName(name)
	case tagEmail:
		return a.readText(name, "rfc822Name")
	case tagDNS:
		return a.readText(name, "dNSName")
	case tagURI:
		return a.readText(name, "uniformResourceIdentifier")
	case tagIP:
		return a.readAddress(name)
	case tagX400Address:
		a.forbidden["x400Address"]++
		return nil
	case tagDirectoryName:
		return a.forbid("directoryName", name, new(pkix.RDNSequence))
	case tagEDIPartyName:
		return a.forbid("ediPartyName", name, new(ediPartyName))
	case tagRegisteredID:
		return a.forbid("registeredID", name, new(asn1.ObjectIdentifier))
	}
	return asn1.StructuralError{Msg: "bad SAN choice"}
}

// forbid counts a name that is of a type or cannot be decoded.
func (a *alternativeNames) forbid(is nameType, name asn1.RawValue, decoded any) error {
	if _, err := asn1.UnmarshalWithParams(name.FullBytes, decoded, fmt.Sprintf("tag:%d", name.Tag)); err != nil {
		return err
	}
	a.forbidden[is]++
	return nil
}

func (a *alternativeNames) readOtherName(name asn1.RawValue) error {
	var other otherName
	if _, err := asn1.UnmarshalWithParams(name.FullBytes, &other, "tag:0"); err != nil {
		return err
	}
	a.others.add(other.TypeID.String(), otherNameText(other.Value))
	return nil
}

// readText looks at a name that Go reads, unless its encoding is another.
func (a *alternativeNames) readText(name asn1.RawValue, is string) error {
	if strings.ContainsFunc(string(name.Bytes), func(r rune) bool { return r > unicode.MaxASCII }) {
		return fmt.Errorf("x509: SAN %s is malformed", is)
	}
	a.countUnread(name)
	return nil
}

func (a *alternativeNames) readAddress(name asn1.RawValue) error {
	if length := len(name.Bytes); length != 4 && length != 16 {
		return fmt.Errorf("x509: cannot parse IP address of length %d", length)
	}
	a.countUnread(name)
	return nil
}

// countUnread counts a name that Go leaves out of its lists because of its
// identifier octets.
func (a *alternativeNames) countUnread(name asn1.RawValue) {
	if name.Class != asn1.ClassContextSpecific || name.IsCompound {
		a.forbidden[unreadName]++
	}
}

// violations returns an error for each name that no policy can allow.
func (a *alternativeNames) violations() field.ErrorList {
	var errs field.ErrorList
	path := allowedPath.Child("subjectAltName")
	for _, is := range forbiddenNames {
		for range a.forbidden[is] {
			errs = append(errs, field.Invalid(path.Child(string(is)), string(is), string(is)+" SAN entries are not permitted"))
		}
	}
	return errs
}

// otherNameText returns the value of an otherName: a text unchanged, other values as
// the hexadecimal digits of their encoding.
func otherNameText(value asn1.RawValue) string {
	var inner asn1.RawValue
	if value.Class == asn1.ClassContextSpecific && value.Tag == 0 {
		if _, err := asn1.Unmarshal(value.Bytes, &inner); err == nil {
			value = inner
		}
	}
	if value.Class == asn1.ClassUniversal {
		switch value.Tag {
		case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, asn1.TagT61String:
			return string(value.Bytes)
		}
	}
	return hex.EncodeToString(value.FullBytes)
}
