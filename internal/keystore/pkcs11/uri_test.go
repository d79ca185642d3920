package pkcs11

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "?module-path=/usr/lib/p11.so"

func TestParse(t *testing.T) {
	tests := []struct {
		reason, uri string
		want        map[string]string
		shown       string // without what is secret or of no help
	}{
		{
			reason: "as tools print it", // p11tool --list-privkeys
			uri:    "pkcs11:model=SoftHSM%20v2;manufacturer=SoftHSM%20project;serial=2e4da4bd;token=ca;id=%01%a2;object=issuing;type=private" + module,
			want: map[string]string{
				"model": "SoftHSM v2", "manufacturer": "SoftHSM project", "serial": "2e4da4bd", "token": "ca",
				"id": "\x01\xa2", "object": "issuing", "type": "private",
			},
			shown: "pkcs11:token=ca;manufacturer=SoftHSM%20project;serial=2e4da4bd;model=SoftHSM%20v2;object=issuing;id=%01%a2;type=private",
		},
		{
			reason: "a plus sign is itself; a semicolon is not",
			uri:    "PKCS11:object=a+b%3Bc" + module, want: map[string]string{"object": "a+b;c"}, shown: "pkcs11:object=a+b%3Bc",
		},
		{
			reason: "a question mark in the query", uri: "pkcs11:object=a" + module + "&pin-value=12?34",
			want: map[string]string{"object": "a"}, shown: "pkcs11:object=a",
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			u, err := Parse(tc.uri)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, u.path); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if u.String() != tc.shown {
				t.Errorf("shown as %s, want %s", u, tc.shown)
			}
		})
	}
}

func TestParseRefuses(t *testing.T) {
	const secret = "74108520"
	tests := []struct{ reason, uri, want string }{
		{"another scheme", "file:" + secret, "does not begin with pkcs11: as it must"},
		{"no key", "pkcs11:token=a" + module, "names no key: add the key's label as object=LABEL"},
		{"an attribute that would be passed over", "pkcs11:object=a;library-version=3" + module, "before the question mark: attribute 2 is not one of token, "},
		{"twice", "pkcs11:object=a;object=b" + module, "object is listed twice"},
		{"empty", "pkcs11:object=;id=%01" + module, "the value of object is empty"},
		{"not percent-encoded", "pkcs11:object=100%" + module, "the value of object is empty or not percent-encoded"},
		{"a public key", "pkcs11:object=a;type=public" + module, "type=public: a CA signs with a private key"},
		{"no module", "pkcs11:object=a?pin-value=" + secret, "names no module: add ?module-path="},
		{"a module from anywhere", "pkcs11:object=a?module-path=p11.so", "names no module: add ?module-path= with the absolute path"},
		{"two PINs", "pkcs11:object=a" + module + "&pin-source=file:/pin&pin-value=" + secret, "remove pin-value"},
		{"a PIN from a program", "pkcs11:object=a" + module + "&pin-source=|/bin/" + secret, "pin-source must be file: and an absolute path"},
		{"a PIN from somewhere", "pkcs11:object=a" + module + "&pin-source=file:" + secret, "pin-source must be file: and an absolute path"},
		{"a PIN without its name", "pkcs11:object=a" + module + "&" + secret, "after the question mark: attribute 2 is not one of module-path, pin-source, pin-value"},
		{"a PIN with an ampersand", "pkcs11:object=a" + module + "&pin-value=1&" + secret, "after the question mark: attribute 3 is not one of"},
		{"a PIN with a percent sign", "pkcs11:object=a" + module + "&pin-value=%" + secret[4:] + "%zz" + secret, "the value of pin-value is empty or not percent-encoded"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := Parse(tc.uri)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want %q", err, tc.want)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error shows a secret: %v", err)
			}
			if Validate(tc.uri) == nil {
				t.Error("valid all the same")
			}
		})
	}
}

func TestPIN(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pin")
	tests := []struct{ reason, query, content, want, wantErr string }{
		{"in the URI", "&pin-value=12%2034", "", "12 34", ""},
		{"none", "", "", "", ""},
		{"a path", "&pin-source=" + file, "1234", "1234", ""},
		{"an editor ends files with a line feed", "&pin-source=file:" + file, "1234\n", "1234", ""},
		{"a file URI with an empty host", "&pin-source=file://" + file, "12 34\r\n", "12 34", ""},
		{"an empty file", "&pin-source=file:" + file, "\n", "", "reading the PIN: " + file + " is empty"},
		{"no file", "&pin-source=file:" + file + "x", "", "", "reading the PIN: open " + file + "x: no such file or directory"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if err := os.WriteFile(file, []byte(tc.content), 0o600); err != nil {
				t.Fatal(err)
			}
			u, err := Parse("pkcs11:object=a" + module + tc.query)
			if err != nil {
				t.Fatal(err)
			}
			got, err := u.pin()
			if got != tc.want || (err == nil) != (tc.wantErr == "") || err != nil && err.Error() != tc.wantErr {
				t.Errorf("%q, %v; want %q, %s", got, err, tc.want, tc.wantErr)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add("pkcs11:token=ca;object=issuing;id=%01" + module + "&pin-source=file:/pin")
	f.Add("pkcs11:object=a" + module + "&pin-value=1234")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(u.String() + module)
		if err != nil {
			t.Fatalf("%s cannot be read again: %v", u, err)
		}
		if diff := cmp.Diff(u.path, again.path); diff != "" {
			t.Errorf("read again (-first +second):\n%s", diff)
		}
	})
}
