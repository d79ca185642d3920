package zlint

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

type change func(*x509.Certificate)

// odd are requested certificates that should perhaps not be issued. For those
// that certplane's linter accepts, fails lists what zlint objects to.
var odd = []struct {
	reason  string
	change  change
	refused bool
	fails   []string
}{
	{reason: "nothing odd", change: func(*x509.Certificate) {}},
	{reason: "no subject", change: func(c *x509.Certificate) { c.Subject = pkix.Name{} }},
	{reason: "no name at all", change: func(c *x509.Certificate) { c.Subject, c.DNSNames = pkix.Name{}, nil }, refused: true},
	{reason: "an end before the begin", change: func(c *x509.Certificate) { c.NotAfter = c.NotBefore.Add(-time.Hour) }, refused: true},
	{reason: "an end after the CA's", change: func(c *x509.Certificate) { c.NotAfter = c.NotAfter.AddDate(50, 0, 0) }, refused: true},

	{reason: "names of services", change: dns("_srv._tcp.example.com"), fails: []string{"w_rfc_dnsname_underscore_in_trd"}},
	{reason: "an underscore in the domain", change: dns("a.b_c.com"), fails: []string{"e_rfc_dnsname_underscore_in_sld"}},
	{reason: "one label", change: dns("localhost")},
	{reason: "a wildcard", change: dns("*.example.com")},
	{reason: "a wildcard alone", change: dns("*"), refused: true},
	{reason: "a wildcard within", change: dns("a.*.example.com"), refused: true},
	{reason: "a part of a wildcard", change: dns("a*.example.com"), refused: true},
	{reason: "a dot at the end", change: dns("example.com."), refused: true},
	{reason: "a dot at the begin", change: dns(".example.com"), refused: true},
	{reason: "a long label", change: dns(strings.Repeat("a", 64) + ".com"), refused: true},
	{reason: "a long name", change: dns(strings.Repeat("abcdefgh.", 29) + "com"), refused: true},
	{reason: "one name twice", change: dns("example.com", "EXAMPLE.com")},

	{reason: "an address", change: mail("a@example.com")},
	{reason: "an address in brackets", change: mail("<a@example.com>"), refused: true},
	{reason: "an address with a blank", change: mail("a b@example.com"), refused: true},
	{reason: "no address", change: mail("example.com"), refused: true},

	{reason: "a SPIFFE ID", change: uri("spiffe://cluster.local/ns/a/sa/b")},
	{reason: "a trust domain of one label", change: uri("spiffe://cluster/ns/a/sa/b"), fails: []string{"e_ext_san_uri_host_not_fqdn_or_ip"}},
	{reason: "a URN", change: uri("urn:a:b")},
	{reason: "a relative URI", change: uri("/x"), refused: true},
	{reason: "a scheme alone", change: uri("http:"), refused: true},

	{reason: "a long common name", change: subject(pkix.Name{CommonName: strings.Repeat("a", 65)}), fails: []string{"e_subject_common_name_max_length"}},
	{reason: "a long group", change: subject(pkix.Name{Organization: []string{strings.Repeat("a", 65)}}), fails: []string{"e_subject_organization_name_max_length"}},
	{reason: "a long serial number", change: subject(pkix.Name{SerialNumber: strings.Repeat("1", 65)}), fails: []string{"e_subject_dn_serial_number_max_length"}},
	{reason: "a node", change: subject(pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}})},
	{reason: "a common name beyond ASCII", change: subject(pkix.Name{CommonName: "Jörg"})},
	{reason: "a control character", change: subject(pkix.Name{CommonName: "a\x01"}), refused: true},
	{reason: "blanks around a name", change: subject(pkix.Name{CommonName: " a "}), fails: []string{"w_subject_dn_leading_whitespace", "w_subject_dn_trailing_whitespace"}},
	{reason: "HTML", change: subject(pkix.Name{CommonName: "a &amp; b"}), fails: []string{"e_subj_contains_html_entities"}},
	{reason: "a country in small letters", change: subject(pkix.Name{Country: []string{"de"}}), fails: []string{"e_subj_country_not_uppercase"}},
	{reason: "an empty attribute", change: subject(attribute("", 2, 5, 4, 3)), fails: []string{"e_subject_printable_string_badalpha"}},
	{reason: "an address in the subject", change: subject(attribute("a@example.com", 1, 2, 840, 113549, 1, 9, 1)), fails: []string{"e_subj_email_not_in_san"}},

	{reason: "no usage", change: func(c *x509.Certificate) { c.KeyUsage = 0 }},
	{reason: "cert sign", change: usages(x509.KeyUsageCertSign), refused: true},
	{reason: "CRL sign", change: usages(x509.KeyUsageCRLSign)},
	{reason: "encipher only, of what is not agreed on", change: usages(x509.KeyUsageEncipherOnly)},
	{reason: "key encipherment with ECDSA", change: usages(x509.KeyUsageKeyEncipherment), fails: []string{"e_ecdsa_allowed_ku"}},
	{reason: "e-mail signed by who signs CRLs", change: usages(x509.KeyUsageCRLSign, x509.ExtKeyUsageEmailProtection), fails: []string{"e_key_usage_and_extended_key_usage_inconsistent"}},
	{reason: "any usage and others", change: usages(x509.KeyUsageDigitalSignature, x509.ExtKeyUsageAny, x509.ExtKeyUsageServerAuth)},

	{reason: "locations", change: locations("http://example.com/a")},
	{reason: "locations that are none", change: locations("a"), fails: []string{"w_distribution_point_missing_ldap_or_uri", "w_ext_aia_access_location_missing"}},

	{reason: "no alternative name", change: extension(ce(17), false, 0x30, 0), refused: true},
	{reason: "an empty alternative name", change: extension(ce(17), false, 0x30, 2, 0x82, 0), refused: true},
	{reason: "an alternative name that is a directory's", change: extension(ce(17), false, 0x30, 4, 0xa4, 2, 0x30, 0)},
	{reason: "an IP address of five octets", change: extension(ce(17), false, 0x30, 7, 0x87, 5, 1, 2, 3, 4, 5), refused: true},
	{reason: "a key usage that is not critical", change: extension(ce(15), false, 3, 2, 7, 0x80), fails: []string{"w_ext_key_usage_not_critical"}},
	{reason: "a key usage without a bit", change: extension(ce(15), true, 3, 1, 0), refused: true},
	{reason: "no extended usage", change: extension(ce(37), false, 0x30, 0), refused: true},
	{reason: "no policy", change: extension(ce(32), false, 0x30, 0), refused: true},
	{reason: "no distribution point", change: extension(ce(31), false, 0x30, 0), refused: true},
	{reason: "a critical key identifier", change: extension(ce(14), true, 4, 1, 1), refused: true},
	{reason: "a critical access method", change: extension(asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 1, 1}, true, 0x30, 0), refused: true},
	{reason: "an unknown extension", change: extension(asn1.ObjectIdentifier{1, 2, 3}, false, 5, 0), refused: true},

	{reason: "a CA", change: ca},
	{reason: "a CA that issues to other CAs", change: both(ca, func(c *x509.Certificate) { c.MaxPathLen = 3 })},
	{reason: "a CA that may not sign", change: both(ca, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }), refused: true},
	{reason: "a CA without a subject", change: both(ca, func(c *x509.Certificate) { c.Subject, c.DNSNames = pkix.Name{}, []string{"example.com"} }), fails: []string{"e_ca_subject_field_empty"}},
	{reason: "a CA for some names", change: both(ca, func(c *x509.Certificate) {
		c.PermittedDNSDomains, c.PermittedDNSDomainsCritical = []string{"example.com"}, true
	})},
}

// TestOdd has zlint judge what certplane's linter accepts.
func TestOdd(t *testing.T) {
	now := time.Now()
	root := newRoot(t, now)
	for _, tc := range odd {
		t.Run(tc.reason, func(t *testing.T) {
			serial, err := pki.NewSerial(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			template := &x509.Certificate{
				PublicKey: newKey(t, pki.ECDSAP256).Public(), SerialNumber: serial,
				Subject: pkix.Name{CommonName: "a"}, DNSNames: []string{"a.example.com"},
				NotBefore: now, NotAfter: now.Add(24 * time.Hour),
				KeyUsage: x509.KeyUsageDigitalSignature, BasicConstraintsValid: true,
			}
			tc.change(template)
			lint := root.Lint
			if template.IsCA {
				lint = root.LintCA
			}
			linted, err := lint(template, pki.Policy{})
			if refused := new(pki.RefusedError); tc.refused != errors.As(err, &refused) {
				t.Fatalf("refused: %v, want %v", err, tc.refused)
			}
			if tc.refused {
				return
			}
			cert, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
			if err != nil {
				t.Fatal(err)
			}
			wantFailed(t, cert, tc.fails...)
		})
	}
}

func dns(names ...string) change {
	return func(c *x509.Certificate) { c.DNSNames = names }
}

func mail(address string) change {
	return func(c *x509.Certificate) { c.EmailAddresses = []string{address} }
}

func uri(text string) change {
	return func(c *x509.Certificate) {
		parsed, err := url.Parse(text)
		if err != nil {
			panic(err)
		}
		c.URIs = []*url.URL{parsed}
	}
}

func subject(name pkix.Name) change {
	return func(c *x509.Certificate) { c.Subject = name }
}

func attribute(value string, id ...int) pkix.Name {
	return pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{{Type: id, Value: value}}}
}

func usages(key x509.KeyUsage, extended ...x509.ExtKeyUsage) change {
	return func(c *x509.Certificate) { c.KeyUsage, c.ExtKeyUsage = key, extended }
}

func locations(url string) change {
	return func(c *x509.Certificate) {
		c.CRLDistributionPoints, c.OCSPServer, c.IssuingCertificateURL = []string{url}, []string{url}, []string{url}
	}
}

// extension adds an extension with this encoding to the certificate.
func extension(id asn1.ObjectIdentifier, critical bool, value ...byte) change {
	return func(c *x509.Certificate) {
		c.DNSNames = nil
		c.ExtraExtensions = []pkix.Extension{{Id: id, Critical: critical, Value: value}}
	}
}

// ce returns the OID of an extension of RFC 5280 section 4.2.1.
func ce(arc int) asn1.ObjectIdentifier { return asn1.ObjectIdentifier{2, 5, 29, arc} }

func ca(c *x509.Certificate) {
	c.IsCA, c.KeyUsage, c.DNSNames = true, x509.KeyUsageCertSign|x509.KeyUsageCRLSign, nil
}

func both(first, second change) change {
	return func(c *x509.Certificate) {
		first(c)
		second(c)
	}
}
