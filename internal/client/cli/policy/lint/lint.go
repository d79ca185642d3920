// Package lint reports mistakes in files of policies like the API server would.
package lint

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/manifest"
	"github.com/certplane/certplane/internal/client/cli/policy/policyset"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Config names the files to read, and configures the output.
type Config struct {
	Paths []string
	Now   time.Time
	// Output is json, yaml, or empty for text.
	Output string
	Stdout io.Writer
}

// Report contains the findings.
type Report struct {
	// Policies and Exceptions count the readable ones, Others the objects of other kinds,
	// which are not checked.
	Policies   int       `json:"policies"`
	Exceptions int       `json:"exceptions"`
	Others     int       `json:"others"`
	Findings   []Finding `json:"findings"`
}

// Finding is a mistake, or a warning.
type Finding struct {
	File     string `json:"file"`
	Line     int    `json:"line,omitempty"`
	Severity string `json:"severity"`
	Message  string `json:"message"`
}

const (
	severityError   = "error"
	severityWarning = "warning"
)

// Run reads the files and writes a report. Its error is an answer.No if a finding is an
// error.
func Run(cfg Config) error {
	files, err := policyset.Read(cfg.Paths...)
	if err != nil {
		return err
	}
	report := reportOf(files, cfg.Now)
	if err := print.Found(cfg.Stdout, cfg.Output, report, report.text); err != nil {
		return err
	}
	if errs := report.count(severityError); errs > 0 {
		return answer.No("%s in the policies", many(errs, "error"))
	}
	if report.Policies+report.Exceptions == 0 {
		return fmt.Errorf("found no policies in %s", strings.Join(cfg.Paths, ", "))
	}
	return nil
}

func reportOf(files *policyset.Files, now time.Time) Report {
	r := Report{Policies: len(files.Policies), Exceptions: len(files.Exceptions), Others: len(files.Other), Findings: []Finding{}}
	for _, p := range files.Problems {
		r.add(p.Error, p.Warning)
	}
	for _, x := range files.Exceptions {
		r.checkEnd(&x, now)
	}
	for i := range files.Other {
		r.checkTest(&files.Other[i])
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return r
}

func (r *Report) add(mistake *manifest.Error, warning bool) {
	f := Finding{File: mistake.File, Line: mistake.Line, Severity: severityError, Message: mistake.Text}
	if warning {
		f.Severity = severityWarning
	}
	r.Findings = append(r.Findings, f)
}

// longestException is the maximum time until the end of a new exception.
const longestException = 90 * 24 * time.Hour

func (r *Report) checkEnd(x *policyset.Exception, now time.Time) {
	const path = "spec.notAfter"
	switch end := x.Object.Spec.NotAfter.Time; {
	case end.IsZero():
	case !end.After(now):
		r.add(x.Document.Errorf(path, "%s: the exception has expired", path), true)
	case end.Sub(now) > longestException:
		r.add(x.Document.Errorf(path, "%s: must be at most 90 days ahead", path), false)
	}
}

// checkTest reports fields that a file with tests cannot have.
func (r *Report) checkTest(d *manifest.Document) {
	if d.Kind != policyset.TestKind || d.APIVersion != v1alpha1.GroupVersion.String() {
		return
	}
	for _, mistake := range manifest.Mistakes(d.Decode(&v1alpha1.PolicyTest{})) {
		r.add(mistake, false)
	}
}

func (r Report) count(severity string) int {
	n := 0
	for _, f := range r.Findings {
		if f.Severity == severity {
			n++
		}
	}
	return n
}

func (r Report) text() string {
	p := &print.Page{}
	for _, f := range r.Findings {
		place := f.File
		if f.Line > 0 {
			place = fmt.Sprintf("%s:%d", f.File, f.Line)
		}
		p.Line(fmt.Sprintf("%s: %s: %s", place, f.Severity, f.Message))
	}
	text := fmt.Sprintf("%s and %s: %s, %s", many(r.Policies, "policy"), many(r.Exceptions, "exception"),
		many(r.count(severityError), "error"), many(r.count(severityWarning), "warning"))
	if r.Others > 0 {
		text += fmt.Sprintf("; %s of other kinds", many(r.Others, "object"))
	}
	p.Line(text)
	return p.String()
}

// many returns a number with its noun.
func many(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case noun == "policy":
		return fmt.Sprintf("%d policies", n)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
