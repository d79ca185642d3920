package explain

import (
	"strings"
	"time"

	"github.com/certplane/certplane/internal/cli/page"
	"github.com/certplane/certplane/internal/cli/shell"
)

// text is the explanation for people: the verdict first.
func (e explanation[R]) text(now time.Time) string {
	p := &page.Page{}
	p.Line(e.Verdict)
	p.Section("Request", e.Request.rows(now))
	p.Section("Checks", checkRows(e.Checks))
	if e.Certificate != nil {
		p.Section("Certificate", e.Certificate.rows())
	}
	p.Section("Events", eventRows(e.Events, now))
	writeSteps(p, e.Next)
	return p.String()
}

func checkRows(checks []Check) [][]string {
	return rowsOf(checks, func(c Check) []string { return []string{strings.ToLower(string(c.Result)), c.Name, c.Message} })
}

func eventRows(events []Event, now time.Time) [][]string {
	return rowsOf(events, func(ev Event) []string { return []string{page.Ago(now, ev.Time), ev.Reason, ev.Reporter, ev.Note} })
}

func rowsOf[T any](list []T, row func(T) []string) [][]string {
	var rows [][]string
	for _, item := range list {
		rows = append(rows, row(item))
	}
	return rows
}

func (r Request) rows(now time.Time) [][]string {
	lifetime := "as long as the signer gives"
	if r.ExpirationSeconds != nil {
		lifetime = (time.Duration(*r.ExpirationSeconds) * time.Second).String()
	}
	return [][]string{
		{"signer", r.SignerName},
		{"requester", r.Username},
		{"groups", list(r.Groups)},
		{"subject", page.OrNone(r.Subject)},
		{"names", list(r.Names)},
		{"usages", list(r.Usages)},
		{"key", page.OrNone(r.Key)},
		{"lifetime", lifetime},
		{"created", page.Ago(now, r.Created)},
	}
}

func (c Certificate) rows() [][]string {
	return [][]string{
		{"subject", page.OrNone(c.Subject)},
		{"issuer", page.OrNone(c.Issuer)},
		{"serial", c.SerialNumber},
		{"SHA-256", c.SHA256},
		{"valid", c.NotBefore.Format(time.RFC3339) + " to " + c.NotAfter.Format(time.RFC3339)},
	}
}

func list(items []string) string { return page.OrNone(strings.Join(items, ", ")) }

// writeSteps tells what to do next.
func writeSteps(p *page.Page, steps []Step) {
	if len(steps) == 0 {
		return
	}
	p.Title("Next")
	for _, step := range steps {
		p.Line("  " + step.Text)
		for i, command := range step.Commands {
			line := shell.Line(command...)
			if step.Input != "" && i == len(step.Commands)-1 {
				line += " <<'" + inputEnd + "'"
			}
			p.Line("    " + line)
		}
		writeInput(p, step.Input)
	}
}

// writeInput is for the command before it. It is not moved to the right: it is
// to be copied as it is.
func writeInput(p *page.Page, text string) {
	if text == "" {
		return
	}
	for line := range strings.Lines(text) {
		p.Line(strings.TrimSuffix(line, "\n"))
	}
	p.Line(inputEnd)
}

// inputEnd ends what a command reads.
const inputEnd = "END"
