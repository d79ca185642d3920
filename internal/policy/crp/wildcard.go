package crp

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// wildcard is a pattern in which each * is any run of characters, also none. It
// is the texts between the stars.
type wildcard []string

func parseWildcard(pattern string) wildcard { return strings.Split(replaceInvalid(pattern), "*") }

func parseWildcards(patterns []string) []wildcard {
	parsed := make([]wildcard, 0, len(patterns))
	for _, pattern := range patterns {
		parsed = append(parsed, parseWildcard(pattern))
	}
	return parsed
}

// match reports whether the whole text matches.
func (w wildcard) match(text string) bool {
	text = replaceInvalid(text)
	if len(w) == 1 {
		return text == w[0]
	}
	first, middle, last := w[0], w[1:len(w)-1], w[len(w)-1]
	rest, ok := strings.CutPrefix(text, first)
	if !ok || !strings.HasSuffix(rest, last) {
		return false
	}
	rest = strings.TrimSuffix(rest, last)
	for _, part := range middle {
		if _, rest, ok = strings.Cut(rest, part); !ok {
			return false
		}
	}
	return true
}

// matchEach reports whether each text matches one of the patterns.
func matchEach(patterns []wildcard, texts []string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !matchAny(patterns, text) })
}

func matchAny(patterns []wildcard, text string) bool {
	return slices.ContainsFunc(patterns, func(w wildcard) bool { return w.match(text) })
}

// replaceInvalid replaces each byte that is not UTF-8 by U+FFFD, as a comparison
// rune by rune does.
func replaceInvalid(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return string([]rune(text))
}
