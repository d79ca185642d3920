package pki_test

import (
	"bytes"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestParseDN(t *testing.T) {
	tests := []struct {
		reason, in string
		want       string // the last part of in first: types and values
		err        string
	}{
		{reason: "the order is reversed", in: "CN=web,OU=shop,DC=corp", want: "[0.9.2342.19200300.100.1.25=corp] [2.5.4.11=shop] [2.5.4.3=web]"},
		{reason: "every name", in: "C=1,O=2,OU=3,CN=4,SERIALNUMBER=5,L=6,ST=7,STREET=8,DC=9,UID=10", want: "[0.9.2342.19200300.100.1.1=10] [0.9.2342.19200300.100.1.25=9] [2.5.4.9=8] [2.5.4.8=7] [2.5.4.7=6] [2.5.4.5=5] [2.5.4.3=4] [2.5.4.11=3] [2.5.4.10=2] [2.5.4.6=1]"},
		{reason: "repeated types", in: "DC=example,DC=com", want: "[0.9.2342.19200300.100.1.25=com] [0.9.2342.19200300.100.1.25=example]"},
		{reason: "names in any case", in: "cn=a", want: "[2.5.4.3=a]"},
		{reason: "an identifier", in: "2.5.4.97=a", want: "[2.5.4.97=a]"},
		{reason: "several values in one part", in: "CN=a+UID=b,O=c", want: "[2.5.4.10=c] [2.5.4.3=a 0.9.2342.19200300.100.1.1=b]"},
		{reason: "spaces around parts", in: " CN = a , O = b ", want: "[2.5.4.10=b] [2.5.4.3=a]"},
		{reason: "spaces within values", in: "CN=a  b", want: "[2.5.4.3=a  b]"},
		{reason: "an escaped space at the end", in: `CN=a\ ,O=b`, want: "[2.5.4.10=b] [2.5.4.3=a ]"},
		{reason: "a space after an escaped backslash", in: `CN=a\\ `, want: `[2.5.4.3=a\]`},
		{reason: "escaped separators", in: `CN=a\,b\+c\;d`, want: "[2.5.4.3=a,b+c;d]"},
		{reason: "escaped octets", in: `CN=Lu\C4\8Di\C4\87`, want: "[2.5.4.3=Lučić]"},
		{reason: "letters of all kinds", in: "CN=東京", want: "[2.5.4.3=東京]"},
		{reason: "an equals sign in a value", in: "CN=a=b", want: "[2.5.4.3=a=b]"},
		{reason: "a slash in a value", in: "CN=a/b", want: "[2.5.4.3=a/b]"},
		{reason: "semicolons", in: "CN=a;O=b", want: "[2.5.4.10=b] [2.5.4.3=a]"},

		{reason: "nothing", in: "", err: "is not of the form KEY=value"},
		{reason: "an unknown name", in: "E=a", err: `unknown attribute "E"`},
		{reason: "no type", in: "a", err: "is not of the form KEY=value"},
		{reason: "an empty part", in: "CN=a,,O=b", err: "is not of the form KEY=value"},
		{reason: "an empty value", in: "CN=", err: "the value of CN: is empty"},
		{reason: "a lone backslash", in: `CN=a\`, err: "has a backslash before neither"},
		{reason: "a backslash before a letter", in: `CN=\z`, err: "has a backslash before neither"},
		{reason: "a quote", in: `CN="a"`, err: "needs a backslash before it"},
		{reason: "an encoded value", in: "CN=#0C0161", err: "in hexadecimal are not supported"},
		{reason: "a hash sign", in: "CN=#1 shop", err: "in hexadecimal are not supported"},
		{reason: "octets that are no text", in: `CN=\C4`, err: "is not UTF-8"},
		{reason: "no text at all", in: "CN=\xff", err: "is not UTF-8"},
		{reason: "an identifier of one arc", in: "2=a", err: "unknown attribute"},
		{reason: "an identifier that cannot be", in: "1.40.1=a", err: "unknown attribute"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			sequence, err := pki.ParseDN(tc.in)
			if (err != nil) != (tc.err != "") || !strings.Contains(text(err), tc.err) {
				t.Fatalf("error %q, want %q", text(err), tc.err)
			}
			if got := showDN(sequence); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func showDN(sequence pkix.RDNSequence) string {
	var sets []string
	for _, set := range sequence {
		var attributes []string
		for _, attribute := range set {
			attributes = append(attributes, fmt.Sprintf("%v=%v", attribute.Type, attribute.Value))
		}
		sets = append(sets, "["+strings.Join(attributes, " ")+"]")
	}
	return strings.Join(sets, " ")
}

func TestEncodeDN(t *testing.T) {
	sequence, err := pki.ParseDN("CN=ä,O=a,DC=corp")
	if err != nil {
		t.Fatal(err)
	}
	der, err := pki.EncodeDN(sequence)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string][]byte{
		"IA5String": {asn1.TagIA5String, 4, 'c', 'o', 'r', 'p'}, "PrintableString": {asn1.TagPrintableString, 1, 'a'}, "UTF8String": {asn1.TagUTF8String, 2, 0xc3, 0xa4},
	} {
		if !bytes.Contains(der, value) {
			t.Errorf("no %s in %x", name, der)
		}
	}
	if sequence, _ = pki.ParseDN("DC=ä"); sequence == nil {
		t.Fatal("does not parse")
	}
	if _, err := pki.EncodeDN(sequence); err == nil {
		t.Error("a domain component of any letters was encoded")
	}
}

func FuzzParseDN(f *testing.F) {
	for _, seed := range []string{"CN=a,O=b", `CN=a\,b+UID=\C4\8D`, "CN=#0C0161", `2.5.4.97=a\ `, "DC=x;DC=y", "=", ",", `\`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		sequence, err := pki.ParseDN(text)
		if err != nil {
			return
		}
		der, err := pki.EncodeDN(sequence)
		if err != nil {
			return // a domain component that is not ASCII
		}
		var back pkix.RDNSequence
		if rest, err := asn1.Unmarshal(der, &back); err != nil || len(rest) > 0 {
			t.Fatalf("%q encodes as %x, which does not parse: %v", text, der, err)
		}
		if len(back) != len(sequence) {
			t.Errorf("%q has %d parts, and %d once encoded", text, len(sequence), len(back))
		}
	})
}
