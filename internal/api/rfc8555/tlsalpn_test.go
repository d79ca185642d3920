package rfc8555

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"strings"
	"testing"
)

// identifierOf returns the value of acmeIdentifier for a key authorization.
func identifierOf(key string) []byte {
	sum := sha256.Sum256([]byte(key))
	return append([]byte{4, 32}, sum[:]...)
}

func nameOf(tag byte, value string) []byte {
	return append([]byte{0x30, byte(2 + len(value)), 0x80 | tag, byte(len(value))}, value...)
}

// Forms that no TLS library lets pass, and those of addresses.
func TestCheckTLSALPN(t *testing.T) {
	const key = "token.thumbprint"
	answer := pkix.Extension{Id: AcmeIdentifier, Critical: true, Value: identifierOf(key)}
	name := func(tag byte, value string) pkix.Extension {
		return pkix.Extension{Id: subjectAltName, Value: nameOf(tag, value)}
	}
	const unsigned = "its certificate is not self-signed" // and nothing else is wrong
	other := pkix.Extension{Id: asn1.ObjectIdentifier{1, 2, 3}}
	for _, tc := range []struct {
		reason, host string
		extensions   []pkix.Extension
		want         string
	}{
		{"a name", "a.example", []pkix.Extension{name(2, "A.Example"), answer}, unsigned},
		{"an IPv4 address", "10.1.2.3", []pkix.Extension{name(7, "\x0a\x01\x02\x03"), answer}, unsigned},
		{"an IPv6 address", "fd00::1", []pkix.Extension{name(7, "\xfd"+strings.Repeat("\x00", 14)+"\x01"), answer}, unsigned},
		{"an IPv4 address in 16 bytes", "10.1.2.3", []pkix.Extension{name(7, strings.Repeat("\x00", 10)+"\xff\xff\x0a\x01\x02\x03"), answer}, "its certificate is for another name"},
		{"an address as a name", "10.1.2.3", []pkix.Extension{name(2, "10.1.2.3"), answer}, "its certificate is for another name"},
		{"a name as a URI", "a.example", []pkix.Extension{name(6, "a.example"), answer}, "its certificate is for another name"},
		{"a name in a nested value", "a.example", []pkix.Extension{name(0x22, "a.example"), answer}, "its certificate is for another name"},
		{"a letter that folds to k", "k.example", []pkix.Extension{name(2, "\u212a.example"), answer}, "its certificate is for another name"},
		{"a final dot", "a.example", []pkix.Extension{name(2, "a.example."), answer}, "its certificate is for another name"},
		{"a zero byte", "a.example", []pkix.Extension{name(2, "a.example\x00"), answer}, "its certificate is for another name"},
		{"bytes after the names", "a.example", []pkix.Extension{{Id: subjectAltName, Value: append(nameOf(2, "a.example"), 5, 0)}, answer}, "the extension subjectAltName of its certificate cannot be read"},
		{"names twice", "a.example", []pkix.Extension{name(2, "a.example"), answer, name(2, "a.example")}, "its certificate has 2 extensions subjectAltName, expected 1"},
		{"the hash twice", "a.example", []pkix.Extension{answer, name(2, "a.example"), answer}, "its certificate has the extension acmeIdentifier twice"},
		{"another extension twice", "a.example", []pkix.Extension{other, answer, name(2, "a.example"), other}, "its certificate has the extension 1.2.3 twice"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if err := CheckTLSALPN(&x509.Certificate{Extensions: tc.extensions}, tc.host, key); err == nil || err.Error() != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

func FuzzTLSALPN(f *testing.F) {
	const host, key = "a.example", "token.thumbprint"
	f.Add(nameOf(2, host), identifierOf(key), []byte{0x30})
	f.Add(append(nameOf(2, host), 0), append(identifierOf(key), 0), []byte{})
	f.Fuzz(func(t *testing.T, names, identifier, der []byte) {
		extensions := []pkix.Extension{{Id: subjectAltName, Value: names}, {Id: AcmeIdentifier, Critical: true, Value: identifier}}
		if checkAcmeIdentifier(extensions, key) == nil && !bytes.Equal(identifier, identifierOf(key)) {
			t.Errorf("%x is taken for the hash", identifier)
		}
		if checkAlternativeName(extensions, host) == nil && !strings.EqualFold(string(names), string(nameOf(2, host))) {
			t.Errorf("%x is taken for the name", names)
		}
		if checkAlternativeName(extensions, "10.1.2.3") == nil && !bytes.Equal(names, nameOf(7, "\x0a\x01\x02\x03")) {
			t.Errorf("%x is taken for the address", names)
		}
		if certificate, err := x509.ParseCertificate(der); err == nil {
			_ = CheckTLSALPN(certificate, host, key)
		}
	})
}
