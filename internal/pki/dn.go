package pki

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// attributeTypes are the short names of RFC 4514 section 3 and of RFC 4519
// section 2.31.
var attributeTypes = map[string]asn1.ObjectIdentifier{
	"CN":           {2, 5, 4, 3},
	"SERIALNUMBER": {2, 5, 4, 5},
	"C":            {2, 5, 4, 6},
	"L":            {2, 5, 4, 7},
	"ST":           {2, 5, 4, 8},
	"STREET":       {2, 5, 4, 9},
	"O":            {2, 5, 4, 10},
	"OU":           {2, 5, 4, 11},
	"UID":          {0, 9, 2342, 19200300, 100, 1, 1},
	"DC":           {0, 9, 2342, 19200300, 100, 1, 25},
}

// ParseDN parses a distinguished name in the notation of LDAP (RFC 4514), which has the last
// part first. The result is in the order of certificates: its first element is the last one
// of text. Names of attributes are the names in attributeTypes or object identifiers.
func ParseDN(text string) (pkix.RDNSequence, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("is not UTF-8")
	}
	parts := splitUnescaped(text, ",;")
	name := make(pkix.RDNSequence, len(parts))
	for i, part := range parts {
		var set pkix.RelativeDistinguishedNameSET
		for _, pair := range splitUnescaped(part, "+") {
			attribute, err := parseAttribute(pair)
			if err != nil {
				return nil, err
			}
			set = append(set, attribute)
		}
		name[len(parts)-1-i] = set
	}
	return name, nil
}

// splitUnescaped cuts text at each of the separators that has no backslash
// before it.
func splitUnescaped(text, separators string) []string {
	var parts []string
	start := 0
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++ // skips the escaped character
		case strings.IndexByte(separators, text[i]) >= 0:
			parts, start = append(parts, text[start:i]), i+1
		}
	}
	return append(parts, text[start:])
}

func parseAttribute(pair string) (pkix.AttributeTypeAndValue, error) {
	key, value, ok := strings.Cut(pair, "=")
	if key = strings.TrimSpace(key); !ok || key == "" {
		return pkix.AttributeTypeAndValue{}, fmt.Errorf("%q is not of the form KEY=value", pair)
	}
	plain, err := unescape(value)
	if err != nil {
		return pkix.AttributeTypeAndValue{}, fmt.Errorf("the value of %s: %w", key, err)
	}
	id, ok := attributeType(key)
	if !ok {
		return pkix.AttributeTypeAndValue{}, &UnknownAttributeError{Key: key, Value: plain}
	}
	return pkix.AttributeTypeAndValue{Type: id, Value: plain}, nil
}

// UnknownAttributeError reports an attribute of a distinguished name that is
// not known.
type UnknownAttributeError struct{ Key, Value string }

func (e *UnknownAttributeError) Error() string {
	return fmt.Sprintf("unknown attribute %q: must be C, CN, DC, L, O, OU, SERIALNUMBER, ST, STREET, UID or an object identifier", e.Key)
}

func attributeType(key string) (id asn1.ObjectIdentifier, known bool) {
	if id, known := attributeTypes[strings.ToUpper(key)]; known {
		return id, true
	}
	id, err := ParseOID(key)
	return id, err == nil
}

// unescape decodes a value of RFC 4514 section 2.4. Surrounding blanks are not
// part of it, unless they are escaped.
func unescape(value string) (string, error) {
	value = strings.TrimLeft(value, " ")
	if strings.HasPrefix(value, "#") {
		return "", errors.New("values in hexadecimal are not supported")
	}
	var plain []byte
	end := 0 // of the text without trailing blanks
	for i := 0; i < len(value); i++ {
		c := value[i]
		switch {
		case c == '\\':
			decoded, size, err := unescapeOne(value[i+1:])
			if err != nil {
				return "", err
			}
			plain, i = append(plain, decoded), i+size
			end = len(plain)
		case c == '"' || c == '<' || c == '>' || c == 0:
			return "", fmt.Errorf("%q needs a backslash before it", c)
		default:
			if plain = append(plain, c); c != ' ' {
				end = len(plain)
			}
		}
	}
	if plain = plain[:end]; len(plain) == 0 {
		return "", errors.New("is empty")
	}
	if !utf8.Valid(plain) {
		return "", errors.New("is not UTF-8")
	}
	return string(plain), nil
}

// unescapeOne decodes the text after a backslash: a special character, or two hexadecimal
// digits.
func unescapeOne(rest string) (decoded byte, size int, err error) {
	if rest != "" && strings.IndexByte(` "#+,;<=>\`, rest[0]) >= 0 {
		return rest[0], 1, nil
	}
	if len(rest) >= 2 {
		if pair, err := hex.DecodeString(rest[:2]); err == nil {
			return pair[0], 2, nil
		}
	}
	return 0, 0, errors.New("has a backslash before neither a special character nor two hexadecimal digits")
}

// ParseOID reads an object identifier in dotted notation.
func ParseOID(text string) (asn1.ObjectIdentifier, error) {
	var id asn1.ObjectIdentifier
	for arc := range strings.SplitSeq(text, ".") {
		n, err := strconv.ParseUint(arc, 10, 31)
		if err != nil {
			return nil, fmt.Errorf("%q is not an object identifier", text)
		}
		id = append(id, int(n))
	}
	// ITU-T X.660: the first two arcs share an octet.
	if len(id) < 2 || id[0] > 2 || id[0] < 2 && id[1] > 39 {
		return nil, fmt.Errorf("%q is not an object identifier", text)
	}
	return id, nil
}
