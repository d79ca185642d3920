package pki_test

import (
	"crypto/x509"
	"encoding/hex"
	"math/big"
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
