package eventtext

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestFit(t *testing.T) {
	for _, tc := range []struct{ reason, text, want string }{
		{"short", "as it is: é", "as it is: é"},
		{"as long as it may be", strings.Repeat("x", Max), strings.Repeat("x", Max)},
		{"too long", strings.Repeat("x", Max+1), strings.Repeat("x", Max-3) + "..."},
		{"cut through a character", strings.Repeat("x", Max-4) + "ééé", strings.Repeat("x", Max-4) + "..."},
		{"no UTF-8", "a\xffb", "ab"},
		{"no UTF-8, and too long only with it", strings.Repeat("x", Max) + "\xff", strings.Repeat("x", Max)},
	} {
		if got := Fit(tc.text); got != tc.want || len(got) > Max || !utf8.ValidString(got) {
			t.Errorf("%s: %d bytes %q", tc.reason, len(got), got)
		}
	}
}

func TestLine(t *testing.T) {
	if got := Line("Error making API request.\n\nCode: 503. Errors:\n\n* Vault is sealed\n"); got != "Error making API request. Code: 503. Errors: * Vault is sealed" {
		t.Errorf("%q", got)
	}
}
