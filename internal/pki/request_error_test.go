package pki_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

// What is wrong with a request is said in the same words each time.
func TestErrorsHaveNoAddresses(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewRequest(pki.Subject{DNSNames: []string{"www.example.com"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := pki.ParseRequest(csr)
	if err != nil {
		t.Fatal(err)
	}
	extensionRequest := []byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14}
	broken := bytes.Clone(parsed.Raw)
	attributes := bytes.Index(broken, extensionRequest) - 4
	if broken[attributes] != 0xa0 {
		t.Fatalf("the tag of the attributes is %x", broken[attributes])
	}
	broken[attributes] = 0xb1
	_, err = pki.ParseRequestDER(broken)
	if err == nil || strings.Contains(err.Error(), "0x") || !strings.HasPrefix(err.Error(), "asn1: structure error: tags don't match") {
		t.Errorf("the error is %v", err)
	}
}
