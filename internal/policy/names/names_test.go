package names_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/policy/names"
)

var values = &names.Values{
	Namespace: "shop", ServiceAccount: "web", User: "a/b", Node: "n1.example.com", Services: []string{"api", "front"},
	NamespaceLabels: map[string]string{"star": "*", "dots": "x.y", "team": "blue", "empty": ""},
	PodLabels:       map[string]string{"role": "DB"},
	Unknown:         map[string]string{"pod": "pods/web-1"},
}

func TestDNS(t *testing.T) {
	tests := []struct {
		reason, pattern, name string
		want                  bool
	}{
		{"the same", "www.example.com", "www.example.com", true},
		{"another case", "www.Example.com", "WWW.example.COM", true},
		{"a star in a label", "web-*.example.com", "web-1.example.com", true},
		{"a star in a label can be nothing", "web*.example.com", "web.example.com", true},
		{"a star is within its label", "web*.example.com", "web.a.example.com", false},
		{"a label star", "*.example.com", "a.example.com", true},
		{"a label star is one label", "*.example.com", "a.b.example.com", false},
		{"a label star is a label", "*.example.com", "example.com", false},
		{"two stars", "**.example.com", "a.b.example.com", true},
		{"two stars are a label or more", "**.example.com", "example.com", false},
		{"label boundary", "**.example.com", "badexample.com", false},
		{"a variable", "{serviceAccount}.{namespace}.svc", "web.shop.svc", true},
		{"a variable in a label", "{serviceAccount}-x.example.com", "web-x.example.com", true},
		{"a whole name", "{node}", "n1.example.com", true},
		{"a whole name does not stand alone", "x{node}", "xn1.example.com", false},
		{"each service", "{service}.{namespace}.svc", "front.shop.svc", true},
		{"no such service", "{service}.{namespace}.svc", "other.shop.svc", false},
		{"a value that is a star", "{namespaceLabel:star}.example.com", "a.example.com", false},
		{"a value that is a star, literally", "{namespaceLabel:star}.example.com", "*.example.com", false},
		{"a value with dots is a whole name", "{namespaceLabel:dots}.example.com", "x.y.example.com", true},
		{"a value with dots beside a literal", "a-{namespaceLabel:dots}.example.com", "a-x.y.example.com", false},
		{"a value with a slash", "{user}.example.com", "a/b.example.com", false},
		{"no value", "{namespaceLabel:none}.example.com", ".example.com", false},
		{"no value never makes it shorter", "a{namespaceLabel:none}.example.com", "a.example.com", false},
		{"an empty value", "a{namespaceLabel:empty}.example.com", "a.example.com", false},
		{"a value in upper case", "{podLabel:role}.example.com", "db.example.com", true},
		{"an empty label", "*.example.com", ".example.com", false},
		{"a literal star never matches", "*.example.com", "*.example.com", false},
		{"U-labels in a policy", "bücher.example", "xn--bcher-kva.example", true},
	}
	for _, tc := range tests {
		p, err := names.ParseDNS(tc.pattern)
		if err != nil {
			t.Errorf("%s: %v", tc.reason, err)
			continue
		}
		if got := p.Match(tc.name, values); got.Matches != tc.want {
			t.Errorf("%s: %q with %q: %+v", tc.reason, tc.pattern, tc.name, got)
		}
	}
}

func TestZone(t *testing.T) {
	tests := []struct {
		zone, name string
		want       bool
	}{
		{"example.com", "example.com", true},
		{"example.com", "a.b.example.com", true},
		{"example.com", "badexample.com", false},
		{"example.com", "com", false},
		{"example.com", "example.com.evil.org", false},
		{"shop.example.com", "SHOP.example.com", true},
		{"shop.example.com", "badshop.example.com", false},
		{"{namespace}.example.com", "a.shop.example.com", true},
		{"{namespace}.example.com", "example.com", false},
		{"{namespaceLabel:none}.example.com", "a.example.com", false},
	}
	for _, tc := range tests {
		p, err := names.ParseZone(tc.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(tc.name, values); got.Matches != tc.want {
			t.Errorf("zone %q with %q: %+v", tc.zone, tc.name, got)
		}
	}
}

// A requested *.NAME lies in a zone that has NAME, and touches an exclusion
// that has any of its names.
func TestWildcards(t *testing.T) {
	tests := []struct {
		pattern, below   string
		permits, touches bool
	}{
		{"example.com", "example.com", true, true},
		{"example.com", "a.example.com", true, true},
		{"example.com", "com", false, true}, // it covers example.com
		{"*.example.com", "a.example.com", true, true},
		{"*.example.com", "example.com", false, true},
		{"pay.example.com", "example.com", false, true},
		{"a.pay.example.com", "example.com", false, false},
		{"**.example.com", "example.com", false, true},
		{"**.pay.example.com", "example.com", false, false},
		{"example.org", "example.com", false, false},
	}
	for _, tc := range tests {
		p, err := names.ParseDNS(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.MatchWildcard(tc.below, nil); got.Matches != tc.permits {
			t.Errorf("%q permits *.%s: %v", tc.pattern, tc.below, got.Matches)
		}
		if got := p.Overlaps(tc.below, nil); got.Matches != tc.touches {
			t.Errorf("%q overlaps *.%s: %v", tc.pattern, tc.below, got.Matches)
		}
	}
}

func TestCheckDNSName(t *testing.T) {
	for name, want := range map[string]string{
		"example.com": "", "SHOP.example.com": "", "xn--bcher-kva.example": "", "_acme.example.com": "",
		"example.com.": "dot at its end", "a..b": "not a valid", "10.0.0.1": "IP address", "::1": "IP address", "bücher.example": "ASCII",
		"a.*.b": "*", "-a.b": "not a valid", strings.Repeat("a", 64) + ".b": "not a valid", "a b.c": "not a valid", "": "not a valid", "a\x00.b": "not a valid",
	} {
		if err := names.CheckDNSName(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}

func TestURI(t *testing.T) {
	tests := []struct {
		reason, pattern, uri string
		want                 bool
	}{
		{"the same", "spiffe://example.com/ns/a", "spiffe://example.com/ns/a", true},
		{"variables", "spiffe://example.com/ns/{namespace}/sa/{serviceAccount}", "spiffe://example.com/ns/shop/sa/web", true},
		{"a slash in a value", "spiffe://example.com/{user}", "spiffe://example.com/a/b", false},
		{"a star", "spiffe://example.com/ns/*", "spiffe://example.com/ns/a", true},
		{"a star is one character or more", "spiffe://example.com/ns/a*", "spiffe://example.com/ns/a", false},
		{"a star in one segment", "spiffe://example.com/ns/*", "spiffe://example.com/ns/a/b", false},
		{"all below", "spiffe://example.com/ns/**", "spiffe://example.com/ns/a/b", true},
		{"nothing below", "spiffe://example.com/ns/**", "spiffe://example.com/ns", false},
		{"all of a host", "spiffe://example.com/**", "spiffe://example.com/a", true},
		{"another host", "spiffe://example.com/**", "spiffe://example.com.evil/a", false},
		{"a query", "https://example.com/*", "https://example.com/a?b", false},
		{"no path", "https://example.com", "https://example.com", true},
	}
	for _, tc := range tests {
		p, err := names.ParseURI(tc.pattern)
		if err != nil {
			t.Errorf("%s: %v", tc.reason, err)
			continue
		}
		if err := names.CheckURI(tc.uri); err != nil {
			t.Errorf("%s: %v", tc.reason, err)
		}
		if got := p.Match(tc.uri, values); got.Matches != tc.want {
			t.Errorf("%s: %q with %q: %+v", tc.reason, tc.pattern, tc.uri, got)
		}
	}
	for _, uri := range []string{
		"spiffe://example.com/a/../b", "spiffe://example.com/a//b", "spiffe://example.com/%61", "spiffe://example.com/a%2Fb", "spiffe://EXAMPLE.com/a",
		"https://u@example.com/", "https://example.com/#f", "relative/a", "https://example.com/a/", "SPIFFE://example.com/a", "",
	} {
		if names.CheckURI(uri) == nil {
			t.Errorf("%q is accepted", uri)
		}
	}
}

func TestEmail(t *testing.T) {
	tests := []struct {
		pattern, address string
		want             bool
	}{
		{"*@example.com", "ann@Example.com", true},
		{"*@example.com", "ann@a.example.com", false},
		{"Ann@example.com", "ann@example.com", false},
		{"{serviceAccount}@{namespace}.example.com", "web@shop.example.com", true},
	}
	for _, tc := range tests {
		p, err := names.ParseEmail(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(tc.address, values); got.Matches != tc.want {
			t.Errorf("%q with %q: %+v", tc.pattern, tc.address, got)
		}
	}
	for _, address := range []string{"a", "a@b@c", "@example.com", "a@", "a@-b.com"} {
		if names.CheckEmail(address) == nil {
			t.Errorf("%q is accepted", address)
		}
	}
	domain, err := names.ParseDomain("example.com")
	if err != nil {
		t.Fatal(err)
	}
	if !domain.Match("a@EXAMPLE.com", nil).Matches || domain.Match("a@b.example.com", nil).Matches {
		t.Error("a domain is not exact")
	}
}

func TestGlobs(t *testing.T) {
	tests := []struct {
		parse         func(string) (names.Glob, error)
		pattern, name string
		want          bool
	}{
		{names.ParseSigner, "*", "example.com/web", true},
		{names.ParseSigner, "example.com/*", "example.com/web", true},
		{names.ParseSigner, "example.com/*", "example.com/a/b", false},
		{names.ParseSigner, "example.com/w*", "example.com/w", false},
		{names.ParseSigner, "*.example.com/web", "a.b.example.com/web", true},
		{names.ParseSigner, "*/web", "example.com/web", true},
		{names.ParseNamespace, "shop-*", "shop-", true},
		{names.ParseNamespace, "shop", "shop2", false},
		{names.ParseUser, "system:node:*", "system:node:n1", true},
		{names.ParseUser, "*@example.com", "a@example.com", true},
		{names.ParseUser, "ann", "anna", false},
	}
	for _, tc := range tests {
		p, err := tc.parse(tc.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Match(tc.name); got != tc.want {
			t.Errorf("%q with %q: %v", tc.pattern, tc.name, got)
		}
	}
	account, err := names.ParseServiceAccount("shop-*/web")
	if err != nil {
		t.Fatal(err)
	}
	if !account.Match("shop-1", "web") || account.Match("shop", "web") || account.Match("shop-1", "web2") {
		t.Error("service accounts")
	}
}

// What is not known yet may match later; what has no value says so.
func TestOpen(t *testing.T) {
	p, err := names.ParseText("{pod}")
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Match("web-1", values); got != (names.Result{Open: "pods/web-1"}) {
		t.Errorf("%+v", got)
	}
	if p, err = names.ParseText("{namespaceLabel:none}*"); err != nil {
		t.Fatal(err)
	}
	if got := p.Match("web-1", values); got != (names.Result{Because: "{namespaceLabel:none} has no value"}) {
		t.Errorf("%+v", got)
	}
	open, because := names.Result{Open: "a"}, names.Result{Because: "b"}
	if because.Or(open) != open || !because.Or(names.Result{Matches: true}).Matches {
		t.Error("the worse of two results")
	}
}

func TestRefusedPatterns(t *testing.T) {
	dns := func(s string) error { _, err := names.ParseDNS(s); return err }
	zone := func(s string) error { _, err := names.ParseZone(s); return err }
	uri := func(s string) error { _, err := names.ParseURI(s); return err }
	text := func(s string) error { _, err := names.ParseText(s); return err }
	email := func(s string) error { _, err := names.ParseEmail(s); return err }
	user := func(s string) error { _, err := names.ParseUser(s); return err }
	signer := func(s string) error { _, err := names.ParseSigner(s); return err }
	cidr := func(s string) error { _, err := names.ParseCIDR(s); return err }
	re := func(s string) error { _, err := names.CompileRegexp(s); return err }
	tests := []struct {
		parse      func(string) error
		text, want string
	}{
		{dns, "a.**.b", "first label"}, {dns, "a..b", "empty label"}, {dns, "a b.c", "not a label"}, {dns, "{nothing}.b", "no variable"},
		{dns, "{namespace", "without a }"}, {dns, "a}.b", "without a {"}, {dns, "{namespaceLabel}.b", "KEY"}, {dns, "{namespace:x}.b", "KEY"}, {dns, "bü*.b", "ASCII"},
		{zone, "*.example.com", "must not have a *"}, {zone, "example.com.", "empty label"},
		{uri, "urn:a", "scheme and host"}, {uri, "https://*.example.com/a", "scheme and host"}, {uri, "https://example.com/a//b", "empty"}, {uri, "https://example.com/**/a", "**"},
		{uri, "https://example.com/a/../b", ".."}, {uri, "https://example.com/%61", "encodes"}, {uri, "https://example.com/a?b", "query"},
		{text, "", "empty"}, {text, "{x}", "no variable"}, {email, "a", "one @"}, {user, "a*b", "one *"}, {user, "*a*", "one *"}, {signer, "web", "signer name"},
		{cidr, "10.0.0.1/8", "write 10.0.0.0/8"}, {cidr, "10.0.0.0", "not a network"}, {cidr, "::ffff:10.0.0.0/104", "IPv4"},
		{re, "a)(b", "unexpected )"}, {re, "(", "missing"}, {re, strings.Repeat("a", 513), "512"},
	}
	for _, tc := range tests {
		if err := tc.parse(tc.text); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
	}
	if p, err := names.ParseText("{{a}}"); err != nil || !p.Match("{a}", nil).Matches {
		t.Error("literal braces")
	}
}

func TestRegexp(t *testing.T) {
	re, err := names.CompileRegexp("a|b")
	if err != nil {
		t.Fatal(err)
	}
	if !re.MatchString("a") || re.MatchString("ab") || re.MatchString("xb") || re.MatchString("b\n") {
		t.Error("a regular expression does not match as a whole")
	}
}

func TestFunctions(t *testing.T) {
	if !names.InZone("a.example.com", "example.com") || !names.InZone("*.a.example.com", "example.com") || names.InZone("badexample.com", "example.com") ||
		names.InZone("*.com", "example.com") || names.InZone("a.example.com.", "example.com") {
		t.Error("InZone")
	}
	if !names.UnderPattern("a/b", "a/*") || names.UnderPattern("b", "a*") {
		t.Error("UnderPattern")
	}
	if !names.SameNames([]string{"A", "b", "b"}, []string{"B", "a"}) || names.SameNames([]string{"a"}, []string{"a", "b"}) {
		t.Error("SameNames")
	}
}

// TestRegexpOfGlobs: the regular expression of a pattern matches the same names.
func TestRegexpOfGlobs(t *testing.T) {
	samples := []string{
		"example.com/web", "example.com/web2", "aexample.com/web", "exampleXcom/web", "example.com/a/b", "example.com/", "/web", "",
		"a.example.org/ca", ".example.org/ca", "shop", "shop-eu", "shop\neu", "system:node:n1",
	}
	for _, tc := range []struct {
		parse    func(string) (names.Glob, error)
		patterns []string
	}{
		{names.ParseSigner, []string{"*", "example.com/web", "example.com/*", "example.com/w*b", "*.example.org/ca", "*/*", "e*m/*/*"}},
		{names.ParseNamespace, []string{"shop", "shop*", "*", "*o*"}},
		{names.ParseUser, []string{"system:node:*", "*n1", "shop"}},
	} {
		for _, pattern := range tc.patterns {
			glob, err := tc.parse(pattern)
			if err != nil {
				t.Fatal(err)
			}
			whole := regexp.MustCompile("^(?:" + glob.Regexp() + ")$")
			for _, name := range samples {
				if glob.Match(name) != whole.MatchString(name) {
					t.Errorf("%s matches %q: %t; its expression %s: %t", pattern, name, glob.Match(name), whole, whole.MatchString(name))
				}
			}
		}
	}
}
