package names

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// TextPattern matches a text as a whole. A * is any run of characters.
type TextPattern struct{ pattern pattern }

// ParseText parses the pattern of a text.
func ParseText(text string) (TextPattern, error) {
	if text == "" {
		return TextPattern{}, errors.New("must not be empty")
	}
	if !utf8.ValidString(text) {
		return TextPattern{}, errors.New("must be UTF-8")
	}
	p, err := parse(text)
	return TextPattern{p}, err
}

// Match reports whether text matches, case-sensitively.
func (t TextPattern) Match(text string, v *Values) Result {
	return t.pattern.alternatives(v, func(service string) Result {
		filled, result := t.pattern.fill(v, service, func(piece, string) string { return "" })
		if result.Matches {
			result.Matches = filled.glob(text, 0)
		}
		return result
	})
}

// Variables returns the variables of the pattern, without their KEYs.
func (t TextPattern) Variables() []string { return t.pattern.variables() }

// Glob is a pattern without variables.
type Glob struct {
	pattern pattern
	// segments are the parts between slashes.
	segments []pattern
	all      bool
	min      int
}

// ParseSigner parses a pattern of signer names: a * is one or more characters
// other than /, and a lone * is every name.
func ParseSigner(text string) (Glob, error) {
	switch {
	case text == "":
		return Glob{}, errors.New("must not be empty")
	case text == "*":
		return Glob{all: true}, nil
	case strings.Count(text, "/") < 1 || strings.HasPrefix(text, "/") || strings.HasSuffix(text, "/"):
		return Glob{}, fmt.Errorf("%q is not a signer name: it has a domain, a slash and a path, as in example.com/web; a lone * is every signer", text)
	}
	return glob(text, 1)
}

// ParseNamespace parses a pattern of the names of namespaces and service
// accounts: a * is any run of characters.
func ParseNamespace(text string) (Glob, error) {
	if strings.ContainsAny(text, "/ .") || text == "" {
		return Glob{}, fmt.Errorf("%q is not the name of a namespace, in which a * is any run of characters", text)
	}
	return glob(text, 0)
}

// ParseUser parses a pattern of users or groups: exact, or with one * at the
// start or the end.
func ParseUser(text string) (Glob, error) {
	inner := strings.TrimSuffix(strings.TrimPrefix(text, "*"), "*")
	if text == "" || strings.Contains(inner, "*") || len(text) > len(inner)+1 {
		return Glob{}, fmt.Errorf("%q must be a name, which may have one * at its start or its end", text)
	}
	return glob(text, 0)
}

// glob parses a text in which only * is special.
func glob(text string, min int) (Glob, error) {
	g := Glob{min: min}
	for i, literal := range strings.Split(text, "*") {
		if i > 0 {
			g.pattern = append(g.pattern, piece{star: true})
		}
		if literal != "" {
			g.pattern = append(g.pattern, piece{literal: literal})
		}
	}
	g.segments = split(g.pattern, "/")
	return g, nil
}

// Match reports whether name matches.
func (g Glob) Match(name string) bool {
	if g.all {
		return true
	}
	if literal, isLiteral := g.Literal(); isLiteral {
		return literal == name
	}
	if g.min == 0 {
		return g.pattern.glob(name, 0)
	}
	if literal, ok := g.pattern.literal(); ok {
		return name == literal
	}
	// A star does not cross a slash, so the parts match each on their own.
	if len(g.segments) != strings.Count(name, "/")+1 {
		return false
	}
	i := 0
	for part := range strings.SplitSeq(name, "/") {
		if !g.segments[i].glob(part, g.min) {
			return false
		}
		i++
	}
	return true
}

// Regexp returns a regular expression in the syntax of RE2 that, for a name as a
// whole, matches what the pattern does.
func (g Glob) Regexp() string {
	star := "(?s:.*)"
	if g.all {
		return star
	}
	if g.min > 0 {
		star = "[^/]+"
	}
	var b strings.Builder
	for _, one := range g.pattern {
		if one.star {
			b.WriteString(star)
		} else {
			b.WriteString(regexp.QuoteMeta(one.literal))
		}
	}
	return b.String()
}

// Literal returns the name if the pattern is one.
func (g Glob) Literal() (string, bool) {
	if g.all {
		return "", false
	}
	return g.pattern.literal()
}

// split splits a pattern at a separator in its literals.
func split(p pattern, separator string) []pattern {
	parts := []pattern{nil}
	for _, one := range p {
		if one.literal == "" {
			parts[len(parts)-1] = append(parts[len(parts)-1], one)
			continue
		}
		for i, literal := range strings.Split(one.literal, separator) {
			if i > 0 {
				parts = append(parts, nil)
			}
			if literal != "" {
				parts[len(parts)-1] = append(parts[len(parts)-1], piece{literal: literal})
			}
		}
	}
	return parts
}

// ServiceAccount matches the namespace and the name of service accounts.
type ServiceAccount struct{ namespace, name Glob }

// ParseServiceAccount parses NAMESPACE/NAME.
func ParseServiceAccount(text string) (ServiceAccount, error) {
	namespace, name, found := strings.Cut(text, "/")
	if !found || namespace == "" || name == "" || strings.Contains(name, "/") {
		return ServiceAccount{}, fmt.Errorf("%q must be NAMESPACE/NAME, as in shop/web; a * in either part is any run of characters", text)
	}
	left, _ := glob(namespace, 0)
	right, _ := glob(name, 0)
	return ServiceAccount{left, right}, nil
}

// Match reports whether the service account matches.
func (s ServiceAccount) Match(namespace, name string) bool {
	return s.namespace.Match(namespace) && s.name.Match(name)
}

// maxExpression is the longest regular expression, in characters.
const maxExpression = 512

// CompileRegexp compiles a regular expression (RE2) that must match as a whole.
func CompileRegexp(text string) (*regexp.Regexp, error) {
	switch {
	case text == "":
		return nil, errors.New("must not be empty")
	case utf8.RuneCountInString(text) > maxExpression:
		return nil, fmt.Errorf("has more than %d characters", maxExpression)
	}
	if _, err := regexp.Compile(text); err != nil { // before it is put in parentheses, which could balance its own
		return nil, err
	}
	return regexp.Compile(`\A(?:` + text + `)\z`)
}
