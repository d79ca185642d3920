package cases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/answer"
	"github.com/certplane/certplane/internal/client/cli/policy/ask"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// Config selects the tests to run, and the output.
type Config struct {
	// Path is a file, or a folder with files.
	Path string
	// Run selects cases by their names; nil selects all.
	Run *regexp.Regexp
	// Update writes the actual decisions to the files.
	Update bool
	// Output is json, junit, or empty for text.
	Output string
	Now    func() time.Time
	Stdout io.Writer
}

// Report is the result of all tests.
type Report struct {
	Files []FileReport `json:"files"`
}

// FileReport is the result of the tests of a file.
type FileReport struct {
	File    string       `json:"file"`
	Cases   []CaseReport `json:"cases"`
	Seconds float64      `json:"seconds"`
	// Updated are the cases whose expectation was written.
	Updated []string `json:"updated,omitempty"`
}

// CaseReport is the result of a case.
type CaseReport struct {
	Name string `json:"name"`
	Line int    `json:"line"`
	OK   bool   `json:"ok"`
	// Error is the reason why the case could not run.
	Error string `json:"error,omitempty"`
	// Diff is the difference between the expected and the actual decision.
	Diff     string                   `json:"diff,omitempty"`
	Decision *v1alpha1.PolicyDecision `json:"decision,omitempty"`
}

// Run runs the tests and writes a report. Its error is an answer.No if a case
// fails.
func Run(ctx context.Context, cfg Config) error {
	files, err := load(cfg.Path)
	if err != nil {
		return err
	}
	r := &runner{Config: cfg, keys: &ask.Keys{}}
	for _, f := range files {
		if err := r.file(ctx, f); err != nil {
			return err
		}
	}
	if err := r.write(); err != nil {
		return err
	}
	return r.verdict()
}

type runner struct {
	Config
	keys   *ask.Keys
	report Report
}

func (r *runner) selects(c *testCase) bool { return r.Run == nil || r.Run.MatchString(c.name) }

// file runs the tests of a file.
func (r *runner) file(ctx context.Context, f *file) error {
	began := r.Now()
	report := FileReport{File: f.name, Cases: []CaseReport{}}
	var decided []*decidedCase
	for _, t := range f.tests {
		set := t.policies.Set()
		for _, c := range t.cases {
			if !r.selects(c) {
				continue
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			one := r.run(ctx, c, set)
			decided = append(decided, &decidedCase{c, one})
			report.Cases = append(report.Cases, *one)
		}
	}
	if r.Update {
		updated, err := f.update(decided)
		if err != nil {
			return err
		}
		report.Updated = updated
		for i := range report.Cases {
			if slices.Contains(updated, report.Cases[i].Name) {
				report.Cases[i].OK, report.Cases[i].Diff = true, ""
			}
		}
	}
	report.Seconds = r.Now().Sub(began).Seconds()
	r.report.Files = append(r.report.Files, report)
	return nil
}

// decidedCase is a case with its result.
type decidedCase struct {
	*testCase
	report *CaseReport
}

func (r *runner) run(ctx context.Context, c *testCase, set *certpolicy.Set) *CaseReport {
	path := fmt.Sprintf("cases[%d]", c.index)
	report := &CaseReport{Name: c.name, Line: c.test.document.LineOf(path)}
	d, err := c.decide(ctx, set, r.keys)
	if err == nil && c.spec.Expect.Outcome == "" && !r.Update {
		err = errNothingExpected
	}
	if err != nil {
		report.Error = err.Error()
		return report
	}
	report.Decision = d
	report.Diff = compare(&c.spec.Expect, d)
	report.OK = report.Diff == "" && c.spec.Expect.Outcome != ""
	return report
}

// counts returns the number of cases that failed, and of cases that could not run.
func (r *runner) counts() (failed, unknown int) {
	for _, f := range r.report.Files {
		for _, c := range f.Cases {
			switch {
			case c.Error != "":
				unknown++
			case !c.OK:
				failed++
			}
		}
	}
	return failed, unknown
}

func (r *runner) verdict() error {
	all := 0
	for _, f := range r.report.Files {
		all += len(f.Cases)
	}
	switch failed, unknown := r.counts(); {
	case all == 0:
		return errors.New("no case has a matching name")
	case unknown > 0:
		return fmt.Errorf("%d of %d cases could not be run", unknown, all)
	case failed > 0:
		return answer.No("%d of %d cases failed", failed, all)
	}
	return nil
}
