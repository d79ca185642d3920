package names

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/certplane/certplane/internal/pki"
)

// CheckURI returns an error unless text is a URI that all programs read alike: absolute,
// unchanged by parsing and printing, without a user, a fragment, segments that are empty,
// . or .., and encodings of characters that need none (RFC 3986 sections 2.3 and 3.3).
func CheckURI(text string) error {
	uri, err := url.Parse(text)
	switch {
	case err != nil || !isASCII(text):
		return errors.New("is not a valid URI")
	case !uri.IsAbs() || uri.String() != text || uri.Scheme != strings.ToLower(uri.Scheme):
		return errors.New("is not an absolute URI in its canonical form")
	case uri.User != nil || strings.Contains(uri.Host, "@"):
		return errors.New("has a user")
	case uri.Fragment != "" || strings.Contains(text, "#"):
		return errors.New("has a fragment")
	case uri.Host != strings.ToLower(uri.Host):
		return errors.New("has upper-case letters in its host")
	case uri.Opaque == "" && uri.Host == "" && uri.Path == "":
		return errors.New("has neither a host nor a path")
	}
	return checkPath(uri.EscapedPath())
}

func checkPath(path string) error {
	if path == "" || path == "/" {
		return nil
	}
	for _, segment := range strings.Split(strings.TrimPrefix(path, "/"), "/") {
		switch {
		case segment == "":
			return errors.New("has an empty segment in its path")
		case segment == "." || segment == "..":
			return errors.New("has a segment . or .. in its path")
		case needlessEncoding(segment):
			return errors.New("encodes a character that must not be encoded")
		}
	}
	return nil
}

// needlessEncoding reports whether a segment encodes an unreserved character or
// a slash, so that programs may read it differently.
func needlessEncoding(segment string) bool {
	for i := 0; i+2 < len(segment); i++ {
		if segment[i] != '%' {
			continue
		}
		decoded, err := url.PathUnescape(segment[i : i+3])
		if err != nil || len(decoded) != 1 || unreserved(decoded[0]) || decoded[0] == '/' {
			return true
		}
	}
	return false
}

func unreserved(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// URIPattern matches URIs. Scheme and host are literal. In the path, a * is one
// or more characters other than /, a final /** one or more segments.
type URIPattern struct {
	root     string // scheme and host
	pattern  pattern
	segments []pattern
	deep     bool
}

// ParseURI parses the pattern of a URI.
func ParseURI(text string) (URIPattern, error) {
	scheme, rest, found := strings.Cut(text, "://")
	host, path, hasPath := strings.Cut(rest, "/")
	if !found || host == "" || strings.ContainsAny(scheme+host, "*{}") {
		return URIPattern{}, fmt.Errorf("%q needs a literal scheme and host, as in spiffe://example.com/ns/*; use matches for other URIs", text)
	}
	p := URIPattern{root: scheme + "://" + host}
	if err := CheckURI(p.root); err != nil {
		return URIPattern{}, fmt.Errorf("%q %w", text, err)
	}
	if !hasPath {
		return p, nil
	}
	if path == "**" {
		p.deep = true
		return p, nil
	}
	path, p.deep = strings.CutSuffix(path, "/**")
	if strings.Contains(path, "**") || strings.ContainsAny(path, "?#") {
		return URIPattern{}, fmt.Errorf("%q: ** is only for the end of the path, and patterns have no query and no fragment", text)
	}
	var err error
	if p.pattern, err = parse(path); err != nil {
		return URIPattern{}, fmt.Errorf("%q: %w", text, err)
	}
	p.segments = split(p.pattern, "/")
	for _, segment := range p.segments {
		if len(segment) == 0 && len(p.segments) > 1 || len(segment) == 1 && (segment[0].literal == "." || segment[0].literal == "..") {
			return URIPattern{}, fmt.Errorf(`%q has a segment that is empty, "." or ".."`, text)
		}
		for _, one := range segment {
			if err := checkPath("/x" + one.literal); err != nil {
				return URIPattern{}, fmt.Errorf("%q %w", text, err)
			}
		}
	}
	return p, nil
}

// Variables returns the variables of the pattern, without their KEYs.
func (p URIPattern) Variables() []string { return p.pattern.variables() }

// Match reports whether a URI matches that CheckURI accepts.
func (p URIPattern) Match(text string, v *Values) Result {
	rest, found := strings.CutPrefix(text, p.root)
	if !found || strings.ContainsAny(rest, "?#") {
		return Result{}
	}
	var have []string
	if rest != "" {
		if rest[0] != '/' {
			return Result{}
		}
		have = strings.Split(rest[1:], "/")
	}
	return p.pattern.alternatives(v, func(service string) Result {
		var want []pattern
		for _, segment := range p.segments {
			filled, result := segment.fill(v, service, validSegment)
			if !result.Matches {
				return result
			}
			want = append(want, filled)
		}
		return Result{Matches: p.matches(want, have)}
	})
}

func validSegment(_ piece, value string) string {
	if value == "." || value == ".." || strings.ContainsFunc(value, func(c rune) bool { return c > 127 || !unreserved(byte(c)) && !strings.ContainsRune("!$&'()*+,;=:@", c) }) {
		return "is not a segment of a path"
	}
	return ""
}

func (p URIPattern) matches(want []pattern, have []string) bool {
	switch {
	case p.deep && len(have) <= len(want), !p.deep && len(have) != len(want):
		return false
	}
	for i, segment := range want {
		if !segment.glob(have[i], 1) {
			return false
		}
	}
	for _, more := range have[len(want):] {
		if more == "" {
			return false
		}
	}
	return true
}

// CheckEmail returns an error unless text is an e-mail address that a certificate may have
// (RFC 5280 section 4.2.1.6): one @, and a domain that is a DNS name.
func CheckEmail(text string) error {
	if strings.Count(text, "@") != 1 || !pki.ValidMailbox(text[:strings.IndexByte(text, '@')]+strings.ToLower(text[strings.IndexByte(text, '@'):])) {
		return errors.New("is not a valid e-mail address")
	}
	return nil
}

// Domain matches the domain of an e-mail address, exactly.
type Domain struct{ name DNSPattern }

// ParseDomain parses a domain, which may have variables.
func ParseDomain(text string) (Domain, error) {
	p, err := ParseZone(text)
	p.zone = false
	return Domain{p}, err
}

// Match reports whether the address, which CheckEmail accepts, is of the
// domain.
func (d Domain) Match(address string, v *Values) Result {
	_, domain, _ := strings.Cut(address, "@")
	return d.name.Match(domain, v)
}

// Variables returns the variables of the domain, without their KEYs.
func (d Domain) Variables() []string { return d.name.Variables() }

// EmailPattern matches e-mail addresses. A * is any run of characters other
// than @. The domain is compared without regard to case.
type EmailPattern struct{ local, domain pattern }

// ParseEmail parses the pattern of an e-mail address.
func ParseEmail(text string) (EmailPattern, error) {
	local, domain, found := strings.Cut(text, "@")
	if !found || local == "" || domain == "" || strings.Contains(domain, "@") {
		return EmailPattern{}, fmt.Errorf("%q must have one @, as in *@example.com", text)
	}
	folded, err := toASCII(domain)
	if err != nil {
		return EmailPattern{}, fmt.Errorf("%q: %w", text, err)
	}
	var p EmailPattern
	if p.local, err = parse(local); err != nil {
		return EmailPattern{}, fmt.Errorf("%q: %w", text, err)
	}
	if p.domain, err = parse(folded); err != nil {
		return EmailPattern{}, fmt.Errorf("%q: %w", text, err)
	}
	return p, nil
}

// Variables returns the variables of the pattern, without their KEYs.
func (p EmailPattern) Variables() []string {
	return append(p.local.variables(), p.domain.variables()...)
}

// Match reports whether an address matches that CheckEmail accepts.
func (p EmailPattern) Match(address string, v *Values) Result {
	local, domain, _ := strings.Cut(address, "@")
	both := append(append(pattern{}, p.local...), p.domain...)
	valid := func(_ piece, value string) string {
		if strings.ContainsAny(value, "@ ") {
			return "is not a part of an e-mail address"
		}
		return ""
	}
	return both.alternatives(v, func(service string) Result {
		left, result := p.local.fill(v, service, valid)
		if !result.Matches {
			return result
		}
		right, result := p.domain.fill(v, service, valid)
		if result.Matches {
			result.Matches = left.glob(local, 0) && lowered(right).glob(strings.ToLower(domain), 0)
		}
		return result
	})
}

func lowered(p pattern) pattern {
	lower := make(pattern, len(p))
	for i, one := range p {
		lower[i] = one
		lower[i].literal = strings.ToLower(one.literal)
	}
	return lower
}

// ParseCIDR parses a network in its canonical form: without bits of hosts.
func ParseCIDR(text string) (netip.Prefix, error) {
	network, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return netip.Prefix{}, fmt.Errorf("%q is not a network, such as 10.0.0.0/8", text)
	case network.Addr().Is4In6():
		return netip.Prefix{}, fmt.Errorf("%q is an IPv4 network in IPv6 form: write it as IPv4", text)
	case network.Masked() != network:
		return netip.Prefix{}, fmt.Errorf("%q has bits of hosts: write %s", text, network.Masked())
	}
	return network, nil
}
