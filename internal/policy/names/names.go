// Package names decides whether a policy permits the names in a certificate. Patterns are
// parsed once; matching depends only on the pattern, the name and the values of its
// variables.
package names

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Values are the values of the variables in patterns. An empty value means that the
// variable has no value.
type Values struct {
	Namespace, ServiceAccount, User, Node, Pod, ACMEAccount string
	// Services are the services that the pod may claim. {service} stands for any of them.
	Services                   []string
	NamespaceLabels, PodLabels map[string]string
	// Unknown names the fact, such as namespaces/shop, that a variable needs and
	// that is not known yet. Its keys are the variables without their KEY.
	Unknown map[string]string
}

// Result is the outcome of matching a name.
type Result struct {
	Matches bool
	// Because names the variable that prevents a match.
	Because string
	// Open is the fact that a variable needs and that is not known yet.
	Open string
}

// Or returns the better of two results: a match, else what may become one.
func (r Result) Or(other Result) Result {
	switch {
	case r.Matches || other.Matches:
		return Result{Matches: true}
	case r.Open != "":
		return r
	case other.Open != "":
		return other
	}
	return Result{Because: cmp.Or(r.Because, other.Because)}
}

// piece is a part of a pattern: a literal, a star or a variable.
type piece struct {
	literal       string
	star          bool
	variable, key string
}

// pattern is a sequence of pieces.
type pattern []piece

// The variables, and whether they have a KEY.
var variables = map[string]bool{
	"namespace": false, "serviceAccount": false, "user": false, "node": false, "pod": false, "service": false,
	"acmeAccount": false, "namespaceLabel": true, "podLabel": true,
}

const known = "{namespace}, {serviceAccount}, {user}, {node}, {pod}, {service}, {namespaceLabel:KEY}, {podLabel:KEY} and {acmeAccount}"

// parse parses text before any substitution: what stands in a value is never
// special.
func parse(text string) (pattern, error) {
	var p pattern
	literal := func(s string) {
		if n := len(p); n > 0 && p[n-1].literal != "" {
			p[n-1].literal += s
			return
		}
		p = append(p, piece{literal: s})
	}
	for text != "" {
		switch i := strings.IndexAny(text, "*{}"); {
		case i < 0:
			literal(text)
			text = ""
		case i > 0:
			literal(text[:i])
			text = text[i:]
		case text[0] == '*':
			p, text = append(p, piece{star: true}), text[1:]
		case strings.HasPrefix(text, "{{"), strings.HasPrefix(text, "}}"):
			literal(text[:1])
			text = text[2:]
		case text[0] == '}':
			return nil, errors.New("a } without a {: write }} for a literal brace")
		default:
			inside, rest, closed := strings.Cut(text[1:], "}")
			v, err := parseVariable(inside, closed)
			if err != nil {
				return nil, err
			}
			p, text = append(p, v), rest
		}
	}
	return p, nil
}

func parseVariable(inside string, closed bool) (piece, error) {
	name, key, hasKey := strings.Cut(inside, ":")
	needsKey, exists := variables[name]
	switch {
	case !closed:
		return piece{}, errors.New("a { without a }: write {{ for a literal brace")
	case !exists:
		return piece{}, fmt.Errorf("there is no variable {%s}: there are %s", inside, known)
	case needsKey != hasKey || hasKey && key == "":
		return piece{}, fmt.Errorf("{%s} is not valid: labels have a KEY, as in {namespaceLabel:example.com/team}, and other variables none", inside)
	}
	return piece{variable: name, key: key}, nil
}

func (p pattern) variables() []string {
	var names []string
	for _, one := range p {
		if one.variable != "" {
			names = append(names, one.variable)
		}
	}
	return names
}

func (p pattern) stars() bool {
	for _, one := range p {
		if one.star {
			return true
		}
	}
	return false
}

// literal returns the only text that the pattern matches, if it is a literal.
func (p pattern) literal() (string, bool) {
	switch {
	case len(p) == 0:
		return "", true
	case len(p) == 1 && !p[0].star && p[0].variable == "":
		return p[0].literal, true
	}
	return "", false
}

// alternatives calls try with v for each service that {service} can stand for.
func (p pattern) alternatives(v *Values, try func(service string) Result) Result {
	needs := false
	for _, one := range p {
		needs = needs || one.variable == "service"
	}
	if !needs || v == nil || len(v.Services) == 0 {
		return try("")
	}
	var found Result
	for _, service := range v.Services {
		if found = found.Or(try(service)); found.Matches {
			break
		}
	}
	return found
}

// fill returns the pattern with literals in place of its variables. valid returns what is
// wrong with a value at its place, or "". A pattern without a value for a variable does
// not match: it never becomes shorter.
func (p pattern) fill(v *Values, service string, valid func(p piece, value string) string) (pattern, Result) {
	if len(p.variables()) == 0 {
		return p, Result{Matches: true}
	}
	filled := make(pattern, len(p))
	for i, one := range p {
		if filled[i] = one; one.variable == "" {
			continue
		}
		value, open := v.value(one, service)
		switch {
		case open != "":
			return nil, Result{Open: open}
		case value == "":
			return nil, Result{Because: one.String() + " has no value"}
		}
		if wrong := valid(one, value); wrong != "" {
			return nil, Result{Because: fmt.Sprintf("%s is %q, which %s", one, value, wrong)}
		}
		filled[i] = piece{literal: value}
	}
	return filled, Result{Matches: true}
}

func (p piece) String() string {
	if p.key != "" {
		return "{" + p.variable + ":" + p.key + "}"
	}
	return "{" + p.variable + "}"
}

func (v *Values) value(p piece, service string) (value, open string) {
	if v == nil {
		return "", ""
	}
	if fact := v.Unknown[p.variable]; fact != "" {
		return "", fact
	}
	switch p.variable {
	case "namespace":
		return v.Namespace, ""
	case "serviceAccount":
		return v.ServiceAccount, ""
	case "user":
		return v.User, ""
	case "node":
		return v.Node, ""
	case "pod":
		return v.Pod, ""
	case "acmeAccount":
		return v.ACMEAccount, ""
	case "service":
		return service, ""
	case "namespaceLabel":
		return v.NamespaceLabels[p.key], ""
	case "podLabel":
		return v.PodLabels[p.key], ""
	}
	return "", ""
}

// glob reports whether text consists of the pieces, in which a star is a run of
// at least min characters (0 or 1). It takes time proportional to the product
// of their lengths at most.
func (p pattern) glob(text string, min int) bool {
	if literal, ok := p.literal(); ok {
		return text == literal
	}
	var tokens []token
	for _, one := range p {
		if one.star {
			if min == 1 {
				tokens = append(tokens, token{any: true})
			}
			tokens = append(tokens, token{star: true})
			continue
		}
		for i := range len(one.literal) {
			tokens = append(tokens, token{c: one.literal[i]})
		}
	}
	return match(tokens, text)
}

// token is a byte, any one byte, or any run of bytes.
type token struct {
	c         byte
	any, star bool
}

func match(tokens []token, text string) bool {
	t, star, mark := 0, -1, 0
	for i := 0; i < len(text); {
		switch {
		case t < len(tokens) && tokens[t].star:
			star, mark = t, i
			t++
		case t < len(tokens) && (tokens[t].any || tokens[t].c == text[i]):
			t++
			i++
		case star >= 0: // the last star takes one byte more
			mark++
			t, i = star+1, mark
		default:
			return false
		}
	}
	for t < len(tokens) && tokens[t].star {
		t++
	}
	return t == len(tokens)
}
