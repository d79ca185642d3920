package pki

import (
	"encoding/asn1"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// dn is a distinguished name for comparisons: for each RDN, the sorted texts of its
// attributes. Both spellings ignore the ASN.1 type of texts and the amount of white
// space (RFC 5280 section 7.1).
type dn struct {
	// narrow ignores the case of ASCII letters only, as OpenSSL does.
	narrow [][]string
	// wide ignores the case of all letters and all kinds of white space.
	wide [][]string
}

// attribute is an attribute of a name as encoded.
type attribute struct {
	id    asn1.ObjectIdentifier
	value asn1.RawValue
}

// elementsOfName returns the attributes of each RDN.
func elementsOfName(der []byte) ([][]attribute, error) {
	if err := strictName(der); err != nil {
		return nil, err
	}
	sets, err := structure(der, 0, len(der))
	if err != nil {
		return nil, err
	}
	var name [][]attribute
	for _, set := range sets {
		members, err := elements(set.Bytes)
		if err != nil {
			return nil, err
		}
		var rdn []attribute
		for _, member := range members {
			pair, err := structure(member.FullBytes, 2, 2)
			if err != nil {
				return nil, err
			}
			id, err := parse[asn1.ObjectIdentifier](pair[0].FullBytes)
			if err != nil {
				return nil, err
			}
			rdn = append(rdn, attribute{id, pair[1]})
		}
		name = append(name, rdn)
	}
	return name, nil
}

func parseDN(der []byte) (dn, error) {
	rdns, err := elementsOfName(der)
	if err != nil {
		return dn{}, err
	}
	var name dn
	for _, rdn := range rdns {
		var narrow, wide []string
		for _, a := range rdn {
			text, isText := textOf(a.value)
			if !isText {
				raw := fmt.Sprintf("%v#%x", a.id, a.value.FullBytes)
				narrow, wide = append(narrow, raw), append(wide, raw)
				continue
			}
			narrow = append(narrow, fmt.Sprintf("%v=%s", a.id, narrowText(text)))
			wide = append(wide, fmt.Sprintf("%v=%s", a.id, normalText(text)))
		}
		slices.Sort(narrow)
		slices.Sort(wide)
		name.narrow, name.wide = append(name.narrow, narrow), append(name.wide, wide)
	}
	return name, nil
}

// narrowText folds the case of ASCII letters, replaces each run of ASCII white space
// within the text by one space, and removes surrounding white space.
func narrowText(text string) string {
	isSpace := func(c rune) bool { return c == ' ' || '\t' <= c && c <= '\r' }
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' {
			return c + 'a' - 'A'
		}
		return c
	}, strings.Join(strings.FieldsFunc(text, isSpace), " "))
}

// The types of texts that package asn1 has no names for.
const (
	tagVisibleString   = 26
	tagUniversalString = 28
)

// textOf returns the text of an attribute of one of the types that are compared by
// their characters.
func textOf(value asn1.RawValue) (string, bool) {
	if value.Class != asn1.ClassUniversal || value.IsCompound {
		return "", false
	}
	octets := value.Bytes
	switch value.Tag {
	case asn1.TagUTF8String, asn1.TagPrintableString, asn1.TagIA5String, tagVisibleString:
		return string(octets), utf8.Valid(octets)
	case asn1.TagT61String: // taken as Latin-1 everywhere
		runes := make([]rune, len(octets))
		for i, octet := range octets {
			runes[i] = rune(octet)
		}
		return string(runes), true
	case asn1.TagBMPString:
		units := make([]uint16, len(octets)/2)
		for i := range units {
			units[i] = uint16(octets[2*i])<<8 | uint16(octets[2*i+1])
		}
		return string(utf16.Decode(units)), len(octets)%2 == 0
	case tagUniversalString:
		runes := make([]rune, len(octets)/4)
		for i := range runes {
			runes[i] = rune(octets[4*i])<<24 | rune(octets[4*i+1])<<16 | rune(octets[4*i+2])<<8 | rune(octets[4*i+3])
		}
		return string(runes), len(octets)%4 == 0
	}
	return "", false
}
