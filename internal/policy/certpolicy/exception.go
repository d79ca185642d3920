package certpolicy

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

// Exception is a compiled exception. It is safe for concurrent use.
type Exception struct {
	name, uid string
	digest    string
	spec      *v1alpha1.CertificatePolicyExceptionSpec
	match     matchers
	needs     Needs
	broken    field.ErrorList
}

// Name returns the name of the exception.
func (x *Exception) Name() string { return x.name }

// Spec returns the specification. It must not be modified.
func (x *Exception) Spec() *v1alpha1.CertificatePolicyExceptionSpec { return x.spec }

// Err returns why the exception has no effect, nil if it has one.
func (x *Exception) Err() error {
	if len(x.broken) == 0 {
		return nil
	}
	return x.broken.ToAggregate()
}

// exceptionItem is the address of a condition.
var exceptionItem = regexp.MustCompile(`^(certificate\.[a-z]+(\.[a-zA-Z]+|\.other\[[0-9.]+\])*|(rules|quotas)\[[-a-z0-9]+\])$`)

// neverExcepted are the conditions without exceptions.
var neverExcepted = []string{"certificate.authority"}

// CompileException compiles an exception. It is also the validation of exceptions at a
// write, apart from the limit of notAfter. It always returns the exception; with
// errors, the exception has no effect.
func CompileException(x *v1alpha1.CertificatePolicyException) (*Exception, field.ErrorList) {
	spec := x.Spec.DeepCopy()
	c := &compiler{checker: &checker{}, policy: &Policy{name: x.Name, spec: &v1alpha1.CertificatePolicySpec{}}}
	path := field.NewPath("spec")
	if len(spec.Policies) == 0 {
		c.required(path.Child("policies"), "must name the policies")
	}
	if len(spec.Items) == 0 {
		c.required(path.Child("items"), "must have the addresses of conditions, such as certificate.names.dns or rules[no-wildcards]")
	}
	for i, item := range spec.Items {
		checkExceptionItem(c.checker, path.Child("items").Index(i), item)
	}
	if spec.Reason == "" {
		c.required(path.Child("reason"), "must say why")
	}
	if spec.NotAfter.IsZero() {
		c.required(path.Child("notAfter"), "must say when the exception ends")
	}
	match := path.Child("match")
	if !namesSomebody(&spec.Match) {
		c.required(match, "requesters or namespaces must be given")
	}
	if len(spec.Match.Access) > 0 {
		c.forbidden(match.Child("access"), "is only for policies")
	}
	matches := matchCompiler{c}.matchers(match, &spec.Match)
	matches.parts = append(matches.parts, matchCompiler{c}.matchConditions(match.Child("conditions"), spec.Match.Conditions)...)
	return &Exception{
		name: x.Name, uid: string(x.UID), digest: digestOf(x.Spec.DeepCopy()), spec: spec, match: matches, needs: c.policy.needs, broken: c.errs,
	}, c.errs
}

// namesSomebody reports whether a match selects users or namespaces, and does not only
// exclude some.
func namesSomebody(m *v1alpha1.PolicyMatch) bool {
	return m.Requesters != nil && len(m.Requesters.Users)+len(m.Requesters.Groups)+len(m.Requesters.ServiceAccounts) > 0 ||
		m.Namespaces != nil && (len(m.Namespaces.Names) > 0 || m.Namespaces.Selector != nil)
}

func checkExceptionItem(c *checker, path *field.Path, item string) {
	switch {
	case !exceptionItem.MatchString(item), strings.HasPrefix(item, "certificate.") && !isCondition(item):
		c.invalid(path, item, "must be the address of a condition, such as certificate.names.dns or rules[no-wildcards]")
	case slices.ContainsFunc(neverExcepted, func(never string) bool { return covers(item, never) || covers(never, item) }):
		c.forbidden(path, "the conditions on certificates of CAs hold without exception")
	}
}

// partsOfConditions are fields without their own address: a name in none of the zones
// of certificate.names.dns has the address certificate.names.dns.
var partsOfConditions = []string{"zones", "patterns", "matches", "cidrs", "domains", "oid", "types", "rsa", "default", "exceeding"}

// isCondition reports whether a condition has an address below certificate.
func isCondition(address string) bool {
	of := reflect.TypeFor[v1alpha1.CertificateConditions]()
	for _, name := range fieldNames.FindAllString(strings.TrimPrefix(address, "certificate"), -1) {
		name = strings.TrimPrefix(name, ".")
		if of = fieldType(of, name); of == nil || slices.Contains(partsOfConditions, name) {
			return false
		}
	}
	return true
}

// fieldNames finds the names of fields, without identifiers in brackets.
var fieldNames = regexp.MustCompile(`\.[a-zA-Z]+`)

// fieldType returns the type of the field with a name in JSON, or nil.
func fieldType(of reflect.Type, name string) reflect.Type {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(of) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type
		}
	}
	return nil
}

// covers reports whether an item covers an address: it is that address, or one
// above it.
func covers(item, at string) bool {
	return at == item || strings.HasPrefix(at, item+".") || strings.HasPrefix(at, item+"[")
}

// remaining returns how long the exception lasts; zero or less if it has ended.
func (x *Exception) remaining(now time.Time) time.Duration { return x.spec.NotAfter.Sub(now) }

// excepts reports whether the exception covers a violation of a policy. It does not
// cover the violation while that is not known.
func (x *Exception) excepts(e *evaluation, policy string, f *finding) bool {
	if len(x.broken) > 0 || x.remaining(e.in.Time) <= 0 || f.open != "" || f.reason == ReasonUnreadable {
		return false
	}
	if !slices.Contains(x.spec.Policies, policy) || !slices.ContainsFunc(x.spec.Items, func(item string) bool { return covers(item, f.at) }) {
		return false
	}
	if slices.ContainsFunc(neverExcepted, func(never string) bool { return covers(never, f.at) }) {
		return false
	}
	return x.hasValue(f) && x.about(e)
}

// hasValue reports whether the exception is for the value of a violation.
func (x *Exception) hasValue(f *finding) bool {
	same := equal
	if covers("certificate.names.dns", f.at) {
		same = strings.EqualFold
	}
	return len(x.spec.Values) == 0 || f.value != "" && slices.ContainsFunc(x.spec.Values, func(value string) bool { return same(value, f.value) })
}

// about reports whether the exception applies to the request. It returns false if that
// is not known.
func (x *Exception) about(e *evaluation) bool {
	about, known := e.exempt[x]
	if !known {
		about = x.match.evaluate(e) == matched{} && x.match.forSigner(SignerName(e.in.Request))
		e.exempt[x] = about
	}
	return about
}

// Left returns the remaining time of the exception in words.
func (x *Exception) Left(now time.Time) string {
	left := x.remaining(now)
	switch {
	case left <= 0:
		return "ended"
	case left < time.Minute:
		return "less than a minute"
	case left < 48*time.Hour:
		return left.Truncate(time.Minute).String()
	}
	return fmt.Sprintf("%d days", int(left.Hours()/24))
}
