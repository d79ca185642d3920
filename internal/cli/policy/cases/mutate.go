package cases

import (
	"context"
	"crypto/x509"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// mutate takes away each condition of a test's policies in turn, and runs the
// cases again. What no case notices survives.
func (r *runner) mutate(ctx context.Context, t *test) error {
	set := t.policies.Set()
	for i := range t.policies.Policies {
		p := &t.policies.Policies[i]
		if p.Object.Spec.Mode == v1alpha1.PolicyOff {
			continue
		}
		for _, m := range mutants(p.Object) {
			r.report.Mutants++
			noticed, err := r.noticed(ctx, t, changed(set, p.Object.Name, m.policy))
			if err != nil {
				return err
			}
			if !noticed {
				r.report.Survivors = append(r.report.Survivors, Condition{Test: t.document.File, Policy: p.Object.Name, At: m.at})
			}
		}
	}
	return nil
}

// noticed reports whether a case fails with other policies.
func (r *runner) noticed(ctx context.Context, t *test, set *certpolicy.Set) (bool, error) {
	for _, c := range t.cases {
		if !r.selects(c) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return false, err
		}
		d, err := c.decide(ctx, set, r.keys)
		if err != nil {
			return false, err
		}
		if compare(&c.spec.Expect, d) != "" {
			return true, nil
		}
	}
	return false, nil
}

// changed returns a set in which another policy, or none, is in the place of the
// one with a name.
func changed(set *certpolicy.Set, name string, instead *certpolicy.Policy) *certpolicy.Set {
	policies := slices.DeleteFunc(slices.Clone(set.Policies()), func(p *certpolicy.Policy) bool { return p.Name() == name })
	if instead != nil {
		policies = append(policies, instead)
	}
	return certpolicy.SetOf(policies, set.Exceptions())
}

// mutant is a policy without one of its conditions; nil is no policy at all.
type mutant struct {
	at     string
	policy *certpolicy.Policy
}

// mutants returns the policies that lack one condition. Those that are not valid
// are left out: the condition is needed for another reason.
func mutants(p *v1alpha1.CertificatePolicy) []mutant {
	all := []mutant{{at: "the whole"}}
	seen := map[string]bool{}
	for _, path := range removable(reflect.ValueOf(&p.Spec).Elem(), nil) {
		for len(path) > 0 {
			at := addressOf(p, path)
			without := p.DeepCopy()
			path.remove(reflect.ValueOf(&without.Spec).Elem())
			compiled, errs, _ := certpolicy.Compile(without)
			if len(errs) == 0 {
				if !seen[at] {
					all = append(all, mutant{at, compiled})
				}
				seen[at] = true
				break
			}
			// What cannot be removed alone is removed with what is around it.
			path = path[:len(path)-1]
			for len(path) > 0 && !path.removable(reflect.ValueOf(&p.Spec).Elem()) {
				path = path[:len(path)-1]
			}
		}
	}
	return all
}

// path leads to a field: the index of each field, or of an item of a list.
type path []int

// notConditions are fields that restrict nothing, by their names in JSON.
var notConditions = []string{
	"description", "effect", "mode", "replaces", "message", "messageExpression", "disclosure", "reason", "field", "name", "oid", "default",
	"count", "serviceAccounts", "renewals", "verb", "group", "resource", "subresource",
}

// defaults are values that mean the same as no value.
var defaults = []string{
	string(v1alpha1.LifetimeRefuse), string(v1alpha1.NameConstraintsOptional), "Username", string(v1alpha1.ApproveAutomatic), string(v1alpha1.KeyReuseAllow),
}

// removable returns the paths of everything inside value that can be removed.
func removable(value reflect.Value, at path) []path {
	var all []path
	for i := range value.NumField() {
		field, name := value.Field(i), jsonName(value.Type().Field(i))
		here := append(slices.Clone(at), i)
		if field.IsZero() || slices.Contains(notConditions, name) {
			continue
		}
		switch inner := reflect.Indirect(field); {
		case inner.Kind() == reflect.Struct && hasFields(inner):
			more := removable(inner, here)
			if len(more) == 0 && field.Kind() == reflect.Pointer && name != "approval" {
				more = []path{here} // it says something by being there
			}
			all = append(all, more...)
		case inner.Kind() == reflect.Slice && inner.Type().Elem().Kind() == reflect.Struct:
			for j := range inner.Len() {
				all = append(all, append(slices.Clone(here), j))
			}
		case inner.Kind() == reflect.String && slices.Contains(defaults, inner.String()):
		case name == "signers" && slices.Contains(inner.Interface().([]string), "*"):
		default:
			all = append(all, here)
		}
	}
	return all
}

// hasFields reports whether the fields of a struct are fields of the API: a
// duration or a selector is one value.
func hasFields(value reflect.Value) bool {
	return strings.HasSuffix(value.Type().PkgPath(), "/certplane/v1alpha1")
}

// jsonName returns the name of a field; "" of one whose fields are inline.
func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// remove removes what a path leads to.
func (p path) remove(value reflect.Value) {
	for i, index := range p {
		value = reflect.Indirect(value)
		last := i == len(p)-1
		switch {
		case value.Kind() == reflect.Slice && last:
			value.Set(reflect.AppendSlice(value.Slice(0, index), value.Slice(index+1, value.Len())))
		case value.Kind() == reflect.Slice:
			value = value.Index(index)
		case last && widest(value, index) != nil:
			value.Field(index).Set(reflect.ValueOf(widest(value, index)))
		case last:
			value.Field(index).SetZero()
		default:
			value = value.Field(index)
		}
	}
}

// widest returns what restricts nothing in place of a list that must be there;
// nil for other fields.
func widest(of reflect.Value, index int) []string {
	switch of.Interface().(type) {
	case v1alpha1.PolicyMatch:
		if jsonName(of.Type().Field(index)) == "signers" {
			return []string{"*"}
		}
	case v1alpha1.UsageConditions:
		if jsonName(of.Type().Field(index)) == "allowed" {
			return everyUsage()
		}
	}
	return nil
}

// everyUsage returns all usages of the API.
func everyUsage() []string {
	all := pki.Usages{Key: 1<<9 - 1} // RFC 5280 section 4.2.1.3
	for usage := x509.ExtKeyUsageAny; usage <= x509.ExtKeyUsageMicrosoftKernelCodeSigning; usage++ {
		all.Extended = append(all.Extended, usage)
	}
	return all.Names()
}

// removable reports whether a path leads to something optional.
func (p path) removable(value reflect.Value) bool {
	for _, index := range p {
		value = reflect.Indirect(value)
		if value.Kind() == reflect.Slice {
			value = value.Index(index)
			continue
		}
		value = value.Field(index)
	}
	return value.Kind() == reflect.Pointer || value.Kind() == reflect.Slice
}

// addressOf returns the address of a field, as violations and errors name it.
func addressOf(p *v1alpha1.CertificatePolicy, to path) string {
	var text strings.Builder
	value := reflect.ValueOf(&p.Spec).Elem()
	for _, index := range to {
		value = reflect.Indirect(value)
		if value.Kind() == reflect.Slice {
			value = value.Index(index)
			text.WriteString(itemName(value, index))
			continue
		}
		if name := jsonName(value.Type().Field(index)); name != "" {
			if text.Len() > 0 {
				text.WriteByte('.')
			}
			text.WriteString(name)
		}
		value = value.Field(index)
	}
	return text.String()
}

// itemName returns the address of an item: by its name if it has one.
func itemName(item reflect.Value, index int) string {
	for _, field := range []string{"Name", "OID"} {
		if name := item.FieldByName(field); name.IsValid() && name.Kind() == reflect.String && name.String() != "" && !strings.HasSuffix(item.Type().Name(), "AccessMatch") {
			return "[" + name.String() + "]"
		}
	}
	return fmt.Sprintf("[%d]", index)
}
