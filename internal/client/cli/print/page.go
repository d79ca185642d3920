// Package print writes the output of verbs: text for people at a terminal,
// command lines to copy, and formats for machines.
package print

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Page is a text for a terminal. The zero value is empty.
type Page struct{ strings.Builder }

// Line writes a line.
func (p *Page) Line(text string) { p.WriteString(Printable(text) + "\n") }

// Title begins a section.
func (p *Page) Title(text string) { p.WriteString("\n" + Printable(text) + "\n") }

// Section writes rows in columns; without rows it writes nothing.
func (p *Page) Section(title string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	p.Title(title)
	p.Table(rows)
}

// Table writes rows in columns. The columns are aligned only if all rows have
// the same number of cells, which may be empty.
func (p *Page) Table(rows [][]string) {
	for line := range strings.Lines(Columns(rows)) {
		if line != "\n" {
			line = "  " + line
		}
		p.WriteString(line)
	}
}

// Columns returns rows in columns, as kubectl shows them. The columns are aligned
// only if all rows have the same number of cells, which may be empty.
func Columns(rows [][]string) string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = Printable(row[i])
		}
		fmt.Fprintf(table, "%s\n", strings.Join(row, "\t"))
	}
	table.Flush()
	var trimmed strings.Builder
	for line := range strings.Lines(text.String()) {
		trimmed.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return trimmed.String()
}

// Ago returns how long before now then was. It allows for clocks that differ: a
// time in the future counts as now.
func Ago(now, then time.Time) string { return Span(max(0, now.Sub(then))) + " ago" }

// Span returns the text of a duration, with less detail the longer it is. Unlike kubectl it
// rounds to whole years if that changes the duration by at most ten days: 5y for 4y364d.
func Span(d time.Duration) string {
	const day, year = 24 * time.Hour, 365 * 24 * time.Hour
	if whole := (d + 10*day) / year; whole >= 2 && (d-whole*year).Abs() <= 10*day {
		return strconv.Itoa(int(whole)) + "y"
	}
	return duration.HumanDuration(d)
}

// Number returns a count with its noun.
func Number(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// OrNone returns s, or a text that says that it is empty.
func OrNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// OrDash returns s, or a dash if it is empty, for tables.
func OrDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Printable makes control characters visible, which could come from a hostile
// request and would otherwise control the terminal.
func Printable(text string) string {
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
