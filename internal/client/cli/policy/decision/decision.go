// Package decision writes the decisions of policies as text.
package decision

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Text returns a decision as text: the outcome, the result of each policy, and the
// changes by policies in the modes Shadow and Warn.
func Text(d *v1alpha1.PolicyDecision) string {
	p := &print.Page{}
	p.Line(Headline(d))
	table := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, row := range rows(d) {
		for i := range row {
			row[i] = print.Printable(row[i])
		}
		fmt.Fprintf(table, "  %s\n", strings.Join(row, "\t"))
	}
	table.Flush()
	for _, line := range slices.Concat(voteLines(d), shadowLines(d)) {
		p.Line(line)
	}
	return trimLines(p.String())
}

// trimLines removes the blanks that a table puts before empty cells.
func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

// Headline returns the outcome and its reason in one line.
func Headline(d *v1alpha1.PolicyDecision) string {
	text := string(d.Outcome)
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	switch {
	case d.Outcome == v1alpha1.OutcomeDeny, d.Outcome == v1alpha1.OutcomeWait, d.Outcome == v1alpha1.OutcomeNeedPeople:
		text += ": " + d.Message
	case d.Outcome == v1alpha1.OutcomeApprove && d.Policy != nil:
		text += ": certificate policy " + d.Policy.Name
		if d.Renews != nil {
			text += ", because it renews a certificate that people have approved"
		}
	case d.Outcome == v1alpha1.OutcomeLeave && d.Policy != nil:
		text += ": certificate policy " + d.Policy.Name + " leaves it to users with the right to approve"
	case d.Outcome == v1alpha1.OutcomeLeave:
		text += ": no policy allows or refuses it: any user with the right to approve can"
	}
	return text
}

// Reasons returns the reasons for an outcome, one line each: the message of the decision,
// or, if no policy decides, the reason why each policy does not match the request.
func Reasons(d *v1alpha1.PolicyDecision) []string {
	if d.Message != "" {
		return []string{d.Message}
	}
	var lines []string
	if d.Outcome == v1alpha1.OutcomeLeave {
		lines = append(lines, Headline(d))
		for _, c := range d.Considered {
			if !c.Applies && c.Because != "" {
				lines = append(lines, "certificate policy "+c.Policy+": "+c.Because)
			}
		}
	}
	return lines
}

// rows returns a row for each policy, and one for each of its violations and
// open conditions.
func rows(d *v1alpha1.PolicyDecision) [][]string {
	var all [][]string
	for _, c := range nearestFirst(d) {
		head := func(mark string) []string { return []string{mark, c.Policy, string(c.Effect)} }
		details := detailsOf(d, c.Policy)
		switch {
		case !c.Applies:
			at, because := cutBecause(c.Because)
			all = append(all, append(head("-"), at, because))
		case len(details) > 0:
			for _, one := range details {
				all = append(all, append(head(one.mark), one.at, one.text))
			}
		case c.Because != "": // the policy is invalid
			all = append(all, append(head("?"), "", c.Because))
		case c.Violations > 0:
			all = append(all, append(head("no"), "", fmt.Sprintf("%d of its conditions do not hold", c.Violations)))
		default:
			all = append(all, append(head("yes"), "", ""))
		}
	}
	return all
}

// nearestFirst returns the policies in the order of their relevance: those that refuse,
// those with an unknown result, those that do not apply, those that hold.
func nearestFirst(d *v1alpha1.PolicyDecision) []v1alpha1.ConsideredPolicy {
	rank := func(c v1alpha1.ConsideredPolicy) int {
		switch {
		case !c.Applies:
			return 2
		case c.Violations > 0 || refusedBy(d, c.Policy):
			return 0
		case c.Open > 0 || c.Because != "":
			return 1
		}
		return 3
	}
	sorted := slices.Clone(d.Considered)
	slices.SortStableFunc(sorted, func(a, b v1alpha1.ConsideredPolicy) int { return rank(a) - rank(b) })
	return sorted
}

func refusedBy(d *v1alpha1.PolicyDecision, policy string) bool {
	return slices.ContainsFunc(d.Violations, func(v v1alpha1.PolicyViolation) bool { return v.Policy == policy && v.Exception == "" })
}

type detail struct{ mark, at, text string }

func detailsOf(d *v1alpha1.PolicyDecision, policy string) []detail {
	var all []detail
	for _, v := range d.Violations {
		switch {
		case v.Policy != policy:
		case v.Exception != "":
			all = append(all, detail{"yes", v.At, "excepted by " + v.Exception + ": " + Violation(v)})
		default:
			all = append(all, detail{"no", v.At, Violation(v)})
		}
	}
	for _, o := range d.Open {
		if o.Policy == policy {
			all = append(all, detail{"?", o.At, "unknown: " + o.Fact})
		}
	}
	return all
}

// Violation summarizes a violation: the field, its value and the values that would pass,
// or the message if these are missing.
func Violation(v v1alpha1.PolicyViolation) string {
	if v.Field == "" || len(v.WouldPass) == 0 {
		return v.Message
	}
	text := v.Field
	if v.Value != "" {
		text += " " + strconv.QuoteToASCII(v.Value)
	}
	return text + "; would pass: " + strings.Join(v.WouldPass, ", ")
}

// cutBecause splits a reason into the part of match and the explanation.
func cutBecause(text string) (at, because string) {
	if at, because, found := strings.Cut(text, ": "); found && strings.HasPrefix(at, "match.") {
		return at, because
	}
	return "", text
}

func voteLines(d *v1alpha1.PolicyDecision) []string {
	if d.People == nil {
		return nil
	}
	var lines []string
	for _, v := range d.People.Votes {
		text := "approved by " + v.User
		if v.Override != "" {
			text += ", overriding policies because: " + v.Override
		}
		if v.CarriedFrom != "" {
			text += ", as the earlier AcmeOrder " + v.CarriedFrom
		}
		if !v.Counts {
			text += ", which does not count: " + v.Because
		}
		lines = append(lines, text)
	}
	return lines
}

// would are the outcomes as verbs.
var would = map[v1alpha1.DecisionOutcome]string{
	v1alpha1.OutcomeApprove: "approve", v1alpha1.OutcomeDeny: "deny", v1alpha1.OutcomeNeedPeople: "need people",
	v1alpha1.OutcomeWait: "wait", v1alpha1.OutcomeLeave: "leave it",
}

func shadowLines(d *v1alpha1.PolicyDecision) []string {
	var lines []string
	for _, s := range d.Shadow {
		text := fmt.Sprintf("%s: %s would %s", strings.ToLower(string(s.Mode)), s.Policy, would[s.Outcome])
		switch {
		case !s.Differs:
			text += " too"
		case s.Message != "":
			text += ": " + s.Message
		}
		lines = append(lines, text)
	}
	return lines
}
