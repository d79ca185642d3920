package pki

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseDN reads a distinguished name in the string form of RFC 4514, such as
// "CN=web+UID=7,OU=Shop\, Berlin,DC=corp". The string has the most specific
// part first, the result has it last, as certificates do (section 2.1). The
// attribute types are those of section 3 plus SERIALNUMBER, in any case, and
// dotted object identifiers. Beyond the RFC, spaces around parts are ignored
// and a semicolon separates like a comma, as RFC 2253 had it.
func ParseDN(dn string) (pkix.RDNSequence, error) {
	if !utf8.ValidString(dn) {
		return nil, errors.New("distinguished name is not valid UTF-8")
	}
	parts, err := splitDN(dn)
	if err != nil {
		return nil, fmt.Errorf("distinguished name %q: %w", dn, err)
	}
	var sequence pkix.RDNSequence
	set := pkix.RelativeDistinguishedNameSET{}
	for _, part := range parts {
		attribute, err := parseAttribute(part.text)
		if err != nil {
			return nil, fmt.Errorf("distinguished name %q: %w", dn, err)
		}
		set = append(set, attribute)
		if part.endsSet {
			sequence, set = append(sequence, set), nil
		}
	}
	slices.Reverse(sequence)
	return sequence, nil
}

// EncodeDN returns the DER of a distinguished name. Domain components become
// IA5 strings (RFC 4519 section 2.4); all else printable strings where that is
// possible and UTF-8 strings where not (RFC 5280 section 4.1.2.4).
func EncodeDN(sequence pkix.RDNSequence) ([]byte, error) {
	encoded := make(pkix.RDNSequence, len(sequence))
	for i, set := range sequence {
		encoded[i] = slices.Clone(set)
		for j, attribute := range set {
			value, isText := attribute.Value.(string)
			if !isText || !attribute.Type.Equal(oidDomainComponent) {
				continue
			}
			der, err := asn1.MarshalWithParams(value, "ia5")
			if err != nil {
				return nil, fmt.Errorf("domain component %q: %w", value, err)
			}
			encoded[i][j].Value = asn1.RawValue{FullBytes: der}
		}
	}
	return asn1.Marshal(encoded)
}

// dnPart is one attribute of a distinguished name, still escaped.
type dnPart struct {
	text    string
	endsSet bool // is the last of its relative distinguished name
}

// splitDN cuts at separators that are not escaped.
func splitDN(dn string) ([]dnPart, error) {
	var parts []dnPart
	start := 0
	for i := 0; i < len(dn); i++ {
		switch dn[i] {
		case '\\':
			i++ // whatever follows is no separator
		case ',', ';', '+':
			parts = append(parts, dnPart{text: dn[start:i], endsSet: dn[i] != '+'})
			start = i + 1
		}
	}
	if strings.TrimSpace(dn) == "" {
		return nil, errors.New("is empty")
	}
	return append(parts, dnPart{text: dn[start:], endsSet: true}), nil
}

func parseAttribute(text string) (pkix.AttributeTypeAndValue, error) {
	name, escaped, found := strings.Cut(text, "=")
	if !found {
		return pkix.AttributeTypeAndValue{}, fmt.Errorf("%q is not of the form TYPE=value", text)
	}
	oid, err := attributeType(strings.TrimSpace(name))
	if err != nil {
		return pkix.AttributeTypeAndValue{}, err
	}
	value, err := attributeValue(escaped)
	if err != nil {
		return pkix.AttributeTypeAndValue{}, fmt.Errorf("value of %s: %w", strings.TrimSpace(name), err)
	}
	return pkix.AttributeTypeAndValue{Type: oid, Value: value}, nil
}

var oidDomainComponent = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}

// attributeTypes are the names of RFC 4514 section 3, and one more that
// certificates often have.
var attributeTypes = []struct {
	name string
	oid  asn1.ObjectIdentifier
}{
	{"C", asn1.ObjectIdentifier{2, 5, 4, 6}},
	{"O", asn1.ObjectIdentifier{2, 5, 4, 10}},
	{"OU", asn1.ObjectIdentifier{2, 5, 4, 11}},
	{"CN", asn1.ObjectIdentifier{2, 5, 4, 3}},
	{"SERIALNUMBER", asn1.ObjectIdentifier{2, 5, 4, 5}},
	{"L", asn1.ObjectIdentifier{2, 5, 4, 7}},
	{"ST", asn1.ObjectIdentifier{2, 5, 4, 8}},
	{"STREET", asn1.ObjectIdentifier{2, 5, 4, 9}},
	{"DC", oidDomainComponent},
	{"UID", asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}},
}

func attributeType(name string) (asn1.ObjectIdentifier, error) {
	var known []string
	for _, attribute := range attributeTypes {
		if strings.EqualFold(name, attribute.name) {
			return attribute.oid, nil
		}
		known = append(known, attribute.name)
	}
	if oid, err := ParseOID(name); err == nil {
		return oid, nil
	}
	return nil, fmt.Errorf("attribute type %q is not known: use one of %s, or an object identifier", name, strings.Join(known, ", "))
}

// ParseOID reads an object identifier in dotted decimal form. It must be one
// that DER can express: at least two arcs, of which the first is 0, 1 or 2.
func ParseOID(dotted string) (asn1.ObjectIdentifier, error) {
	var oid asn1.ObjectIdentifier
	for arc := range strings.SplitSeq(dotted, ".") {
		n, err := strconv.ParseUint(arc, 10, 31)
		if err != nil || arc != strconv.FormatUint(n, 10) {
			return nil, fmt.Errorf("%q is not an object identifier in dotted decimal form", dotted)
		}
		oid = append(oid, int(n))
	}
	if _, err := asn1.Marshal(oid); err != nil {
		return nil, fmt.Errorf("%q is not an object identifier in dotted decimal form", dotted)
	}
	return oid, nil
}

// attributeValue undoes the escaping of RFC 4514 section 2.4.
func attributeValue(escaped string) (string, error) {
	escaped = trimSpaces(escaped)
	if encoded, isHex := strings.CutPrefix(escaped, "#"); isHex {
		return hexValue(encoded)
	}
	var value strings.Builder
	for i := 0; i < len(escaped); i++ {
		switch c := escaped[i]; c {
		case '\\':
			char, length, err := unescape(escaped[i+1:])
			if err != nil {
				return "", err
			}
			value.WriteByte(char)
			i += length
		case '"', '<', '>', 0:
			return "", fmt.Errorf("%q must be escaped with a backslash", string(c))
		default:
			value.WriteByte(c)
		}
	}
	switch text := value.String(); {
	case text == "":
		return "", errors.New("is empty")
	case !utf8.ValidString(text):
		return "", errors.New("is not valid UTF-8")
	default:
		return text, nil
	}
}

// trimSpaces removes spaces at both ends, but not one that is escaped.
func trimSpaces(escaped string) string {
	escaped = strings.TrimLeft(escaped, " ")
	trimmed := strings.TrimRight(escaped, " ")
	backslashes := len(trimmed) - len(strings.TrimRight(trimmed, `\`))
	if backslashes%2 == 1 && len(trimmed) < len(escaped) {
		return trimmed + " "
	}
	return trimmed
}

// unescape reads what follows a backslash: a special character, or the two
// hexadecimal digits of an octet.
func unescape(text string) (char byte, length int, err error) {
	if text == "" {
		return 0, 0, errors.New("ends with a backslash")
	}
	if strings.IndexByte(` "#+,;<=>\`, text[0]) >= 0 {
		return text[0], 1, nil
	}
	if len(text) >= 2 {
		if octet, err := hex.DecodeString(text[:2]); err == nil {
			return octet[0], 2, nil
		}
	}
	return 0, 0, fmt.Errorf("backslash before %q, which is neither a special character nor two hexadecimal digits", text[:1])
}

// hexValue reads a value that is given by its encoding, which must be that of
// a string.
func hexValue(encoded string) (string, error) {
	der, err := hex.DecodeString(encoded)
	if err != nil {
		return "", errors.New("# is not followed by hexadecimal digits: escape it if it is part of the text")
	}
	var value any
	rest, err := asn1.Unmarshal(der, &value)
	text, isText := value.(string)
	if err != nil || len(rest) > 0 || !isText || text == "" {
		return "", errors.New("# is not followed by the encoding of a string")
	}
	return text, nil
}
