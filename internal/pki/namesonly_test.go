package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

func TestNamesOnly(t *testing.T) {
	long := strings.Repeat("a", 60) + ".shop.example"
	attribute := func(value string) pkix.AttributeTypeAndValue {
		return pkix.AttributeTypeAndValue{Type: pki.OIDCommonName, Value: value}
	}
	for _, tc := range []struct {
		reason   string
		template x509.CertificateRequest
		common   string
		dns, ips []string
	}{
		{reason: "nothing"},
		{
			"everything else is left out", x509.CertificateRequest{
				Subject: pkix.Name{CommonName: "A.shop.example", Organization: []string{"system:masters"}, SerialNumber: "7"}, DNSNames: []string{"a.shop.example", "A.SHOP.EXAMPLE"},
				EmailAddresses: []string{"a@shop.example"}, URIs: []*url.URL{{Scheme: "spiffe", Host: "shop"}},
				ExtraExtensions: []pkix.Extension{{Id: pki.OIDKeyUsage, Value: []byte{3, 2, 5, 0xa0}}},
			}, "a.shop.example", []string{"a.shop.example"}, nil,
		},
		{"a common name is a name", x509.CertificateRequest{Subject: pkix.Name{CommonName: "a.shop.example."}, DNSNames: []string{"b.shop.example"}}, "a.shop.example", []string{"b.shop.example", "a.shop.example"}, nil},
		{"an address", x509.CertificateRequest{Subject: pkix.Name{CommonName: "192.0.2.1"}, IPAddresses: []net.IP{net.ParseIP("192.0.2.1"), net.ParseIP("2001:db8::1")}}, "192.0.2.1", nil, []string{"192.0.2.1", "2001:db8::1"}},
		{"a wildcard", x509.CertificateRequest{Subject: pkix.Name{CommonName: "*.shop.example"}}, "*.shop.example", []string{"*.shop.example"}, nil},
		{"a common name that is no name", x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:a"}}, "", nil, nil},
		{"a name that is too long for a common name", x509.CertificateRequest{Subject: pkix.Name{CommonName: long}}, "", []string{long}, nil},
		{"several common names", x509.CertificateRequest{Subject: pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{attribute("b.shop.example"), attribute("a.shop.example")}}}, "b.shop.example", []string{"b.shop.example", "a.shop.example"}, nil},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			sent := pki.ReadRequest(newRequest(t, &tc.template, newKey(t, pki.ECDSAP256)))
			got, err := pki.NamesOnly(sent)
			if err != nil {
				t.Fatal(err)
			}
			var ips []string
			for _, ip := range got.IPAddresses {
				ips = append(ips, ip.String())
			}
			if got.Subject.CommonName != tc.common || len(pki.CommonNames(got.Subject)) != len(got.Subject.Names) || !slices.Equal(got.DNSNames, tc.dns) || !slices.Equal(ips, tc.ips) {
				t.Errorf("%q, %q, %q", got.Subject, got.DNSNames, ips)
			}
			if len(got.EmailAddresses)+len(got.URIs)+len(got.Other) > 0 || got.KeyUsage.Present || len(got.Extensions) > 1 {
				t.Errorf("%+v", got)
			}
			if err := pki.VerifyRequest(got.CertificateRequest); err != nil || !pki.SameKey(got.PublicKey, sent.PublicKey) {
				t.Errorf("the proof of the key: %v", err)
			}
		})
	}
}
