package names

import (
	"strings"
	"testing"
)

// FuzzGlob compares glob with a reference that tries every length of every
// star.
func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{{"*", ""}, {"a*b", "ab"}, {"*a*b*", "xaxbx"}, {"**", "a"}, {"a*a*a*b", "aaaaaaaaaaaa"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 12 || len(text) > 24 {
			return
		}
		g, err := glob(pattern, 0)
		if err != nil {
			t.Fatal(err)
		}
		for min := range 2 {
			if got, want := g.pattern.glob(text, min), reference(pattern, text, min); got != want {
				t.Errorf("%q with %q, min %d: %v, want %v", pattern, text, min, got, want)
			}
		}
	})
}

func reference(pattern, text string, min int) bool {
	switch {
	case pattern == "":
		return text == ""
	case pattern[0] == '*':
		for n := min; n <= len(text); n++ {
			if reference(pattern[1:], text[n:], min) {
				return true
			}
		}
		return false
	}
	return text != "" && text[0] == pattern[0] && reference(pattern[1:], text[1:], min)
}

// FuzzDNS compares zones and patterns with a reference on labels.
func FuzzDNS(f *testing.F) {
	for _, seed := range [][2]string{{"example.com", "a.example.com"}, {"*.example.com", "a.example.com"}, {"**.b", "a.a.b"}, {"w*.b", "web.b"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.ContainsAny(pattern, "{}") || CheckDNSName(name) != nil || len(pattern) > 24 || len(name) > 24 {
			return
		}
		name = strings.ToLower(name)
		if p, err := ParseDNS(pattern); err == nil {
			folded, _ := toASCII(pattern)
			if got, want := p.Match(name, nil).Matches, referenceDNS(folded, name); got != want {
				t.Errorf("pattern %q with %q: %v, want %v", pattern, name, got, want)
			}
		}
		if p, err := ParseZone(pattern); err == nil {
			folded, _ := toASCII(pattern)
			if got, want := p.Match(name, nil).Matches, name == folded || strings.HasSuffix(name, "."+folded); got != want {
				t.Errorf("zone %q with %q: %v, want %v", pattern, name, got, want)
			}
		}
	})
}

func referenceDNS(pattern, name string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(name, ".")
	if want[0] == "**" {
		more := len(have) - len(want)
		if more < 0 {
			return false
		}
		want, have = want[1:], have[more+1:]
	}
	if len(want) != len(have) {
		return false
	}
	for i := range want {
		if have[i] == "" || !reference(want[i], have[i], 0) {
			return false
		}
	}
	return true
}

// FuzzParse: no pattern makes the parsers crash.
func FuzzParse(f *testing.F) {
	f.Add("{namespace}.example.com", "a")
	f.Add("spiffe://a/{namespaceLabel:x}/**", "spiffe://a/b/c")
	v := &Values{Namespace: "*", User: "a/b", NamespaceLabels: map[string]string{"x": "."}}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if p, err := ParseDNS(pattern); err == nil {
			p.Match(text, v)
			p.Overlaps(text, v)
		}
		if p, err := ParseURI(pattern); err == nil {
			p.Match(text, v)
		}
		if p, err := ParseEmail(pattern); err == nil {
			p.Match(text, v)
		}
		if p, err := ParseText(pattern); err == nil {
			p.Match(text, v)
		}
		_, _, _ = CheckURI(text), CheckEmail(text), CheckDNSName(text)
	})
}
