package pki

import (
	"bytes"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
)

// More tags of a GeneralName (RFC 5280 section 4.2.1.6).
const (
	tagDirectory    = 4
	tagRegisteredID = 8
)

// oidEmailAddress is an attribute of subjects, oidMailbox the form of other names for
// e-mail addresses that are not ASCII (RFC 8398).
var (
	oidEmailAddress = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 9, 1}
	oidMailbox      = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 8, 9}
)

// form is the form of a name: the tag of a GeneralName, and the type of an other
// name.
type form struct {
	tag int
	id  string
}

func (f form) String() string {
	switch f.tag {
	case tagOtherName:
		return "other name of type " + f.id
	case tagEmail:
		return "e-mail address"
	case tagDNS:
		return "DNS name"
	case tagDirectory:
		return "directory name"
	case tagURI:
		return "URI"
	case tagIP:
		return "IP address"
	case tagRegisteredID:
		return "registered ID"
	}
	return fmt.Sprintf("name with tag %d", f.tag)
}

// constraints are the name constraints of one CA, of all forms. Whether the
// extension is critical does not matter (RFC 5280 section 6.1.4 (g)).
type constraints struct {
	ca                  *x509.Certificate
	permitted, excluded map[form][]tree
}

// tree is one subtree.
type tree struct {
	base []byte // the content of the name
	// limited is set if the tree has a minimum or maximum, which RFC 5280 does not
	// permit.
	limited bool
	// directory has the base of a tree of directory names, in both spellings.
	directory dn
}

// constraintsOf returns the name constraints of the CAs of a chain that have some.
func constraintsOf(chain []*x509.Certificate) ([]constraints, error) {
	var all []constraints
	for _, ca := range chain {
		found := findExtension(ca.Extensions, OIDNameConstraints)
		if found == nil {
			continue
		}
		one := constraints{ca: ca}
		var err error
		if one.permitted, one.excluded, err = parseConstraints(found.Value); err != nil {
			return nil, fmt.Errorf("%s: name constraints: %w", describe(ca), err)
		}
		all = append(all, one)
	}
	return all, nil
}

func parseConstraints(der []byte) (permitted, excluded map[form][]tree, err error) {
	parts, err := structure(der, 0, 2)
	if err != nil {
		return nil, nil, err
	}
	for _, part := range parts {
		trees, err := parseTrees(part.Bytes)
		switch {
		case err != nil || part.Class != asn1.ClassContextSpecific || !part.IsCompound:
			return nil, nil, errMalformed
		case part.Tag == 0 && permitted == nil && excluded == nil:
			permitted = trees
		case part.Tag == 1 && excluded == nil:
			excluded = trees
		default:
			return nil, nil, errMalformed
		}
	}
	return permitted, excluded, nil
}

func parseTrees(der []byte) (map[form][]tree, error) {
	subtrees, err := elements(der)
	if err != nil {
		return nil, err
	}
	trees := make(map[form][]tree)
	for _, subtree := range subtrees {
		members, err := structure(subtree.FullBytes, 1, 3)
		if err != nil {
			return nil, err
		}
		form, content, err := splitName(members[0])
		if err != nil {
			return nil, err
		}
		one := tree{base: content, limited: len(members) > 1}
		if form.tag == tagDirectory {
			if one.directory, err = parseDN(content); err != nil {
				return nil, err
			}
		}
		trees[form] = append(trees[form], one)
	}
	return trees, nil
}

// splitName returns the form of a GeneralName and its content: the octets of texts and
// addresses, the encoding of a directory name, and the value of an otherName.
func splitName(name asn1.RawValue) (form, []byte, error) {
	if name.Class != asn1.ClassContextSpecific {
		return form{}, nil, errMalformed
	}
	if name.Tag != tagOtherName {
		return form{tag: name.Tag}, name.Bytes, nil
	}
	var id asn1.ObjectIdentifier
	rest, err := asn1.Unmarshal(name.Bytes, &id)
	if err != nil {
		return form{}, nil, errMalformed
	}
	return form{tagOtherName, id.String()}, rest, nil
}

// generalNameOf is a name of a certificate.
type generalNameOf struct {
	form
	content []byte
	shown   string
	// unread is why no constraint of the form can be applied to it.
	unread error
}

// constrainedNames returns the names of a certificate that constraints are applied
// to: its subject, the e-mail addresses in it, and its alternative names. Without
// any DNS name, verifiers take the common name of an end entity as one.
func constrainedNames(cert *x509.Certificate) ([]generalNameOf, error) {
	var names []generalNameOf
	if !bytes.Equal(cert.RawSubject, emptyName[:]) {
		names = append(names, generalNameOf{form: form{tag: tagDirectory}, content: cert.RawSubject, shown: cert.Subject.String()})
	}
	if found := findExtension(cert.Extensions, OIDSubjectAltName); found != nil {
		alternatives, err := structure(found.Value, 0, len(found.Value))
		if err != nil {
			return nil, err
		}
		for _, alternative := range alternatives {
			form, content, err := splitName(alternative)
			if err != nil {
				return nil, err
			}
			names = append(names, generalNameOf{form: form, content: content, shown: shownName(form, content)})
		}
	}
	subject, err := subjectNames(cert, slices.ContainsFunc(names, func(n generalNameOf) bool { return n.tag == tagDNS }))
	return append(names, subject...), err
}

// subjectNames returns the names of other forms in a subject.
func subjectNames(cert *x509.Certificate, hasDNS bool) ([]generalNameOf, error) {
	rdns, err := elementsOfName(cert.RawSubject)
	if err != nil {
		return nil, err
	}
	var names []generalNameOf
	for _, attribute := range slices.Concat(rdns...) {
		switch {
		case attribute.id.Equal(oidEmailAddress):
			name := generalNameOf{form: form{tag: tagEmail}, content: attribute.value.Bytes, shown: string(attribute.value.Bytes)}
			if attribute.value.Tag != asn1.TagIA5String {
				name.unread = errors.New("is not an IA5 string in the subject")
			}
			names = append(names, name)
		case attribute.id.Equal(OIDCommonName) && !cert.IsCA && !hasDNS:
			if text, ok := textOf(attribute.value); ok && strings.Contains(text, ".") && ValidDNSName(text) {
				names = append(names, generalNameOf{form: form{tag: tagDNS}, content: []byte(text), shown: text})
			}
		}
	}
	return names, nil
}

func shownName(f form, content []byte) string {
	switch f.tag {
	case tagEmail, tagDNS, tagURI:
		return string(content)
	case tagIP:
		return net.IP(content).String()
	}
	return ""
}

// check returns an error if the constraints forbid one of the names of cert, or
// cannot be applied to it.
func (c constraints) check(cert *x509.Certificate) error {
	names, err := constrainedNames(cert)
	if err != nil {
		return fmt.Errorf("reading the names for name constraints: %w", err)
	}
	for _, name := range names {
		if err := c.checkName(name); err != nil {
			return fmt.Errorf("%v %q: %w the name constraints of the CA %s (RFC 5280 section 4.2.1.10)", name.form, name.shown, err, c.ca.Subject)
		}
	}
	return nil
}

// The verdicts about a name, to be followed by the name constraints.
var (
	errNotPermitted = errors.New("is not permitted by")
	errExcluded     = errors.New("is excluded by")
	errUnsupported  = errors.New("cannot be checked against")
)

func (c constraints) checkName(name generalNameOf) error {
	of := name.form
	if of.id == oidMailbox.String() && len(c.permitted[form{tag: tagEmail}])+len(c.excluded[form{tag: tagEmail}]) > 0 {
		return errUnsupported
	}
	permitted, excluded := c.permitted[of], c.excluded[of]
	match := matchers[of.tag]
	limited := func(t tree) bool { return t.limited }
	switch {
	case name.unread != nil:
		return fmt.Errorf("%w, so it %w", name.unread, errUnsupported)
	case len(permitted)+len(excluded) == 0:
		return nil
	case match == nil || slices.ContainsFunc(permitted, limited) || slices.ContainsFunc(excluded, limited):
		return errUnsupported
	}
	for _, t := range excluded {
		switch is, err := match(name.content, t, true); {
		case err != nil:
			return fmt.Errorf("%w, so it %w", err, errUnsupported)
		case is:
			return errExcluded
		}
	}
	for _, t := range permitted {
		switch is, err := match(name.content, t, false); {
		case err != nil:
			return fmt.Errorf("%w, so it %w", err, errUnsupported)
		case is:
			return nil
		}
	}
	if len(permitted) > 0 {
		return errNotPermitted
	}
	return nil
}

// matcher reports whether a name is within a tree. Where verifiers differ, the one
// that accepts less counts: excluded is set for the trees that are excluded.
type matcher func(name []byte, t tree, excluded bool) (bool, error)

// matchers contains the forms whose trees RFC 5280 defines. Names of other forms are refused
// if there is a tree of their form.
var matchers = map[int]matcher{
	tagEmail:     matchEmail,
	tagDNS:       matchDNS,
	tagDirectory: matchDirectory,
	tagURI:       matchURI,
	tagIP:        matchIP,
}

// matchDNS: "Any DNS name that can be constructed by simply adding zero or more
// labels to the left-hand side of the name satisfies the name constraint." A base
// with a leading dot needs at least one more label. A wildcard is excluded if one of
// its names is.
func matchDNS(name []byte, t tree, excluded bool) (bool, error) {
	dns, base := strings.ToLower(string(name)), strings.ToLower(string(t.base))
	if below, isWildcard := strings.CutPrefix(dns, "*"); excluded && isWildcard {
		if label, is := strings.CutSuffix(base, below); is && label != "" && !strings.Contains(label, ".") {
			return true, nil
		}
	}
	return base == "" || dns == base || isBelow(dns, base), nil
}

// isBelow reports whether a host is in a domain, which may begin with a dot.
func isBelow(host, domain string) bool {
	return strings.HasSuffix(host, "."+strings.TrimPrefix(domain, "."))
}

// matchHost: the base is one host, or with a leading dot, all hosts in a domain.
func matchHost(host, base string, excluded bool) bool {
	host, base = strings.ToLower(host), strings.ToLower(base)
	switch {
	case base == "":
		return excluded // RFC 5280 does not specify it
	case base[0] == '.':
		return isBelow(host, base)
	}
	return host == base
}

// matchEmail: the base is a mailbox, a host, or a domain with a leading dot.
func matchEmail(name []byte, t tree, excluded bool) (bool, error) {
	at := bytes.LastIndexByte(name, '@')
	if at < 0 {
		return false, errors.New("is not a mailbox")
	}
	local, host, base := string(name[:at]), string(name[at+1:]), string(t.base)
	if at := strings.LastIndexByte(base, '@'); at >= 0 {
		return (at == 0 || base[:at] == local) && strings.EqualFold(base[at+1:], host), nil
	}
	return matchHost(host, base, excluded), nil
}

// matchURI: the base is a host, or a domain with a leading dot. A URI without a host
// that has a name must be refused.
func matchURI(name []byte, t tree, excluded bool) (bool, error) {
	uri, err := url.Parse(string(name))
	switch {
	case err != nil || uri.Hostname() == "" || uri.User != nil:
		return false, errors.New("has no host alone")
	case net.ParseIP(uri.Hostname()) != nil:
		return false, errors.New("has an IP address instead of a host name")
	}
	return matchHost(uri.Hostname(), string(t.base), excluded), nil
}

func matchIP(name []byte, t tree, _ bool) (bool, error) {
	half := len(t.base) / 2
	if half != net.IPv4len && half != net.IPv6len || len(t.base)%2 != 0 {
		return false, errors.New("is constrained by a malformed range")
	}
	if len(name) != half {
		return false, nil
	}
	for i, octet := range name {
		if (octet^t.base[i])&t.base[half+i] != 0 {
			return false, nil
		}
	}
	return true, nil
}

// matchDirectory: the base is the beginning of the name.
func matchDirectory(name []byte, t tree, excluded bool) (bool, error) {
	parsed, err := parseDN(name)
	if err != nil {
		return false, errors.New("is malformed")
	}
	of := func(d dn) [][]string {
		if excluded {
			return d.wide
		}
		return d.narrow
	}
	whole, base := of(parsed), of(t.directory)
	return len(whole) >= len(base) && slices.EqualFunc(whole[:len(base)], base, slices.Equal[[]string]), nil
}
