package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"
)

// TestParsedRequests: the last requests are kept, the older and the large ones
// are not, and a caller that modifies what it has given changes none.
func TestParsedRequests(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	request := func(name string) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	parse := func(der []byte) *Request {
		r, err := ParseRequestDER(der)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	der := request("alice")
	first := parse(der)
	if parse(der) != first {
		t.Error("a request is parsed again")
	}
	changed := string(der)
	for i := range der {
		der[i] = 0
	}
	if again := parse([]byte(changed)); again != first || string(again.Raw) != changed || again.Subject.CommonName != "alice" {
		t.Error("the request has changed with the bytes that it was parsed from")
	}
	large := request(strings.Repeat("x", maxKept))
	if once := parse(large); parse(large) == once {
		t.Error("a large request is kept")
	}
	for i := range len(parsedLast.order) {
		parse(request(fmt.Sprint(i)))
	}
	if parse([]byte(changed)) == first || len(parsedLast.byDER) > len(parsedLast.order) {
		t.Errorf("%d requests are kept, and the oldest is among them", len(parsedLast.byDER))
	}
	if _, err := ParseRequestDER([]byte("bad")); err == nil {
		t.Error("what is no request was parsed")
	}
}
