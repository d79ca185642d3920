package names

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"

	"github.com/certplane/certplane/internal/pki"
)

// CheckDNSName returns an error unless name is a DNS name that a certificate may have: no
// trailing dot and no empty label, at most 63 octets in a label and 253 in all, only ASCII
// letters, digits and hyphens, and not an IP address (RFC 5280 section 4.2.1.6). name is
// without the *. of a wildcard.
func CheckDNSName(name string) error {
	if isAddress(name) {
		return errors.New("is an IP address: ask for it as an IP address")
	}
	for _, c := range []byte(name) {
		if c > 127 {
			return errors.New("has characters other than ASCII: use its A-labels, which begin with xn--")
		}
	}
	switch {
	case strings.HasSuffix(name, "."):
		return errors.New("has a dot at its end")
	case strings.Contains(name, "*"):
		return errors.New("has a * elsewhere than in a first label *")
	case !pki.ValidDNSName(strings.ToLower(name)):
		return errors.New("is not a valid DNS name")
	}
	return nil
}

// isAddress reports whether name is an IP address. It first looks for a final digit, as in
// IPv4 addresses, or a colon, because parsing every name would be slow.
func isAddress(name string) bool {
	if name == "" || !strings.Contains(name, ":") && (name[len(name)-1] < '0' || name[len(name)-1] > '9') {
		return false
	}
	_, err := netip.ParseAddr(name)
	return err == nil
}

// CutWildcard returns the name below a first label *.
func CutWildcard(name string) (below string, isWildcard bool) { return strings.CutPrefix(name, "*.") }

// DNSPattern matches DNS names label by label. As a zone it matches a name and
// all names below it.
type DNSPattern struct {
	pattern pattern
	labels  []pattern
	zone    bool
	// plain is the name in lower case if the pattern was parsed as a zone, and has no
	// variables. It is also set for domains of e-mail addresses, which are not zones.
	plain string
	// deep: the first label is **, one or more labels.
	deep bool
}

// ParseZone parses a zone, which may have variables and no *.
func ParseZone(text string) (DNSPattern, error) {
	p, err := parseDNS(text)
	if err == nil && (p.deep || p.pattern.stars()) {
		return DNSPattern{}, fmt.Errorf("%q must not have a *: a zone has all names below it", text)
	}
	p.zone = true
	if name, isPlain := p.pattern.literal(); isPlain {
		p.plain = name
	}
	return p, err
}

// ParseDNS parses a pattern: a * in a label is any run of characters of this
// label, a label * is exactly one label, a first label ** one or more labels.
func ParseDNS(text string) (DNSPattern, error) { return parseDNS(text) }

func parseDNS(text string) (DNSPattern, error) {
	ascii, err := toASCII(text)
	if err != nil {
		return DNSPattern{}, err
	}
	p := DNSPattern{}
	rest, deep := strings.CutPrefix(ascii, "**.")
	if p.deep = deep; strings.Contains(rest, "**") {
		return DNSPattern{}, fmt.Errorf("%q contains ** other than as the first label", text)
	}
	if p.pattern, err = parse(rest); err != nil {
		return DNSPattern{}, err
	}
	p.labels = split(p.pattern, ".")
	for _, label := range p.labels {
		if err := checkLabel(label); err != nil {
			return DNSPattern{}, fmt.Errorf("%q: %w", text, err)
		}
	}
	if len(p.labels) == 1 && len(p.labels[0]) == 1 && p.labels[0][0].star && !p.deep {
		return DNSPattern{}, fmt.Errorf("%q matches names of one label only: leave patterns and zones out to permit every name", text)
	}
	return p, nil
}

// checkLabel checks the literals of a label. Those beside variables or stars
// are checked as parts.
func checkLabel(label pattern) error {
	if len(label) == 0 {
		return errors.New("has an empty label")
	}
	sample := ""
	for _, one := range label {
		sample += one.literal
		if one.literal == "" {
			sample += "x"
		}
	}
	if !pki.ValidDNSName(sample) {
		return fmt.Errorf("%q is not a label of a DNS name", sample)
	}
	return nil
}

// toASCII returns text in lower case, with A-labels (IDNA2008, RFC 5891).
func toASCII(text string) (string, error) {
	labels := strings.Split(text, ".")
	for i, label := range labels {
		if !isASCII(label) {
			if strings.ContainsAny(label, "{}*") {
				return "", fmt.Errorf("the label %q has characters other than ASCII beside a variable or a *", label)
			}
			ascii, err := idna.Registration.ToASCII(strings.ToLower(label))
			if err != nil {
				return "", fmt.Errorf("the label %q is not valid: %w", label, err)
			}
			labels[i] = ascii
		}
	}
	// Variables are case-sensitive: only text outside of braces is folded.
	var b strings.Builder
	depth := 0
	for _, c := range strings.Join(labels, ".") {
		switch c {
		case '{':
			depth++
		case '}':
			depth--
		default:
			if depth == 0 && 'A' <= c && c <= 'Z' {
				c += 'a' - 'A'
			}
		}
		b.WriteRune(c)
	}
	return b.String(), nil
}

func isASCII(text string) bool {
	for i := range len(text) {
		if text[i] > 127 {
			return false
		}
	}
	return true
}

// Variables returns the variables of the pattern, without their KEYs.
func (p DNSPattern) Variables() []string { return p.pattern.variables() }

// Match reports whether name, in any case, matches. name is not a wildcard.
func (p DNSPattern) Match(name string, v *Values) Result {
	if p.plain != "" && p.zone {
		return Result{Matches: isBelow(strings.ToLower(name), p.plain)}
	}
	labels := strings.Split(strings.ToLower(name), ".")
	return p.filled(v, func(want []pattern) bool { return p.matches(want, labels, p.zone) })
}

// isBelow reports whether name is the zone or below it. Both are in lower case.
func isBelow(name, zone string) bool {
	below, isSuffix := strings.CutSuffix(name, zone)
	return isSuffix && (below == "" || strings.HasSuffix(below, "."))
}

// MatchWildcard reports whether all names *.below are in the pattern, taken as
// a zone.
func (p DNSPattern) MatchWildcard(below string, v *Values) Result {
	labels := strings.Split(strings.ToLower(below), ".")
	return p.filled(v, func(want []pattern) bool { return p.matches(want, labels, true) })
}

// Overlaps reports whether any name *.below matches the pattern.
func (p DNSPattern) Overlaps(below string, v *Values) Result {
	labels := strings.Split(strings.ToLower(below), ".")
	return p.filled(v, func(want []pattern) bool {
		if p.matches(want, labels, true) {
			return true
		}
		if p.deep { // ** can be the label of the wildcard, or more
			return suffixMatches(want, labels, false)
		}
		return len(want) > 0 && suffixMatches(want[1:], labels, false) && len(want)-1 == len(labels)
	})
}

func (p DNSPattern) matches(want []pattern, labels []string, zone bool) bool {
	switch {
	case p.deep:
		return len(labels) > len(want) && suffixMatches(want, labels, true)
	case zone:
		return suffixMatches(want, labels, true)
	}
	return len(labels) == len(want) && suffixMatches(want, labels, true)
}

// suffixMatches compares the last labels. Without longer there must be no more.
func suffixMatches(want []pattern, labels []string, longer bool) bool {
	more := len(labels) - len(want)
	if more < 0 || more > 0 && !longer {
		return false
	}
	for i, label := range want {
		text, min := labels[more+i], 0
		if text == "" || text == "*" {
			return false
		}
		if !label.glob(text, min) {
			return false
		}
	}
	return true
}

// filled calls matches with the labels of the pattern, with values for its
// variables.
func (p DNSPattern) filled(v *Values, matches func(want []pattern) bool) Result {
	if len(p.pattern.variables()) == 0 {
		return Result{Matches: matches(p.labels)}
	}
	return p.pattern.alternatives(v, func(service string) Result {
		var want []pattern
		for _, label := range p.labels {
			filled, result := label.fill(v, service, p.valid(label))
			if !result.Matches {
				return result
			}
			if len(label) == 1 && label[0].variable != "" { // it may be a whole name
				for _, one := range strings.Split(strings.ToLower(filled[0].literal), ".") {
					want = append(want, pattern{{literal: one}})
				}
				continue
			}
			for i := range filled {
				filled[i].literal = strings.ToLower(filled[i].literal)
			}
			want = append(want, filled)
		}
		return Result{Matches: matches(want)}
	})
}

// valid returns the check of values for the variables of a label. {node} and
// {namespaceLabel:KEY} can be a whole name where they stand alone.
func (p DNSPattern) valid(label pattern) func(piece, string) string {
	alone := len(label) == 1
	return func(one piece, value string) string {
		whole := alone && (one.variable == "node" || one.variable == "namespaceLabel")
		switch {
		case !pki.ValidDNSName(strings.ToLower(value)):
			if whole {
				return "is not a DNS name"
			}
			return "is not a label of a DNS name"
		case !whole && strings.Contains(value, "."):
			return "is more than one label of a DNS name"
		}
		return ""
	}
}

// InZone reports whether name is the zone or below it, on label boundaries.
func InZone(name, zone string) bool {
	below, wildcard := CutWildcard(name)
	if pki.ValidDNSName(zone) { // most are written so; parsing them would be slow
		return CheckDNSName(below) == nil && isBelow(strings.ToLower(below), strings.ToLower(zone))
	}
	p, err := ParseZone(zone)
	if err != nil || len(p.Variables()) > 0 {
		return false
	}
	if wildcard {
		return CheckDNSName(below) == nil && p.MatchWildcard(below, nil).Matches
	}
	return CheckDNSName(name) == nil && p.Match(name, nil).Matches
}

// UnderPattern reports whether the text matches a pattern in which a * is any
// run of characters.
func UnderPattern(text, pattern string) bool {
	g, err := glob(pattern, 0)
	return err == nil && g.Match(text)
}

// SameNames reports whether both lists have the same names, compared without
// regard to case, order and repetition.
func SameNames(a, b []string) bool {
	set := func(list []string) map[string]bool {
		all := make(map[string]bool, len(list))
		for _, name := range list {
			all[strings.ToLower(name)] = true
		}
		return all
	}
	left, right := set(a), set(b)
	if len(left) != len(right) {
		return false
	}
	for name := range left {
		if !right[name] {
			return false
		}
	}
	return true
}
