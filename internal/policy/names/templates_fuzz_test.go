package names

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzURI compares patterns of URIs with a regular expression.
func FuzzURI(f *testing.F) {
	for _, seed := range [][2]string{
		{"spiffe://a/ns/*", "spiffe://a/ns/b"}, {"https://a.example/**", "https://a.example/b/c"}, {"https://a/b*c/**", "https://a/bxc/d"},
		{"https://a", "https://a"}, {"https://a/", "https://a/?q"}, {"https://a/*", "https://a/%2A"}, {"https://a/x/**", "https://a/x"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, uri string) {
		if strings.ContainsAny(pattern, "{}") || len(pattern) > 100 || len(uri) > 100 || CheckURI(uri) != nil {
			return
		}
		p, err := ParseURI(pattern)
		if err != nil {
			return
		}
		before, deep := strings.CutSuffix(pattern, "/**")
		expression := globbed(before, "[^/?#]+")
		if deep {
			expression += "(/[^/?#]+)+"
		}
		if got, want := p.Match(uri, nil).Matches, matchesWhole(expression, uri); got != want {
			t.Errorf("%q with %q: %v, want %v", pattern, uri, got, want)
		}
	})
}

// FuzzTemplates: a value stands for itself. What matches a pattern with a variable
// matches the expression that has the value as a literal in its place; plain values
// match also the other way round.
func FuzzTemplates(f *testing.F) {
	for _, seed := range [][4]string{
		{"", "*", ".example.com", "www.example.com"}, {"web-", "a", ".example.com", "web-a.example.com"}, {"", "a/b", "", "a/b"}, {"", "x.y", ".example.com", "x.y.example.com"},
		{"spiffe://a/", "*", "", "spiffe://a/b"}, {"spiffe://a/", "..", "/x", "spiffe://a/../x"}, {"spiffe://a/ns/", "shop", "/**", "spiffe://a/ns/shop/sa/b"},
		{"**.", "a", ".b", "x.y.a.b"}, {"*", "{user}", "*", "{user}"}, {"", "", "example.com", "example.com"}, {"*-", "a.b", "*", "x-a.by"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, before, value, after, text string) {
		if strings.ContainsAny(before+after, "{}") || len(before+value+after) > 100 || len(text) > 200 || !utf8.ValidString(before+value+after+text) {
			return // regular expressions know no other bytes
		}
		values, pattern := &Values{User: value}, before+"{user}"+after
		plain := value != "" && strings.Trim(value, "abcdefghijklmnopqrstuvwxyz0123456789") == ""
		check := func(kind string, got Result, expression string) {
			t.Helper()
			want := matchesWhole(expression, text)
			if got.Matches && (!want || value == "") || plain && want && !got.Matches {
				t.Errorf("%s %q with %q as %q: %+v, want %v", kind, text, pattern, value, got, want)
			}
		}
		literal := regexp.QuoteMeta(value)
		if p, err := ParseText(pattern); err == nil {
			check("text", p.Match(text, values), "(?s:"+globbed(before, ".*")+literal+globbed(after, ".*")+")")
		}
		if p, err := ParseDNS(pattern); err == nil && CheckDNSName(text) == nil && isASCII(before+after) {
			first, deep := strings.CutPrefix(before, "**.")
			expression := globbed(first, "[^.]*") + literal + globbed(after, "[^.]*")
			if deep {
				expression = `([^.]+\.)+` + expression
			}
			check("DNS name", p.Match(text, values), "(?i:"+expression+")")
		}
		if p, err := ParseURI(pattern); err == nil && CheckURI(text) == nil {
			last, deep := strings.CutSuffix(after, "/**")
			expression := globbed(before, "[^/?#]+") + literal + globbed(last, "[^/?#]+")
			if deep {
				expression += "(/[^/?#]+)+"
			}
			check("URI", p.Match(text, values), expression)
		}
	})
}

// globbed returns a regular expression for a text in which only stars are special.
func globbed(text, star string) string {
	parts := strings.Split(text, "*")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return strings.Join(parts, star)
}

func matchesWhole(expression, text string) bool {
	re, err := regexp.Compile("^(?:" + expression + ")$")
	return err == nil && re.MatchString(text)
}
