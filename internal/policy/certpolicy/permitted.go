package certpolicy

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/names"
)

// matcher is one way in which a value can be permitted or excluded.
type matcher struct {
	form *matcherForm
	// text is the matcher in the policy.
	text  string
	match func(value string, v *names.Values) names.Result
	// below is for a requested wildcard of DNS, without its "*.".
	below     func(below string, v *names.Values) names.Result
	variables []string
}

// matcherForm is how messages refer to matchers of a kind.
type matcherForm struct {
	// missed is "is in none of the zones", would is "a name in %s".
	missed, would string
}

var (
	formZone    = &matcherForm{"is in none of the zones", "a name in %s"}
	formPattern = &matcherForm{"matches none of the patterns", "%s"}
	formRegexp  = &matcherForm{"matches none of the expressions", "what matches %s"}
	formNetwork = &matcherForm{"is in none of the networks", "an address in %s"}
	formDomain  = &matcherForm{"is in none of the domains", "an address of %s"}
)

// forms are in the order in which messages list them.
var forms = []*matcherForm{formZone, formDomain, formNetwork, formPattern, formRegexp}

// permitted is the condition on the values of a kind.
type permitted struct {
	// at is the address of the condition, kind the name of the kind of value in
	// the view of requests, such as dnsNames.
	at, kind string
	// reason is the reason for a value that is not permitted, absent for a missing
	// value, tooMany for more than max values.
	reason, absent, tooMany string

	matchers []matcher
	// missed describes that a value matches none of the matchers, would lists values
	// that match.
	missed     string
	would      []string
	expression *expression.Expression
	excluded   []matcher
	// check returns the error in any value of this kind.
	check func(value string) error
	// same compares a value with one that the expression yields.
	same func(a, b string) bool
	// wildcards permits *.NAME; cut finds them. nil: the kind has none.
	wildcards bool
	cut       func(value string) (below string, isWildcard bool)
	// exactly, if not nil, is the set of values.
	exactly  []string
	required bool
	max      *int32
	// one is set if there can only be one value: it has no index.
	one bool
}

// evaluate returns the findings about values.
func (p *permitted) evaluate(e *evaluation, values []string) []finding {
	var found []finding
	if p.max != nil && len(values) > int(*p.max) {
		found = append(found, finding{at: p.at + ".max", reason: p.tooMany, field: p.kind, would: []string{fmt.Sprintf("at most %d", *p.max)},
			message: fmt.Sprintf("%s has %d values, and the policy permits %d", p.kind, len(values), *p.max)})
	}
	if p.required && len(values) == 0 {
		found = append(found, finding{at: p.at + ".required", reason: p.absent, field: p.kind, would: p.would,
			message: p.kind + " must have a value"})
	}
	if p.exactly != nil && !sameSet(p.exactly, values) {
		found = append(found, finding{at: p.at + ".exactly", reason: p.reason, field: p.kind, value: strings.Join(values, ","), would: p.would,
			message: fmt.Sprintf("%s must be exactly %s", p.kind, quotedList(p.exactly))})
	}
	yielded := p.yields(e)
	for i, value := range values {
		if f, ok := p.judge(e, value, yielded); !ok {
			where := p.kind
			if !p.one {
				where = fmt.Sprintf("%s[%d]", p.kind, i)
			}
			f.field, f.value = where, value
			if f.open == "" {
				f.message = fmt.Sprintf("%s %s %s", where, quoted(value), f.message)
			}
			found = append(found, f)
		}
	}
	return found
}

// judge returns the finding about one value. Its message is the rest of a sentence
// about the value.
func (p *permitted) judge(e *evaluation, value string, yielded func() ([]string, *finding)) (finding, bool) {
	below, isWildcard := "", false
	if p.cut != nil {
		below, isWildcard = p.cut(value)
	}
	if p.check != nil {
		plain := value
		if isWildcard {
			plain = below
		}
		if err := p.check(plain); err != nil {
			return finding{at: p.at, reason: p.reason, message: err.Error()}, false
		}
	}
	if isWildcard && !p.wildcards {
		return finding{at: p.at + ".wildcards", reason: p.reason, message: "is a wildcard, and the policy permits none"}, false
	}
	for _, m := range p.excluded {
		result := m.result(value, below, isWildcard, &e.values)
		switch {
		case result.Matches:
			return finding{at: p.at + ".excluded", reason: p.reason, message: "is excluded by " + m.text}, false
		case result.Open != "":
			return finding{at: p.at + ".excluded", open: result.Open}, false
		}
	}
	if f, ok := p.matched(e, value, below, isWildcard); !ok {
		return f, false
	}
	return p.yielded(value, yielded)
}

func (m *matcher) result(value, below string, isWildcard bool, v *names.Values) names.Result {
	if isWildcard && m.below != nil {
		return m.below(below, v)
	}
	return m.match(value, v)
}

// matched reports whether one of the matchers permits the value. Without any,
// everything is permitted.
func (p *permitted) matched(e *evaluation, value, below string, isWildcard bool) (finding, bool) {
	if len(p.matchers) == 0 {
		return finding{}, true
	}
	var best names.Result
	for _, m := range p.matchers {
		if best = best.Or(m.result(value, below, isWildcard, &e.values)); best.Matches {
			return finding{}, true
		}
	}
	if best.Open != "" {
		return finding{at: p.at, open: best.Open}, false
	}
	message := p.missed
	if best.Because != "" {
		message += " (" + best.Because + ")"
	}
	return finding{at: p.at, reason: p.reason, would: p.would, message: message}, false
}

// yields returns a function that evaluates the expression, once for all values;
// nil if there is none.
func (p *permitted) yields(e *evaluation) func() ([]string, *finding) {
	if p.expression == nil {
		return nil
	}
	return sync.OnceValues(func() ([]string, *finding) { return e.texts(p.expression) })
}

// yielded reports whether the expression, if there is one, yields the value.
func (p *permitted) yielded(value string, yields func() ([]string, *finding)) (finding, bool) {
	if yields == nil {
		return finding{}, true
	}
	list, failed := yields()
	switch {
	case failed != nil:
		f := *failed
		f.at = p.at + ".expression"
		return f, false
	case slices.ContainsFunc(list, func(one string) bool { return p.same(one, value) }):
		return finding{}, true
	case len(list) == 0:
		return finding{at: p.at + ".expression", reason: p.reason, message: "is not permitted: the expression yields no values"}, false
	}
	return finding{at: p.at + ".expression", reason: p.reason, would: examples(list), message: "is not among " + quotedList(list)}, false
}

// missedText describes that a value matches none of the matchers, form by form.
func missedText(matchers []matcher) string {
	var parts []string
	for _, form := range forms {
		var texts []string
		for _, m := range matchers {
			if m.form == form {
				texts = append(texts, m.text)
			}
		}
		if len(texts) > 0 {
			parts = append(parts, form.missed+" "+enumerated(texts))
		}
	}
	return strings.Join(parts, " and ")
}

// describe notes the texts about the matchers for messages.
func (p *permitted) describe() {
	var texts []string
	for _, m := range p.matchers {
		texts = append(texts, fmt.Sprintf(m.form.would, m.text))
	}
	if p.exactly != nil {
		texts = p.exactly
	}
	p.missed, p.would = missedText(p.matchers), examples(texts)
}

func (p *permitted) variables() []string {
	var found []string
	for _, m := range slices.Concat(p.matchers, p.excluded) {
		found = append(found, m.variables...)
	}
	return found
}

func sameSet(a, b []string) bool {
	subset := func(a, b []string) bool {
		return !slices.ContainsFunc(a, func(one string) bool { return !slices.Contains(b, one) })
	}
	return subset(a, b) && subset(b, a)
}

func equal(a, b string) bool { return a == b }

func sameAddress(a, b string) bool {
	x, err := netip.ParseAddr(a)
	y, also := netip.ParseAddr(b)
	return err == nil && also == nil && x.Unmap() == y.Unmap()
}

// parsed is a pattern of package names.
type parsed interface {
	Match(value string, v *names.Values) names.Result
	Variables() []string
}

// matchersOf parses texts of one form.
func matchersOf[P parsed](c *checker, path *field.Path, form *matcherForm, texts []string, parse func(string) (P, error)) []matcher {
	var list []matcher
	for i, text := range texts {
		p, err := parse(text)
		if err != nil {
			c.invalid(path.Index(i), text, err.Error())
			continue
		}
		m := matcher{form: form, text: text, match: p.Match, variables: p.Variables()}
		if wild, ok := any(p).(interface {
			MatchWildcard(below string, v *names.Values) names.Result
		}); ok {
			m.below = wild.MatchWildcard
		}
		list = append(list, m)
	}
	return list
}

// excludedOf is matchersOf for DNS names that are excluded: a wildcard is
// excluded already if it could stand for such a name.
func excludedOf(c *checker, path *field.Path, form *matcherForm, texts []string, parse func(string) (names.DNSPattern, error)) []matcher {
	list := matchersOf(c, path, form, texts, parse)
	for i := range list {
		if p, err := parse(list[i].text); err == nil {
			list[i].below = p.Overlaps
		}
	}
	return list
}

// variableInRegexp finds texts that were perhaps meant as variables.
var variableInRegexp = regexp.MustCompile(`\{[a-zA-Z]+(:[^}]*)?\}`)

// regexps compiles regular expressions. lower is set if values are compared in
// lower case.
func regexps(c *checker, path *field.Path, texts []string, lower bool) []matcher {
	var list []matcher
	for i, text := range texts {
		compiled, err := names.CompileRegexp(text)
		if err != nil {
			c.invalid(path.Index(i), text, err.Error())
			continue
		}
		if strings.HasPrefix(text, "^") || strings.HasSuffix(text, "$") {
			c.warn(path.Index(i), "an expression always matches the whole value: leave ^ and $ out")
		}
		if strings.HasPrefix(text, ".*") {
			c.warn(path.Index(i), "an expression that begins with .* permits any beginning")
		}
		if variableInRegexp.MatchString(text) {
			c.warn(path.Index(i), "variables such as {namespace} are for patterns: an expression takes them literally")
		}
		list = append(list, matcher{form: formRegexp, text: text, match: regexpMatch(compiled, lower)})
	}
	return list
}

func regexpMatch(compiled *regexp.Regexp, lower bool) func(string, *names.Values) names.Result {
	return func(value string, _ *names.Values) names.Result {
		if lower {
			value = strings.ToLower(value)
		}
		return names.Result{Matches: compiled.MatchString(value)}
	}
}

// networks parses networks.
func networks(c *checker, path *field.Path, texts []string) []matcher {
	var list []matcher
	for i, text := range texts {
		prefix, err := names.ParseCIDR(text)
		if err != nil {
			c.invalid(path.Index(i), text, err.Error())
			continue
		}
		list = append(list, matcher{form: formNetwork, text: text, match: func(value string, _ *names.Values) names.Result {
			address, err := netip.ParseAddr(value)
			return names.Result{Matches: err == nil && prefix.Contains(address.Unmap())}
		}})
	}
	return list
}
