package crp

import (
	"strings"
	"testing"
)

func TestWildcard(t *testing.T) {
	tests := []struct {
		reason, pattern, text string
		want                  bool
	}{
		{"equal", "a.b", "a.b", true},
		{"case counts", "a.b", "A.b", false},
		{"only a part", "a", "ab", false},
		{"empty matches empty", "", "", true},
		{"empty matches nothing else", "", "a", false},
		{"all", "*", "", true},
		{"dots", "*.example.com", "a.b.example.com", true},
		{"slashes", "spiffe://a/*/c", "spiffe://a/b/b/c", true},
		{"a literal star", "*.example.com", "*.example.com", true},
		{"the dot must be there", "*.example.com", "example.com", false},
		{"none", "a*b", "ab", true},
		{"no overlap", "ab*ba", "aba", false},
		{"stars in a row", "a**b", "axb", true},
		{"the middle, twice", "*ab*ab*", "abab", true},
		{"the middle, only once", "*ab*ab*", "aba", false},
		{"? is a character", "a?", "ab", false},
		{"a backslash is a character", `\*`, "*", false},
		{"characters", "é*", "éa", true},
		{"bytes that are no text match each other", "\xff", "\xfe", true},
		{"and U+FFFD", "\ufffd*", "\xffa", true},
	}
	for _, tc := range tests {
		if got := parseWildcard(tc.pattern).match(tc.text); got != tc.want {
			t.Errorf("%s: %q matches %q: %v", tc.reason, tc.pattern, tc.text, got)
		}
	}
}

// FuzzWildcard compares the matcher with one that follows the definition.
func FuzzWildcard(f *testing.F) {
	for _, pair := range [][2]string{{"*ab*ab*", "abab"}, {"a*b*c", "abbc"}, {"*", ""}, {"é*\xff", "éa\xfe"}, {"ab*ba", "aba"}, {"***", "*"}} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 200 || len(text) > 200 {
			return
		}
		if got, want := parseWildcard(pattern).match(text), matchSlowly([]rune(pattern), []rune(text)); got != want {
			t.Fatalf("%q matches %q: %v, want %v", pattern, text, got, want)
		}
	})
}

// matchSlowly fills a table with whether the first runes of the pattern match the
// first runes of the text.
func matchSlowly(pattern, text []rune) bool {
	before := make([]bool, len(text)+1)
	before[0] = true
	for _, p := range pattern {
		next := make([]bool, len(text)+1)
		for i := range next {
			switch {
			case p == '*':
				next[i] = before[i] || i > 0 && next[i-1]
			default:
				next[i] = i > 0 && before[i-1] && text[i-1] == p
			}
		}
		before = next
	}
	return before[len(text)]
}

// Many stars do not make it slow: this would not end if each could be tried at
// each place.
func TestWildcardManyStars(t *testing.T) {
	if parseWildcard(strings.Repeat("*a", 5_000) + "*b").match(strings.Repeat("a", 10_000)) {
		t.Error("matches")
	}
}
