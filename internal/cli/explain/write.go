package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/cli/shell"
)

// writeAs writes an explanation in the form that was asked for.
func writeAs(e any, text func() string, out io.Writer, output string) error {
	var data []byte
	var err error
	switch output {
	case "json":
		data, err = json.MarshalIndent(e, "", "  ")
		data = append(data, '\n')
	case "yaml":
		data, err = yaml.Marshal(e)
	default:
		data = []byte(text())
	}
	if err != nil {
		return fmt.Errorf("encoding the explanation: %w", err)
	}
	_, err = out.Write(data)
	return err
}

// text is the explanation for people: the verdict first.
func (e Explanation) text(now time.Time) string {
	p := &page{}
	p.line(e.Verdict)
	p.section("Request", e.Request.rows(now))
	p.section("Checks", checkRows(e.Checks))
	if e.Certificate != nil {
		p.section("Certificate", e.Certificate.rows())
	}
	p.section("Events", eventRows(e.Events, now))
	p.steps(e.Next)
	return p.String()
}

func checkRows(checks []Check) [][]string {
	return rowsOf(checks, func(c Check) []string { return []string{strings.ToLower(string(c.Result)), c.Name, c.Message} })
}

func eventRows(events []Event, now time.Time) [][]string {
	return rowsOf(events, func(ev Event) []string { return []string{ago(now, ev.Time), ev.Reason, ev.Reporter, ev.Note} })
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
		{"subject", orNone(r.Subject)},
		{"names", list(r.Names)},
		{"usages", list(r.Usages)},
		{"key", orNone(r.Key)},
		{"lifetime", lifetime},
		{"created", ago(now, r.Created)},
	}
}

func (c Certificate) rows() [][]string {
	return [][]string{
		{"subject", orNone(c.Subject)},
		{"issuer", orNone(c.Issuer)},
		{"serial", c.SerialNumber},
		{"SHA-256", c.SHA256},
		{"valid", c.NotBefore.Format(time.RFC3339) + " to " + c.NotAfter.Format(time.RFC3339)},
	}
}

func list(items []string) string { return orNone(strings.Join(items, ", ")) }

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// ago does not trust that two clocks agree.
func ago(now, then time.Time) string { return duration.HumanDuration(max(0, now.Sub(then))) + " ago" }

// page is what a terminal shows.
type page struct{ strings.Builder }

func (p *page) line(text string) { p.WriteString(printable(text) + "\n") }

func (p *page) title(text string) { p.WriteString("\n" + text + "\n") }

// section writes rows in columns; without rows it writes nothing.
func (p *page) section(title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	p.title(title)
	table := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		fmt.Fprintf(table, "  %s\n", strings.Join(row, "\t"))
	}
	table.Flush()
}

func (p *page) steps(steps []Step) {
	if len(steps) == 0 {
		return
	}
	p.title("Next")
	for _, step := range steps {
		p.line("  " + step.Text)
		for i, command := range step.Commands {
			line := shell.Line(command...)
			if step.Input != "" && i == len(step.Commands)-1 {
				line += " <<'" + inputEnd + "'"
			}
			p.line("    " + line)
		}
		p.input(step.Input)
	}
}

// input is for the command before it. It is not moved to the right: it is to be
// copied as it is.
func (p *page) input(text string) {
	if text == "" {
		return
	}
	for line := range strings.Lines(text) {
		p.line(strings.TrimSuffix(line, "\n"))
	}
	p.line(inputEnd)
}

// inputEnd ends what a command reads.
const inputEnd = "END"

// printable shows what would act on a terminal, which a hostile request could
// hold, instead of doing it.
func printable(text string) string {
	if !strings.ContainsFunc(text, unprintable) {
		return text
	}
	var shown strings.Builder
	for _, r := range text {
		if unprintable(r) {
			quoted := strconv.QuoteRune(r)
			shown.WriteString(quoted[1 : len(quoted)-1])
		} else {
			shown.WriteRune(r)
		}
	}
	return shown.String()
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) }
