package print

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// Quote quotes a word so that a POSIX shell reads it unchanged. Control characters and
// invisible characters are escaped, except for line breaks at the end.
func Quote(word string) string {
	if plain.MatchString(word) {
		return word
	}
	text := strings.TrimRight(word, "\n") // the shell removes these from what printf writes
	if !strings.ContainsFunc(text, hidden) {
		return singleQuote(word)
	}
	quoted := `"$(printf ` + singleQuote(printfFormat(text)) + `)"`
	if end := word[len(text):]; end != "" {
		quoted += singleQuote(end)
	}
	return quoted
}

func hidden(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

func singleQuote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

// printfFormat returns the format with which printf writes the text.
func printfFormat(text string) string {
	var format strings.Builder
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case hidden(r):
			for _, b := range []byte(text[:size]) {
				fmt.Fprintf(&format, `\%03o`, b)
			}
		case r == '%':
			format.WriteString("%%")
		case r == '\\':
			format.WriteString(`\\`)
		default:
			format.WriteRune(r)
		}
		text = text[size:]
	}
	return format.String()
}

// CommandLine returns a command line for people to copy.
func CommandLine(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = Quote(word)
	}
	return strings.Join(quoted, " ")
}

// Command returns the words of a command with names that other users have chosen. The
// flags follow the names. If a name looks like a flag, the names come last, after "--".
func Command(words, names []string, flags ...string) []string {
	if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "-") }) {
		return slices.Concat(words, flags, []string{"--"}, names)
	}
	return slices.Concat(words, names, flags)
}
