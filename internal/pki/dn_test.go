package pki_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestParseDN(t *testing.T) {
	tests := []struct{ reason, text, want string }{
		{"the last comes first", "CN=web,OU=team,O=corp,DC=example,DC=com", "0.9.2342.19200300.100.1.25=com 0.9.2342.19200300.100.1.25=example 2.5.4.10=corp 2.5.4.11=team 2.5.4.3=web"},
		{"names in small letters, and blanks", " cn = web , o= Big Corp ", "2.5.4.10=Big Corp 2.5.4.3=web"},
		{"escaped characters", `CN=a\,b\+c\=d\\e`, `2.5.4.3=a,b+c=d\e`},
		{"escaped octets", `CN=Lu\C4\8Di\C4\87`, "2.5.4.3=Lučić"},
		{"escaped blanks stay", `CN=\ a \ `, "2.5.4.3= a  "},
		{"several in one", "CN=web+UID=7,O=corp", "2.5.4.10=corp 2.5.4.3=web+0.9.2342.19200300.100.1.1=7"},
		{"an identifier", "1.2.3.4=x", "1.2.3.4=x"},
		{"the older separator", "CN=a;O=b", "2.5.4.10=b 2.5.4.3=a"},
		{"a sign inside", "CN=a=b", "2.5.4.3=a=b"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			name, err := pki.ParseDN(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			var sets []string
			for _, set := range name {
				var pairs []string
				for _, a := range set {
					pairs = append(pairs, fmt.Sprintf("%s=%v", a.Type, a.Value))
				}
				sets = append(sets, strings.Join(pairs, "+"))
			}
			if got := strings.Join(sets, " "); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestParseDNRefuses(t *testing.T) {
	for reason, text := range map[string]string{
		"nothing":                  "",
		"an empty part":            "CN=a,,O=b",
		"no value":                 "CN=",
		"only a blank":             "CN= ",
		"no sign":                  "CN",
		"no key":                   "=a",
		"an unknown key":           "MAIL=a",
		"not quite an identifier":  "1.40.3=a",
		"hexadecimal":              "CN=#0403414243",
		"a quote":                  `CN="a"`,
		"a backslash at the end":   `CN=a\`,
		"a backslash too many":     `CN=\a`,
		"octets that are no UTF-8": `CN=\FF`,
		"text that is no UTF-8":    "CN=\xff",
	} {
		if name, err := pki.ParseDN(text); err == nil {
			t.Errorf("%s: %q is read as %v", reason, text, name)
		}
	}
}

func FuzzParseDN(f *testing.F) {
	f.Add(`CN=a\,b+O=c,DC=d`)
	f.Fuzz(func(t *testing.T, text string) {
		name, err := pki.ParseDN(text)
		if err == nil && len(name) == 0 {
			t.Errorf("%q names nothing", text)
		}
	})
}
