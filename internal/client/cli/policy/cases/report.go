package cases

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"strings"

	"github.com/certplane/certplane/internal/client/cli/policy/decision"
	"github.com/certplane/certplane/internal/client/cli/print"
)

// Formats are the output formats for programs.
var Formats = []string{"json", "junit"}

func (r *runner) write() error {
	switch r.Output {
	case "json":
		data, err := json.MarshalIndent(r.report, "", "  ")
		if err != nil {
			return fmt.Errorf("encoding as JSON: %w", err)
		}
		_, err = r.Stdout.Write(append(data, '\n'))
		return err
	case "junit":
		return writeJUnit(r.Stdout, r.report)
	}
	_, err := io.WriteString(r.Stdout, r.text())
	return err
}

func (r *runner) text() string {
	p := &print.Page{}
	for _, f := range r.report.Files {
		fileText(p, f)
	}
	return p.String()
}

func fileText(p *print.Page, f FileReport) {
	failed := 0
	for _, c := range f.Cases {
		if c.OK {
			continue
		}
		failed++
		p.Line(fmt.Sprintf("FAIL %s:%d: %s", f.File, c.Line, c.Name))
		for line := range strings.Lines(c.Error + c.Diff) {
			p.Line("    " + strings.TrimRight(line, "\n"))
		}
		if c.Diff != "" {
			for _, line := range decision.Reasons(c.Decision) {
				p.Line("    " + line)
			}
		}
	}
	for _, name := range f.Updated {
		p.Line(fmt.Sprintf("updated %s: %s", f.File, name))
	}
	if failed > 0 {
		p.Line(fmt.Sprintf("FAIL %s %d of %d cases %.2fs", f.File, failed, len(f.Cases), f.Seconds))
		return
	}
	p.Line(fmt.Sprintf("ok %s %d cases %.2fs", f.File, len(f.Cases), f.Seconds))
}

// The form of reports that CI systems read.
type (
	junitSuites struct {
		XMLName xml.Name     `xml:"testsuites"`
		Suites  []junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Time     string      `xml:"time,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Name    string        `xml:"name,attr"`
		Class   string        `xml:"classname,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr"`
		Failure *junitMessage `xml:"failure,omitempty"`
		Error   *junitMessage `xml:"error,omitempty"`
	}
	junitMessage struct {
		Message string `xml:"message,attr"`
		Text    string `xml:",chardata"`
	}
)

func writeJUnit(w io.Writer, report Report) error {
	var all junitSuites
	for _, f := range report.Files {
		suite := junitSuite{Name: f.File, Tests: len(f.Cases), Time: fmt.Sprintf("%.3f", f.Seconds)}
		for _, c := range f.Cases {
			one := junitCase{Name: c.Name, Class: f.File, File: f.File, Line: c.Line}
			switch {
			case c.Error != "":
				suite.Errors++
				one.Error = &junitMessage{Message: c.Error}
			case !c.OK:
				suite.Failures++
				one.Failure = &junitMessage{Message: strings.Join(decision.Reasons(c.Decision), "; "), Text: c.Diff}
			}
			suite.Cases = append(suite.Cases, one)
		}
		all.Suites = append(all.Suites, suite)
	}
	data, err := xml.MarshalIndent(all, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding as JUnit XML: %w", err)
	}
	_, err = io.WriteString(w, xml.Header+string(data)+"\n")
	return err
}
