package pki

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"unicode/utf8"
)

// AltNames are the alternative names of a subject, of the supported kinds.
type AltNames struct {
	DNSNames       []string
	EmailAddresses []string
	IPAddresses    []net.IP
	URIs           []*url.URL
	OtherNames     []OtherName
}

// OtherName is a name whose form its type defines, as a UTF-8 string. A user
// principal name is one: type 1.3.6.1.4.1.311.20.2.3.
type OtherName struct {
	Type  asn1.ObjectIdentifier
	Value string
}

// String returns the type, an equals sign and the value.
func (o OtherName) String() string { return o.Type.String() + "=" + o.Value }

// The tags of a GeneralName (RFC 5280 section 4.2.1.6).
const (
	tagOtherName = 0
	tagEmail     = 1
	tagDNS       = 2
	tagURI       = 6
	tagIP        = 7
)

// encode returns the value of a subjectAltName extension, nil without names.
func (n AltNames) encode() ([]byte, error) {
	var names []asn1.RawValue
	texts := func(tag int, values []string) {
		for _, value := range values {
			names = append(names, generalName(tag, []byte(value)))
		}
	}
	texts(tagDNS, n.DNSNames)
	texts(tagEmail, n.EmailAddresses)
	for _, ip := range n.IPAddresses {
		names = append(names, generalName(tagIP, octets(ip)))
	}
	for _, uri := range n.URIs {
		texts(tagURI, []string{uri.String()})
	}
	for _, name := range names {
		if err := checkGeneralName(name); err != nil {
			return nil, err
		}
	}
	for _, other := range n.OtherNames {
		name, err := other.encode()
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil, nil
	}
	return asn1.Marshal(names)
}

func generalName(tag int, value []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: value}
}

// checkGeneralName checks that names that are texts are IA5 strings.
func checkGeneralName(name asn1.RawValue) error {
	if name.Tag == tagIP {
		if len(name.Bytes) != net.IPv4len && len(name.Bytes) != net.IPv6len {
			return errors.New("IP address is malformed")
		}
		return nil
	}
	for _, c := range name.Bytes {
		if c >= utf8.RuneSelf {
			return fmt.Errorf("name %q has characters other than ASCII: international names need their ASCII form (punycode)", name.Bytes)
		}
	}
	return nil
}

// octets returns an address in its shortest form; RFC 5280 section 4.2.1.6
// requires four octets for IPv4.
func octets(ip net.IP) []byte {
	if short := ip.To4(); short != nil {
		return short
	}
	return ip
}

func (o OtherName) encode() (asn1.RawValue, error) {
	oid, err := asn1.Marshal(o.Type)
	if err != nil {
		return asn1.RawValue{}, fmt.Errorf("type of other name %v: %w", o.Type, err)
	}
	value, err := asn1.MarshalWithParams(o.Value, "utf8,explicit,tag:0")
	if err != nil {
		return asn1.RawValue{}, fmt.Errorf("value of other name %v: %w", o.Type, err)
	}
	name := generalName(tagOtherName, append(oid, value...))
	name.IsCompound = true
	return name, nil
}

// OtherNames returns the names of forms outside of X.509 among the extensions of a
// request or a certificate. Those whose values are not texts have an empty value.
func OtherNames(extensions []pkix.Extension) ([]OtherName, error) {
	names := readOtherNames(extensions)
	if errors.Is(names.Err, errUnreadNames) {
		return names.Value, nil
	}
	return names.Value, names.Err
}

// errUnreadNames is about names whose content is not in a Request.
var errUnreadNames = errors.New("has names of other kinds than DNS, IP, URI, e-mail and other names that are texts")

func readOtherNames(extensions []pkix.Extension) Extension[[]OtherName] {
	return read(extensions, OIDSubjectAltName, func(value []byte) (others []OtherName, err error) {
		var names []asn1.RawValue
		if rest, err := asn1.Unmarshal(value, &names); err != nil || len(rest) > 0 {
			return nil, errors.New("the subjectAltName extension is malformed")
		}
		for _, name := range names {
			switch {
			case name.Class != asn1.ClassContextSpecific, name.IsCompound != (name.Tag == tagOtherName):
				// The standard library ignores texts in parts, which DER does not have;
				// programs that read BER join them.
				err = errUnreadNames
			case name.Tag == tagOtherName:
				other, whole, bad := parseOtherName(name.Bytes)
				if bad != nil {
					return nil, bad
				}
				if others = append(others, other); !whole {
					err = errUnreadNames
				}
			case !slices.Contains([]int{tagEmail, tagDNS, tagURI, tagIP}, name.Tag):
				err = errUnreadNames
			}
		}
		return others, err
	})
}

// parseOtherName parses an other name. whole reports whether the value is a
// text.
func parseOtherName(der []byte) (name OtherName, whole bool, err error) {
	rest, err := asn1.Unmarshal(der, &name.Type)
	if err != nil {
		return OtherName{}, false, errors.New("the type of an other name is malformed")
	}
	var value string
	if rest, err := asn1.UnmarshalWithParams(rest, &value, "utf8,explicit,tag:0"); err == nil && len(rest) == 0 {
		name.Value, whole = value, true
	}
	return name, whole, nil
}

// NameConstraints limit the names for which a CA may issue (RFC 5280 section
// 4.2.1.10).
type NameConstraints struct {
	// Critical makes verifiers that do not support the constraints refuse the
	// CA. The RFC requires it; some verifiers are older.
	Critical            bool
	Permitted, Excluded NameTrees
}

// NameTrees are names, each including all names below it.
type NameTrees struct {
	DNSDomains     []string
	IPRanges       []*net.IPNet
	EmailAddresses []string
	URIDomains     []string
}

// nameConstraints is the extension's value.
type nameConstraints struct {
	Permitted []generalSubtree `asn1:"optional,tag:0"`
	Excluded  []generalSubtree `asn1:"optional,tag:1"`
}

type generalSubtree struct{ Base asn1.RawValue }

// ReadNameConstraints returns the name constraints among the extensions of a
// request or a certificate, nil if there are none. Constraints that it cannot
// return completely are an error: trees of other kinds of names, those with a
// minimum or maximum, and other encodings than DER.
func ReadNameConstraints(extensions []pkix.Extension) (*NameConstraints, error) {
	found := findExtension(extensions, OIDNameConstraints)
	if found == nil {
		return nil, nil
	}
	value, err := parse[nameConstraints](found.Value)
	if err != nil {
		return nil, errMalformedConstraints
	}
	read := NameConstraints{Critical: found.Critical}
	if read.Permitted, err = readTrees(value.Permitted); err != nil {
		return nil, err
	}
	if read.Excluded, err = readTrees(value.Excluded); err != nil {
		return nil, err
	}
	// Trees of several kinds may be in any order, but nothing may be left over.
	again, err := asn1.Marshal(value)
	if err != nil || !bytes.Equal(again, found.Value) || len(value.Permitted)+len(value.Excluded) == 0 {
		return nil, errMalformedConstraints
	}
	return &read, nil
}

var errMalformedConstraints = errors.New("the nameConstraints extension is malformed")

func readTrees(subtrees []generalSubtree) (NameTrees, error) {
	var trees NameTrees
	for _, tree := range subtrees {
		base := tree.Base
		if base.Class != asn1.ClassContextSpecific || base.IsCompound {
			return NameTrees{}, errors.New("the name constraints have trees of other kinds than DNS, IP, URI and e-mail")
		}
		switch text := string(base.Bytes); base.Tag {
		case tagDNS:
			trees.DNSDomains = append(trees.DNSDomains, text)
		case tagEmail:
			trees.EmailAddresses = append(trees.EmailAddresses, text)
		case tagURI:
			trees.URIDomains = append(trees.URIDomains, text)
		case tagIP:
			half := len(base.Bytes) / 2
			network := &net.IPNet{IP: base.Bytes[:half], Mask: base.Bytes[half:]}
			if ones, bits := network.Mask.Size(); half != net.IPv4len && half != net.IPv6len || ones == 0 && bits == 0 {
				return NameTrees{}, errors.New("the name constraints have a malformed IP range")
			}
			trees.IPRanges = append(trees.IPRanges, network)
		default:
			return NameTrees{}, errors.New("the name constraints have trees of other kinds than DNS, IP, URI and e-mail")
		}
	}
	return trees, nil
}

// encode returns the value of a nameConstraints extension, nil without names, because an
// empty extension is not valid (RFC 5280 section 4.2.1.10).
func (c NameConstraints) encode() ([]byte, error) {
	value := nameConstraints{Permitted: c.Permitted.subtrees(), Excluded: c.Excluded.subtrees()}
	if len(value.Permitted)+len(value.Excluded) == 0 {
		return nil, nil
	}
	for _, tree := range append(bytesOf(value.Permitted), bytesOf(value.Excluded)...) {
		if bytes.ContainsFunc(tree, func(c rune) bool { return c >= utf8.RuneSelf }) {
			return nil, fmt.Errorf("name constraint %q has characters other than ASCII", tree)
		}
	}
	return asn1.Marshal(value)
}

// bytesOf returns the subtrees that are texts.
func bytesOf(trees []generalSubtree) [][]byte {
	var texts [][]byte
	for _, tree := range trees {
		if tree.Base.Tag != tagIP {
			texts = append(texts, tree.Base.Bytes)
		}
	}
	return texts
}

func (t NameTrees) subtrees() []generalSubtree {
	var trees []generalSubtree
	texts := func(tag int, values []string) {
		for _, value := range values {
			trees = append(trees, generalSubtree{generalName(tag, []byte(value))})
		}
	}
	texts(tagDNS, t.DNSDomains)
	for _, network := range t.IPRanges {
		address := append(octets(network.IP), network.Mask...)
		trees = append(trees, generalSubtree{generalName(tagIP, address)})
	}
	texts(tagEmail, t.EmailAddresses)
	texts(tagURI, t.URIDomains)
	return trees
}
