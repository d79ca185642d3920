package pki_test

import (
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestCertID(t *testing.T) {
	tests := []struct {
		reason        string
		keyID, serial string
		want          string
	}{
		{"the example of RFC 9773 section 4.1", "69885b6b87464041e1b37b847ba0ae2cde01c8d4", "87654321", "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE"},
		{"a serial number without a leading zero byte", "01", "1234", "AQ.EjQ"},
		{"zero", "01", "0", "AQ.AA"},
		{"a negative serial number", "01", "-1", "AQ._w"},
		{"a negative serial number of two bytes", "01", "-81", "AQ._38"},
		{"the smallest number of one byte", "01", "-80", "AQ.gA"},
		{"no authority key identifier", "", "1234", ""},
	}
	for _, tc := range tests {
		keyID, err := hex.DecodeString(tc.keyID)
		if err != nil {
			t.Fatal(err)
		}
		serial, _ := new(big.Int).SetString(tc.serial, 16)
		if got := pki.CertID(&x509.Certificate{AuthorityKeyId: keyID, SerialNumber: serial}); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.reason, got, tc.want)
		}
	}
}

func TestParseCertID(t *testing.T) {
	for _, tc := range []struct{ reason, text, keyID, serial string }{
		{"the example of RFC 9773 section 4.1", "aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE", "69885b6b87464041e1b37b847ba0ae2cde01c8d4", "87654321"},
		{"a serial number without a leading zero byte", "AQ.EjQ", "01", "1234"},
		{"zero", "AQ.AA", "01", "0"},
		{"nothing", "", "", ""},
		{"no dot", "AQ", "", ""},
		{"no key identifier", ".EjQ", "", ""},
		{"no serial number", "AQ.", "", ""},
		{"two dots", "AQ.EjQ.AQ", "", ""},
		{"a final dot", "AQ.EjQ.", "", ""},
		{"padding in the first part", "AQ==.EjQ", "", ""},
		{"padding in the second part", "AQ.EjQ=", "", ""},
		{"standard base64", "+/8.EjQ", "", ""},
		{"a stray bit", "AR.EjQ", "", ""},
		{"a line break", "A\nQ.EjQ", "", ""},
		{"a line break at the end", "AQ.EjQ\n", "", ""},
		{"a space", "AQ. EjQ", "", ""},
		{"a negative serial number", "AQ._w", "", ""},
		{"a zero byte that is missing", "AQ.h2VDIQ", "", ""},
		{"a zero byte too many", "AQ.ABI0", "", ""},
		{"a long key identifier", strings.Repeat("AAAA", 22) + ".EjQ", "", ""},
		{"a long serial number", "AQ." + strings.Repeat("EjQ1", 8), "", ""},
	} {
		keyID, serial, err := pki.ParseCertID(tc.text)
		if tc.keyID == "" {
			if err == nil {
				t.Errorf("%s: is accepted as %x, %x", tc.reason, keyID, serial)
			}
			continue
		}
		if err != nil || hex.EncodeToString(keyID) != tc.keyID || serial.Text(16) != tc.serial {
			t.Errorf("%s: %x, %x, %v", tc.reason, keyID, serial, err)
		}
	}
}

// FuzzParseCertID: each certificate has one identifier.
func FuzzParseCertID(f *testing.F) {
	for _, seed := range []string{"aYhba4dGQEHhs3uEe6CuLN4ByNQ.AIdlQyE", "AQ.EjQ", "AQ.AA", "AQ._w", "AQ==.EjQ", ".", "AQ.EjQ\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keyID, serial, err := pki.ParseCertID(text)
		if err != nil {
			return
		}
		if again := pki.CertID(&x509.Certificate{AuthorityKeyId: keyID, SerialNumber: serial}); again != text {
			t.Errorf("%q is made again as %q", text, again)
		}
		if content, err := asn1.Marshal(serial); err != nil || serial.Sign() < 0 || !strings.HasSuffix(text, "."+base64.RawURLEncoding.EncodeToString(content[2:])) {
			t.Errorf("%q has the serial number %x", text, serial)
		}
	})
}
