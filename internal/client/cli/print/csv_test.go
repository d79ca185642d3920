package print

import (
	"strings"
	"testing"
)

// Others choose names and messages: no spreadsheet runs them, and no terminal obeys them.
func TestCSVHasNoFormulas(t *testing.T) {
	var out strings.Builder
	rows := [][]string{{"name", "message"}, {"=HYPERLINK(\"x\")", "+1"}, {"-2", "@SUM"}, {"\t=1", "a, \"b\""}, {"", "a=b"}}
	if err := WriteCSV(&out, rows); err != nil {
		t.Fatal(err)
	}
	want := "name,message\n\"'=HYPERLINK(\"\"x\"\")\",'+1\n'-2,'@SUM\n'\\t=1,\"a, \"\"b\"\"\"\n,a=b\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
