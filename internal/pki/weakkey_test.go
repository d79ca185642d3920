package pki

import (
	"crypto/rsa"
	"math/big"
	"strings"
	"testing"
)

func TestWeakRSA(t *testing.T) {
	for _, tc := range []struct {
		reason             string
		bits, e, demanding int
		want               string
	}{
		{"usual", 2048, 65537, 2048, ""},
		{"small", 1024, 65537, 2048, "RSA key of 1024 bits is smaller than the required 2048 bits"},
		{"small, where that is allowed", 1024, 65537, 1024, ""},
		{"exponent 3", 2048, 3, 2048, "RSA key has the public exponent 3: make one with 65537"},
		{"exponent 3, where that is allowed", 2048, 3, 1024, ""},
		{"exponent 3, of a CA that is there", 2048, 3, 0, ""},
		{"an even exponent", 2048, 4, 0, "unusable exponent"},
	} {
		n := new(big.Int).SetBit(big.NewInt(1), tc.bits-1, 1)
		err := CheckPublicKey(&rsa.PublicKey{N: n, E: tc.e}, tc.demanding)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.reason, err, tc.want)
		}
	}
}
