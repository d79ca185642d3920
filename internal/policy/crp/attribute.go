package crp

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/approverpolicy"
)

// attribute is what the values of an attribute may be.
type attribute struct {
	path     *field.Path
	required bool
	// limited is set if the policy has patterns, even if there are none of them.
	limited  bool
	patterns []wildcard
	// permitted are the patterns as a violation shows them.
	permitted string
	rules     []rule

	// valueField is the field of the patterns, nothing what a violation says if
	// neither they nor rules are given.
	valueField, nothing string
}

// newAttribute returns an attribute with a list of values. Without declared, it
// must be absent.
func newAttribute(path *field.Path, declared *approverpolicy.AllowedValues) attribute {
	a := attribute{path: path, valueField: "values", nothing: "no allowed values"}
	if declared == nil {
		return a
	}
	a.required, a.rules = isTrue(declared.Required), compileRules(declared.Validations)
	if declared.Values != nil {
		a.limited, a.patterns = true, parseWildcards(*declared.Values)
		a.permitted = strings.Join(*declared.Values, ", ")
	}
	return a
}

// newSingle returns an attribute with one value.
func newSingle(path *field.Path, declared *approverpolicy.AllowedValue) attribute {
	a := attribute{path: path, valueField: "value", nothing: "no allowed value"}
	if declared == nil {
		return a
	}
	a.required, a.rules = isTrue(declared.Required), compileRules(declared.Validations)
	if declared.Value != nil {
		a.limited, a.patterns, a.permitted = true, []wildcard{parseWildcard(*declared.Value)}, *declared.Value
	}
	return a
}

func isTrue(b *bool) bool { return b != nil && *b }

// checkList returns what is wrong with the values.
func (a *attribute) checkList(c *content, texts []string) field.ErrorList {
	if len(texts) == 0 {
		return a.checkAbsent(a.path)
	}
	return a.check(c, a.path, texts, texts)
}

// checkSingle returns what is wrong with the value. If there are several, each
// is checked.
func (a *attribute) checkSingle(c *content, v values) field.ErrorList {
	if v.err != nil {
		return field.ErrorList{field.Invalid(a.path, notText, v.err.Error())}
	}
	switch len(v.texts) {
	case 0:
		return a.checkText(c, a.path, "")
	case 1:
		return a.checkText(c, a.path, v.texts[0])
	}
	var errs field.ErrorList
	for i, text := range v.texts {
		errs = append(errs, a.checkText(c, a.path.Index(i), text)...)
	}
	return errs
}

func (a *attribute) checkText(c *content, path *field.Path, text string) field.ErrorList {
	if text == "" {
		return a.checkAbsent(path)
	}
	return a.check(c, path, text, []string{text})
}

func (a *attribute) checkAbsent(path *field.Path) field.ErrorList {
	if !a.required {
		return nil
	}
	return field.ErrorList{field.Required(path.Child("required"), "true")}
}

// check returns what is wrong with texts, which a violation shows as shown.
func (a *attribute) check(c *content, path *field.Path, shown any, texts []string) field.ErrorList {
	if a.permitsNone() {
		return field.ErrorList{field.Invalid(path, shown, a.nothing)}
	}
	var errs field.ErrorList
	if a.limited && !matchEach(a.patterns, texts) {
		errs = append(errs, field.Invalid(path.Child(a.valueField), shown, a.permitted))
	}
	for _, text := range texts {
		for i := range a.rules {
			if err := a.rules[i].check(c, path.Child("validations").Index(i), text); err != nil {
				errs = append(errs, err)
			}
		}
	}
	return errs
}

func (a *attribute) permitsNone() bool { return !a.limited && len(a.rules) == 0 }

// validate returns what is wrong with the attribute in a policy, where it is at
// path.
func (a *attribute) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if a.required && a.permitsNone() {
		errs = append(errs, field.Required(path.Child(a.valueField),
			"at least one of '"+a.valueField+"' or 'validations' must be defined if field is 'required'"))
	}
	for i, r := range a.rules {
		if r.err != nil {
			errs = append(errs, field.Invalid(path.Child("validations").Index(i), r.text, r.err.Error()))
		}
	}
	return errs
}

// byOID are attributes that are told apart by object identifiers.
type byOID struct {
	path *field.Path
	// entries are in the order of the policy.
	entries []entry
}

type entry struct {
	oid string
	attribute
}

func newByOID(path *field.Path, declared []approverpolicy.AllowedByOID) byOID {
	b := byOID{path: path}
	for _, d := range declared {
		b.entries = append(b.entries, entry{d.OID, newAttribute(path.Key(d.OID), &d.AllowedValues)})
	}
	return b
}

// check returns what is wrong with the values in a request. What no entry is
// about is denied.
func (b *byOID) check(c *content, in found) field.ErrorList {
	var errs field.ErrorList
	for _, g := range in.groups {
		one := b.find(g.oid)
		errs = append(errs, one.checkList(c, g.values)...)
	}
	for i := range b.entries {
		if !slices.Contains(in.present, b.entries[i].oid) {
			errs = append(errs, b.entries[i].checkAbsent(b.entries[i].path)...)
		}
	}
	return errs
}

// find returns the entry for an object identifier. The API permits only one; in
// a file the last one counts.
func (b *byOID) find(oid string) *attribute {
	for i := range slices.Backward(b.entries) {
		if b.entries[i].oid == oid {
			return &b.entries[i].attribute
		}
	}
	return new(newAttribute(b.path.Key(oid), nil))
}

// validate returns what is wrong with the entries in a policy. reserved returns
// why an object identifier must not be among them, or nothing.
func (b *byOID) validate(reserved func(oid string) string) field.ErrorList {
	var errs field.ErrorList
	for i := range b.entries {
		e, path := &b.entries[i], b.path.Index(i)
		if why := invalidOID(e.oid); why != "" {
			errs = append(errs, field.Invalid(path.Child("oid"), e.oid, why))
		} else if why := reserved(e.oid); why != "" {
			errs = append(errs, field.Invalid(path.Child("oid"), e.oid, why))
		}
		errs = append(errs, e.validate(path)...)
	}
	return errs
}
