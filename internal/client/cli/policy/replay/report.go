package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Report is the result of a replay.
type Report struct {
	Summary Summary `json:"summary"`
	// Matrix is the number of requests by the old and the new outcome.
	Matrix map[v1alpha1.DecisionOutcome]map[v1alpha1.DecisionOutcome]int `json:"matrix"`
	// Groups are the differences by their cause, the most frequent first.
	Groups []Group `json:"groups"`
	// Unreadable are some of the requests that could not be read.
	Unreadable []Unreadable `json:"unreadable,omitempty"`
}

// Summary counts the replayed requests.
type Summary struct {
	Requests  int `json:"requests"`
	Different int `json:"different"`
	// From and To are the times of the first and the last request.
	From    time.Time `json:"from,omitzero"`
	To      time.Time `json:"to,omitzero"`
	Seconds float64   `json:"seconds"`
	Workers int       `json:"workers"`
	// Today is the number of requests decided with today's facts.
	Today int `json:"today"`
	// The following are not among Requests.
	WithoutBody    int `json:"withoutBody"`
	WithoutOutcome int `json:"withoutOutcome"`
	Unreadable     int `json:"unreadable"`
}

// Group are decisions that differ in the same way.
type Group struct {
	From v1alpha1.DecisionOutcome `json:"from"`
	To   v1alpha1.DecisionOutcome `json:"to"`
	// Policy and At are the policy and the condition that cause the difference.
	Policy string `json:"policy,omitempty"`
	At     string `json:"at,omitempty"`
	Count  int    `json:"count"`
	// Looser: the new policies are less strict.
	Looser  bool     `json:"looser,omitempty"`
	Samples []Sample `json:"samples"`
}

// Sample is a request whose decisions differ.
type Sample struct {
	Request v1alpha1.DecidedRequest `json:"request"`
	Time    time.Time               `json:"time"`
	// Value is the value that the condition checks, WouldPass values that pass it.
	Value     string   `json:"value,omitempty"`
	WouldPass []string `json:"wouldPass,omitempty"`
	Message   string   `json:"message,omitempty"`
}

// Unreadable is a request that could not be read.
type Unreadable struct {
	Where string `json:"where"`
	Error string `json:"error"`
}

const (
	maxSamples    = 5
	maxUnreadable = 20
)

// cause identifies a group.
type cause struct {
	from, to   v1alpha1.DecisionOutcome
	policy, at string
}

// tally counts decisions. Its memory does not grow with the number of requests.
type tally struct {
	summary    Summary
	matrix     map[v1alpha1.DecisionOutcome]map[v1alpha1.DecisionOutcome]int
	groups     map[cause]*Group
	unreadable []Unreadable
}

func newTally(workers int) *tally {
	return &tally{
		summary: Summary{Workers: workers}, matrix: map[v1alpha1.DecisionOutcome]map[v1alpha1.DecisionOutcome]int{}, groups: map[cause]*Group{},
	}
}

func (t *tally) add(o outcome) {
	switch {
	case errors.Is(o.err, errNoBody):
		t.summary.WithoutBody++
	case errors.Is(o.err, errNoOutcome):
		t.summary.WithoutOutcome++
	case o.err != nil:
		t.summary.Unreadable++
		if len(t.unreadable) < maxUnreadable {
			t.unreadable = append(t.unreadable, Unreadable{o.where, o.err.Error()})
		}
	default:
		t.count(o.pair)
	}
}

func (t *tally) count(p *pair) {
	s := &t.summary
	s.Requests++
	if p.Today {
		s.Today++
	}
	if s.From.IsZero() || p.created.Before(s.From) {
		s.From = p.created
	}
	if p.created.After(s.To) {
		s.To = p.created
	}
	row := t.matrix[p.Old.Outcome]
	if row == nil {
		row = map[v1alpha1.DecisionOutcome]int{}
		t.matrix[p.Old.Outcome] = row
	}
	row[p.New.Outcome]++
	if !p.Differs {
		return
	}
	s.Different++
	why, sample := explain(p)
	g := t.groups[why]
	if g == nil {
		g = &Group{From: why.from, To: why.to, Policy: why.policy, At: why.at, Looser: looser(why.from, why.to)}
		t.groups[why] = g
	}
	g.Count++
	if len(g.Samples) < maxSamples {
		g.Samples = append(g.Samples, sample)
	}
}

// strictness orders outcomes, strictest first. Wait is not among them.
var strictness = []v1alpha1.DecisionOutcome{v1alpha1.OutcomeDeny, v1alpha1.OutcomeNeedPeople, v1alpha1.OutcomeLeave, v1alpha1.OutcomeApprove}

// looser reports whether an outcome is less strict than another one.
func looser(from, to v1alpha1.DecisionOutcome) bool {
	was, is := slices.Index(strictness, from), slices.Index(strictness, to)
	return was >= 0 && was < is
}

// explain returns the cause of the difference: the condition that refuses now, or the one
// that no longer refuses.
func explain(p *pair) (cause, Sample) {
	why := cause{from: p.Old.Outcome, to: p.New.Outcome}
	sample := Sample{Request: p.Request, Time: p.created}
	if p.New.Policy != nil {
		why.policy = p.New.Policy.Name
	}
	violation := firstViolation(p.New)
	if p.New.Outcome != v1alpha1.OutcomeDeny {
		violation = firstViolation(p.Old)
	}
	switch {
	case violation != nil:
		why.at = violation.At
		why.policy = cmp.Or(why.policy, violation.Policy)
		if p.New.Outcome == v1alpha1.OutcomeDeny {
			why.policy = violation.Policy
		}
		sample.Value, sample.WouldPass, sample.Message = violation.Value, violation.WouldPass, violation.Message
	case p.New.Outcome == v1alpha1.OutcomeWait && len(p.New.Open) > 0:
		why.policy, why.at = p.New.Open[0].Policy, p.New.Open[0].At
		sample.Message = "unknown: " + p.New.Open[0].Fact
	case p.New.Outcome == v1alpha1.OutcomeNeedPeople:
		sample.Message = p.New.Message
	case why.policy == "" && p.Old.Policy != nil:
		why.policy = p.Old.Policy.Name
	}
	return why, sample
}

func firstViolation(d *v1alpha1.PolicyDecision) *v1alpha1.PolicyViolation {
	for i := range d.Violations {
		if d.Violations[i].Exception == "" {
			return &d.Violations[i]
		}
	}
	return nil
}

func (t *tally) report(took time.Duration) Report {
	r := Report{Summary: t.summary, Matrix: t.matrix, Groups: []Group{}, Unreadable: t.unreadable}
	r.Summary.Seconds = took.Seconds()
	for _, g := range t.groups {
		r.Groups = append(r.Groups, *g)
	}
	slices.SortFunc(r.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.At, b.At))
	})
	return r
}

func (r Report) text() string {
	p := &print.Page{}
	p.Line(r.Summary.text())
	if r.Summary.Requests > 0 {
		r.matrixText(p)
	}
	p.Line(differ(r.Summary.Different))
	table := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, g := range r.Groups {
		fmt.Fprintln(table, "  "+strings.Join(g.row(), "\t"))
	}
	table.Flush()
	for _, u := range r.Unreadable {
		p.Line(fmt.Sprintf("unreadable: %s: %s", u.Where, u.Error))
	}
	return trimLines(p.String())
}

func trimLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return b.String()
}

func (s Summary) text() string {
	text := "replayed " + count(s.Requests) + " requests"
	if s.Requests > 0 {
		text += fmt.Sprintf(" of %s..%s", s.From.UTC().Format(time.DateOnly), s.To.UTC().Format(time.DateOnly))
	}
	text += fmt.Sprintf(" in %.1f s (%d workers)", s.Seconds, s.Workers)
	if s.Today > 0 {
		text += fmt.Sprintf(", %s of them with today's facts", count(s.Today))
	}
	var besides []string
	for _, one := range []struct {
		n    int
		what string
	}{{s.WithoutBody, "without a body"}, {s.WithoutOutcome, "with an unknown past decision"}, {s.Unreadable, "unreadable"}} {
		if one.n > 0 {
			besides = append(besides, count(one.n)+" "+one.what)
		}
	}
	if len(besides) > 0 {
		text += "; also " + strings.Join(besides, ", ")
	}
	return text
}

// columns are the outcomes in the order of the matrix.
var columns = []v1alpha1.DecisionOutcome{
	v1alpha1.OutcomeApprove, v1alpha1.OutcomeDeny, v1alpha1.OutcomeNeedPeople, v1alpha1.OutcomeLeave, v1alpha1.OutcomeWait,
}

// matrixText writes the matrix, without outcomes that did not occur.
func (r Report) matrixText(p *print.Page) {
	used := slices.DeleteFunc(slices.Clone(columns), func(to v1alpha1.DecisionOutcome) bool {
		for _, row := range r.Matrix {
			if row[to] > 0 {
				return false
			}
		}
		return true
	})
	const first = "old: NeedPeople"
	head := strings.Repeat(" ", len(first)) + "  new:"
	for _, to := range used {
		head += fmt.Sprintf("  %*s", columnWidth, to)
	}
	p.Line(head)
	for _, from := range columns {
		if r.Matrix[from] == nil {
			continue
		}
		line := fmt.Sprintf("%-*s      ", len(first), "old: "+from)
		for _, to := range used {
			line += fmt.Sprintf("  %*s", columnWidth, count(r.Matrix[from][to]))
		}
		p.Line(line)
	}
}

// columnWidth is the width of NeedPeople, and of 99,999,999.
const columnWidth = 10

// row returns the cells of a group.
func (g Group) row() []string {
	mark := ""
	if g.Looser {
		mark = "LOOSER"
	}
	cells := []string{count(g.Count), fmt.Sprintf("%s→%s", g.From, g.To), g.Policy, g.At, mark, "e.g. " + g.Samples[0].text()}
	for i := range cells {
		cells[i] = print.Printable(cells[i])
	}
	return cells
}

func (s Sample) text() string {
	name := s.Request.Name
	if s.Request.Namespace != "" {
		name = s.Request.Namespace + "/" + name
	}
	text := fmt.Sprintf("%s (%s)", name, s.Time.UTC().Format(time.DateOnly))
	switch {
	case s.Message != "" && len(s.WouldPass) == 0:
		text += " " + s.Message
	case s.Value != "":
		text += " " + strconv.QuoteToASCII(s.Value)
	}
	if len(s.WouldPass) > 0 {
		text += "; would pass: " + strings.Join(s.WouldPass, ", ")
	}
	return text
}

// count returns a number with commas.
func count(n int) string {
	digits := strconv.Itoa(n)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// are returns "1 decision is" or "2 decisions are".
func are(n int) string {
	if n == 1 {
		return "1 decision is"
	}
	return count(n) + " decisions are"
}

func differ(n int) string {
	switch n {
	case 0:
		return "no decision differs"
	case 1:
		return "1 decision differs"
	}
	return count(n) + " decisions differ"
}
