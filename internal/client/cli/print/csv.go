package print

import (
	"encoding/csv"
	"fmt"
	"io"
	"strings"
)

// CSV is the output format of lists for spreadsheets.
const CSV = "csv"

// List writes items as Found does, or rows() as CSV.
func List[T any](out io.Writer, format string, items []T, text func() string, rows func() [][]string) error {
	if format == CSV {
		return WriteCSV(out, rows())
	}
	return Found(out, format, map[string]any{"items": items}, text)
}

// WriteCSV writes rows in the format of RFC 4180; the first row is the header. A value
// that a spreadsheet would evaluate as a formula gets an apostrophe in front, and control
// characters are escaped: other users choose names and messages.
func WriteCSV(out io.Writer, rows [][]string) error {
	w := csv.NewWriter(out)
	for _, row := range rows {
		safe := make([]string, len(row))
		for i, value := range row {
			safe[i] = Printable(value)
			if value != "" && strings.ContainsRune("=+-@\t\r", rune(value[0])) {
				safe[i] = "'" + safe[i]
			}
		}
		if err := w.Write(safe); err != nil {
			return fmt.Errorf("writing CSV: %w", err)
		}
	}
	w.Flush()
	return w.Error()
}
