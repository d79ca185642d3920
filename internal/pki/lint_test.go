package pki_test

import (
	"crypto"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"math/big"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// TestLint changes one thing of a good certificate at a time.
func TestLint(t *testing.T) {
	root := newRoot(t)
	tests := []struct {
		reason string
		change func(*x509.Certificate)
		want   string // part of the error; empty if it is fine
	}{
		{reason: "nothing changed"},

		{reason: "serial of 20 octets", change: serial(new(big.Int).Lsh(big.NewInt(1), 158))},
		{reason: "serial of 21 octets", change: serial(new(big.Int).Lsh(big.NewInt(1), 159)), want: "serial number must be positive and of at most 20 octets"},
		{reason: "serial zero", change: serial(new(big.Int)), want: "serial number must be positive"},
		{reason: "serial negative", change: serial(big.NewInt(-1)), want: "serial number must be positive"},

		{reason: "over before it begins", change: validity(time.Hour, 0), want: "would end before it begins"},
		{reason: "no time at all", change: validity(0, 0), want: "would end before it begins"},
		{reason: "outlives the CA", change: validity(0, pki.DefaultRootLifetime+time.Second), want: "would outlive its CA"},
		{reason: "ends with the CA", change: validity(0, pki.DefaultRootLifetime)},
		{reason: "older than the CA", change: validity(-time.Hour, time.Hour), want: "would be older than its CA"},

		{reason: "no name at all", change: nameless, want: "certificate would have no name"},
		{reason: "no subject but names", change: func(c *x509.Certificate) { nameless(c); c.DNSNames = []string{"example.com"} }},
		{
			reason: "the CA's name",
			change: func(c *x509.Certificate) {
				c.RawSubject, c.Subject = root.Certificate().RawSubject, root.Certificate().Subject
			},
			want: "subject is the CA's own name",
		},
		{reason: "control character in the subject", change: subject("a\x00b"), want: "subject attribute 2.5.4.3 contains a control character"},
		{reason: "any letters in the subject", change: subject("Ærøskøbing 東京")},
		{reason: "subjects beyond the bounds of RFC 5280", change: subject("system:serviceaccount:" + strings.Repeat("n", 200))},
		{
			reason: "a subject attribute that is no string",
			change: func(c *x509.Certificate) {
				c.RawSubject = marshal(t, pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: 7}}})
			},
			want: "reading back",
		},
		{
			reason: "a subject that was reviewed as another",
			change: func(c *x509.Certificate) {
				c.RawSubject = marshal(t, pkix.Name{CommonName: "mallory"}.ToRDNSequence())
			},
			want: "subject reads differently in a certificate than in the request",
		},

		{reason: "wildcard", change: dns("*.example.com")},
		{reason: "service name", change: dns("_sip._tcp.example.com")},
		{reason: "single label", change: dns("localhost")},
		{reason: "longest label", change: dns(strings.Repeat("a", 63) + ".example")},
		{reason: "label too long", change: dns(strings.Repeat("a", 64) + ".example"), want: "is malformed"},
		{reason: "name too long", change: dns(strings.Repeat("a.", 127) + "a"), want: "is malformed"},
		{reason: "empty name", change: dns(""), want: `DNS name "" is malformed`},
		{reason: "a blank, which RFC 5280 names", change: dns(" "), want: `DNS name " " is malformed`},
		{reason: "trailing dot", change: dns("example.com."), want: "is malformed"},
		{reason: "empty label", change: dns("a..b"), want: "is malformed"},
		{reason: "bare wildcard", change: dns("*"), want: "is malformed"},
		{reason: "wildcard of nothing", change: dns("*."), want: "is malformed"},
		{reason: "wildcard inside", change: dns("a.*.example.com"), want: "is malformed"},
		{reason: "half wildcard", change: dns("a*.example.com"), want: "is malformed"},
		{reason: "leading hyphen", change: dns("-a.example.com"), want: "is malformed"},
		{reason: "trailing hyphen", change: dns("a-.example.com"), want: "is malformed"},
		{reason: "with a path", change: dns("example.com/x"), want: "is malformed"},
		{reason: "not ASCII", change: dns("bücher.example"), want: "encoding: x509"},

		{reason: "e-mail address", change: email("alice+x@example.com")},
		{reason: "no domain", change: email("alice"), want: `e-mail address "alice" is malformed`},
		{reason: "no local part", change: email("@example.com"), want: "is malformed"},
		{reason: "display name", change: email("Alice <alice@example.com>"), want: "is malformed"},
		{reason: "e-mail not ASCII", change: email("älice@example.com"), want: "encoding: x509"},

		{reason: "SPIFFE ID", change: uri("spiffe://cluster.local/ns/a/sa/b")},
		{reason: "URN", change: uri("urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6")},
		{reason: "relative URI", change: uri("/x"), want: "must be absolute"},
		{reason: "URI of a malformed host", change: uri("https://a..b/x"), want: "reading back"},

		{reason: "IPv4 and IPv6", change: func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4zero, net.IPv6loopback} }},
		{reason: "IP of strange length", change: func(c *x509.Certificate) { c.IPAddresses = []net.IP{{1, 2, 3}} }, want: "reading back"},

		{reason: "CA bit", change: func(c *x509.Certificate) { c.IsCA = true }, want: "must not be a CA"},
		{reason: "path length", change: func(c *x509.Certificate) { c.MaxPathLenZero = true }, want: "encoding: x509"},
		{reason: "cert sign", change: usage(x509.KeyUsageCertSign), want: "usage cert sign needs a CA certificate"},
		{reason: "CRLs can be signed for a CA", change: usage(x509.KeyUsageCRLSign)},
		{reason: "no basic constraints", change: func(c *x509.Certificate) { c.BasicConstraintsValid = false }, want: "basic constraints must be present"},
		{reason: "no key usage", change: func(c *x509.Certificate) { c.KeyUsage = 0 }},
		{reason: "a key usage without a bit", change: empty(15, 3, 1, 0), want: "extension 2.5.29.15 is empty"},
		{reason: "no alternative name", change: empty(17, 0x30, 0), want: "extension 2.5.29.17 is empty"},
		{reason: "no extended usage", change: empty(37, 0x30, 0), want: "extension 2.5.29.37 is empty"},
		{
			reason: "unknown extension",
			change: func(c *x509.Certificate) {
				c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 3}, Value: []byte{5, 0}}}
			},
			want: "extension 1.2.3 has no place in an end-entity certificate",
		},
		{
			reason: "name constraints",
			change: func(c *x509.Certificate) { c.PermittedDNSDomains = []string{"example.com"} },
			want:   "name constraints belong into CA certificates only",
		},
		{
			reason: "names that are not critical without a subject",
			change: func(c *x509.Certificate) {
				nameless(c)
				c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: []byte("\x30\x03\x82\x01a")}}
			},
			want: "subjectAltName must be critical",
		},
		{
			reason: "names in two places",
			change: func(c *x509.Certificate) {
				c.DNSNames = []string{"b"}
				c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: []byte("\x30\x03\x82\x01a")}}
			},
			want: "alternative names read differently",
		},
		{
			reason: "foreign key identifier",
			change: func(c *x509.Certificate) {
				c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 14}, Value: []byte{4, 1, 7}}}
			},
			want: "key identifiers do not match",
		},

		{reason: "RSA of 1024 bits", change: key(rsaKey(1024))},
		{reason: "RSA of 1023 bits", change: key(rsaKey(1023)), want: "RSA key of 1023 bits is smaller than the required 1024 bits"},
		{reason: "RSA that is too large", change: key(rsaKey(16385)), want: "RSA key of 16385 bits is larger than the supported 16384 bits"},
		{reason: "no key", change: key(nil), want: "public key algorithm is not supported"},
		{reason: "unknown key", change: key("key"), want: "public key type string is not supported"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			template := leafTemplate(t)
			if tc.change != nil {
				tc.change(template)
			}
			linted, err := root.Lint(template, pki.Policy{MinRSABits: 1024})
			if got := text(err); (tc.want == "") != (err == nil) || !strings.Contains(got, tc.want) {
				t.Fatalf("error %q, want %q", got, tc.want)
			}
			if err == nil {
				assertSigns(t, linted)
				return
			}
			if refused := new(pki.RefusedError); !errors.As(err, &refused) {
				t.Errorf("error is a %T", err)
			}
		})
	}
}

func assertSigns(t *testing.T, linted *pki.Linted) {
	t.Helper()
	if _, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{}); err != nil {
		t.Errorf("what the linter has passed cannot be signed: %v", err)
	}
}

func TestLintSaysAllThatIsWrong(t *testing.T) {
	template := leafTemplate(t)
	template.IsCA = true
	template.DNSNames = []string{"a..b"}
	template.NotAfter = template.NotBefore
	_, err := newRoot(t).Lint(template, pki.Policy{})
	const want = `refusing to sign: certificate would end before it begins; DNS name "a..b" is malformed; an end-entity certificate must not be a CA`
	if text(err) != want {
		t.Errorf("error %q, want %q", text(err), want)
	}
}

func TestLintDoesNotChangeTheTemplate(t *testing.T) {
	template := leafTemplate(t)
	if _, err := newRoot(t).Lint(template, pki.Policy{}); err != nil {
		t.Fatal(err)
	}
	if template.SubjectKeyId != nil || template.AuthorityKeyId != nil {
		t.Error("the caller's template has been completed")
	}
}

// TestLintKnowsTheCAsLimits: certificates that no verifier would accept are not
// issued.
func TestLintKnowsTheCAsLimits(t *testing.T) {
	tests := []struct {
		reason string
		limit  func(ca *x509.Certificate)
		change func(leaf *x509.Certificate)
		want   string
	}{
		{reason: "permitted name", limit: permit("example.com"), change: dns("a.example.com")},
		{reason: "other name", limit: permit("example.com"), change: dns("a.example.org"), want: "verifying against the CA"},
		{reason: "permitted usage", limit: extended(x509.ExtKeyUsageClientAuth)},
		{reason: "any usage", limit: extended(x509.ExtKeyUsageAny)},
		{reason: "other usage", limit: extended(x509.ExtKeyUsageServerAuth), want: "the CA is not allowed to issue for one of the extended usages"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			template, caKey := caTemplate("limited"), newKey(t, pki.ECDSAP256)
			tc.limit(template)
			ca, err := pki.NewAuthority([]*x509.Certificate{selfSigned(t, template, caKey)}, caKey)
			if err != nil {
				t.Fatal(err)
			}
			leaf := leafTemplate(t)
			if tc.change != nil {
				tc.change(leaf)
			}
			_, err = ca.Lint(leaf, pki.Policy{})
			if got := text(err); (tc.want == "") != (err == nil) || !strings.Contains(got, tc.want) {
				t.Errorf("error %q, want %q", got, tc.want)
			}
		})
	}
}

func permit(domain string) func(*x509.Certificate) {
	return func(ca *x509.Certificate) {
		ca.PermittedDNSDomains, ca.PermittedDNSDomainsCritical = []string{domain}, true
	}
}

func extended(usage x509.ExtKeyUsage) func(*x509.Certificate) {
	return func(ca *x509.Certificate) { ca.ExtKeyUsage = []x509.ExtKeyUsage{usage} }
}

func serial(n *big.Int) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.SerialNumber = n }
}

func validity(start, end time.Duration) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(start), now.Add(end) }
}

func nameless(c *x509.Certificate) { c.RawSubject, c.Subject = []byte{0x30, 0}, pkix.Name{} }

func subject(commonName string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.RawSubject, c.Subject = nil, pkix.Name{CommonName: commonName} }
}

func dns(name string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.DNSNames = []string{name} }
}

func email(address string) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.EmailAddresses = []string{address} }
}

func uri(s string) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		parsed, err := url.Parse(s)
		if err != nil {
			panic(err)
		}
		c.URIs = []*url.URL{parsed}
	}
}

// empty puts an extension of RFC 5280 section 4.2.1 in place of the one there.
func empty(arc int, value ...byte) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.DNSNames = nil
		c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, arc}, Value: value}}
	}
}

func usage(bit x509.KeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.KeyUsage |= bit }
}

func key(k crypto.PublicKey) func(*x509.Certificate) {
	return func(c *x509.Certificate) { c.PublicKey = k }
}

// rsaKey returns a public key of a size; its private key does not exist.
func rsaKey(bits uint) *rsa.PublicKey {
	modulus := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return &rsa.PublicKey{N: modulus.SetBit(modulus, 0, 1), E: 65537}
}
