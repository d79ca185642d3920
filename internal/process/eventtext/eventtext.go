// Package eventtext makes texts fit for the notes of Events.
package eventtext

import "strings"

// Max is how many bytes a note has at most: the events API accepts no more.
const Max = 1024

// Fit returns a text, which can quote a client's data, in the form that the API
// accepts: valid UTF-8 of at most Max bytes. A text that is cut ends with
// "...".
func Fit(text string) string {
	text = strings.ToValidUTF8(text, "")
	if len(text) <= Max {
		return text
	}
	const mark = "..."
	// The cut can go through a character, whose first bytes are dropped then.
	return strings.ToValidUTF8(text[:Max-len(mark)], "") + mark
}

// Line returns a text in one line, for logs: each sequence of spaces and line
// breaks becomes one space.
func Line(text string) string { return strings.Join(strings.Fields(text), " ") }
