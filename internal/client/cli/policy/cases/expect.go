package cases

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
)

var outcomes = []v1alpha1.DecisionOutcome{
	v1alpha1.OutcomeApprove, v1alpha1.OutcomeDeny, v1alpha1.OutcomeNeedPeople, v1alpha1.OutcomeWait, v1alpha1.OutcomeLeave,
}

// checkExpectation refuses outcomes that do not exist.
func checkExpectation(e *v1alpha1.PolicyTestExpectation) error {
	all := []v1alpha1.DecisionOutcome{e.Outcome}
	for _, outcome := range e.Shadow {
		all = append(all, outcome)
	}
	for _, outcome := range all {
		if outcome != "" && !slices.Contains(outcomes, outcome) {
			return fmt.Errorf("the outcome %q must be one of Approve, Deny, NeedPeople, Wait and Leave", outcome)
		}
	}
	return nil
}

// errNothingExpected reports a case that could not fail.
var errNothingExpected = errors.New("expect: must contain at least the outcome; certplane policy test --update writes it")

// compare returns the difference between the expected and the actual decision, or empty
// if they agree.
func compare(e *v1alpha1.PolicyTestExpectation, d *v1alpha1.PolicyDecision) string {
	wanted, got := *e, v1alpha1.PolicyTestExpectation{}
	whole := expectationOf(d)
	if e.Outcome != "" {
		got.Outcome = whole.Outcome
	}
	if e.Policy != "" {
		got.Policy = whole.Policy
	}
	if e.Reason != "" {
		got.Reason = whole.Reason
	}
	if e.Violations != nil {
		wanted.Violations, got.Violations = alignViolations(e.Violations, whole.Violations)
	}
	if e.Missing != nil {
		wanted.Missing, got.Missing = align(e.Missing, whole.Missing)
	}
	if e.Open != nil {
		wanted.Open, got.Open = align(e.Open, whole.Open)
	}
	if e.Shadow != nil {
		got.Shadow = whole.Shadow
	}
	if reflect.DeepEqual(wanted, got) {
		return ""
	}
	if got.Outcome == v1alpha1.OutcomeDeny && got.Violations == nil {
		got.Violations = whole.Violations // they contain the reasons
	}
	return difference(wanted, got)
}

// expectationOf returns an expectation that a decision meets.
func expectationOf(d *v1alpha1.PolicyDecision) v1alpha1.PolicyTestExpectation {
	e := v1alpha1.PolicyTestExpectation{Outcome: d.Outcome, Reason: d.Reason}
	if d.Policy != nil {
		e.Policy = d.Policy.Name
	}
	for _, v := range d.Violations {
		e.Violations = append(e.Violations, v1alpha1.PolicyTestViolation{
			Policy: v.Policy, At: v.At, Reason: v.Reason, Field: v.Field, Value: v.Value, Exception: v.Exception,
		})
	}
	if d.People != nil {
		for _, requirement := range d.People.Requirements {
			e.Missing = append(e.Missing, requirement.Missing...)
		}
	}
	for _, open := range d.Open {
		if !slices.Contains(e.Open, open.Fact) {
			e.Open = append(e.Open, open.Fact)
		}
	}
	for _, s := range d.Shadow {
		if e.Shadow == nil {
			e.Shadow = map[string]v1alpha1.DecisionOutcome{}
		}
		e.Shadow[s.Policy] = s.Outcome
	}
	return e
}

// alignViolations sorts the found violations in the order of the expected ones, and keeps
// only their expected fields. Unexpected violations follow with all fields.
func alignViolations(wanted, found []v1alpha1.PolicyTestViolation) (w, g []v1alpha1.PolicyTestViolation) {
	rest := slices.Clone(found)
	var unmet []v1alpha1.PolicyTestViolation
	for _, one := range wanted {
		i := slices.IndexFunc(rest, func(f v1alpha1.PolicyTestViolation) bool { return limit(f, one) == one })
		if i < 0 {
			unmet = append(unmet, one)
			continue
		}
		w, g = append(w, one), append(g, one)
		rest = slices.Delete(rest, i, i+1)
	}
	return append(w, unmet...), append(g, rest...)
}

// limit returns a violation with only the fields that another one has.
func limit(v, to v1alpha1.PolicyTestViolation) v1alpha1.PolicyTestViolation {
	all, given := reflect.ValueOf(&v).Elem(), reflect.ValueOf(to)
	for i := range all.NumField() {
		if given.Field(i).IsZero() {
			all.Field(i).SetZero()
		}
	}
	return v
}

// align sorts the found items in the order of the expected ones.
func align[T any](wanted, found []T) (w, g []T) {
	rest := slices.Clone(found)
	for _, one := range wanted {
		w = append(w, one)
		if i := slices.IndexFunc(rest, func(f T) bool { return reflect.DeepEqual(f, one) }); i >= 0 {
			g = append(g, one)
			rest = slices.Delete(rest, i, i+1)
		}
	}
	return w, append(g, rest...)
}

// difference returns a line-by-line difference.
func difference(wanted, got v1alpha1.PolicyTestExpectation) string {
	w, errW := yaml.Marshal(wanted)
	g, errG := yaml.Marshal(got)
	if err := errors.Join(errW, errG); err != nil {
		return err.Error()
	}
	text := diff.Diff("expected", w, "got", g)
	if _, rest, found := bytes.Cut(text, []byte("\n")); found {
		text = rest // without its "diff" line
	}
	return string(text)
}
