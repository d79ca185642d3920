package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

var (
	distributionPoints = asn1.ObjectIdentifier{2, 5, 29, 31}
	noRevAvail         = asn1.ObjectIdentifier{2, 5, 29, 56}
)

func valueOf(cert *x509.Certificate, id asn1.ObjectIdentifier) string {
	for _, extension := range cert.Extensions {
		if extension.Id.Equal(id) && !extension.Critical {
			return string(extension.Value)
		}
	}
	return ""
}

func TestStatusInfo(t *testing.T) {
	const where = "http://crl.example.com/1.crl"
	point := "\x30\x24\x30\x22\xa0\x20\xa0\x1e\x86\x1c" + where
	listed := pki.StatusInfo{ListURL: func(*x509.Certificate) string { return where }, ShortLived: time.Hour}
	both := listed
	both.NoRevAvail = true
	tests := []struct {
		reason string
		status pki.StatusInfo
		ca     func(*x509.Certificate)
		lives  time.Duration
		// What the certificate has.
		point, none string
	}{
		{reason: "nothing is set", lives: 2 * time.Hour},
		{reason: "a URL", status: listed, lives: time.Hour + time.Second, point: point},
		{reason: "a URL, but short-lived", status: listed, lives: time.Hour},
		{reason: "a CA without key usage", status: listed, ca: func(c *x509.Certificate) { c.KeyUsage = 0 }, lives: 2 * time.Hour, point: point},
		{reason: "a CA that cannot sign lists", status: listed, ca: func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCertSign }, lives: 2 * time.Hour},
		{reason: "a CA without a list", status: pki.StatusInfo{ListURL: func(*x509.Certificate) string { return "" }}, lives: 2 * time.Hour},
		{reason: "noRevAvail", status: both, lives: time.Hour, none: "\x05\x00"},
		{reason: "noRevAvail, but long-lived", status: both, lives: 2 * time.Hour, point: point},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			template, key := caTemplate("ca"), newKey(t, pki.ECDSAP256)
			if tc.ca != nil {
				tc.ca(template)
			}
			ca, err := pki.NewAuthority([]*x509.Certificate{selfSigned(t, template, key)}, key)
			if err != nil {
				t.Fatal(err)
			}
			leaf := leafTemplate(t)
			leaf.NotAfter = leaf.NotBefore.Add(tc.lives)
			linted, err := ca.Lint(leaf, pki.Policy{Status: tc.status})
			if err != nil {
				t.Fatal(err)
			}
			cert, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{tc.point, tc.none}, []string{valueOf(cert, distributionPoints), valueOf(cert, noRevAvail)}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if want := tc.point != "" || tc.none != ""; want != (len(cert.Extensions) > len(sign(t, ca, leaf).Extensions)) {
				t.Errorf("extensions %v", cert.Extensions)
			}
		})
	}
}

// CA certificates name the list of the CA above, roots none.
func TestStatusInfoOfCAs(t *testing.T) {
	status := pki.StatusInfo{ListURL: func(ca *x509.Certificate) string { return "http://crl.example.com/" + ca.Subject.CommonName }, NoRevAvail: true, ShortLived: 100 * day}
	by := pki.Issuing{Rand: pki.Unrecorded.Rand, Record: pki.Unrecorded.Record, Status: status}.For(t.Context(), pki.Purpose{})
	root, err := pki.NewRoot(by, "root", newKey(t, pki.ECDSAP256), 200*day, now)
	if err != nil {
		t.Fatal(err)
	}
	below, err := root.NewIntermediate(by, "below", newKey(t, pki.ECDSAP256), 101*day, now)
	if err != nil {
		t.Fatal(err)
	}
	brief, err := root.NewIntermediate(by, "brief", newKey(t, pki.ECDSAP256), 10*day, now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := below.Issue(by, pki.Subject{CommonName: "leaf"}, newKey(t, pki.ECDSAP256).Public(), pki.ClientUsages(), 101*day, now)
	if err != nil {
		t.Fatal(err)
	}
	got := [][]string{root.Certificate().CRLDistributionPoints, below.Certificate().CRLDistributionPoints, brief.Certificate().CRLDistributionPoints, leaf[0].CRLDistributionPoints}
	if diff := cmp.Diff([][]string{nil, {"http://crl.example.com/root"}, nil, {"http://crl.example.com/below"}}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	for _, ca := range []*pki.Authority{root, below, brief} {
		if valueOf(ca.Certificate(), noRevAvail) != "" {
			t.Errorf("%v has noRevAvail", ca.Certificate().Subject)
		}
	}
}

func TestLintStatusInfo(t *testing.T) {
	ca := newRoot(t)
	names := func(where string) pki.StatusInfo {
		return pki.StatusInfo{ListURL: func(*x509.Certificate) string { return where }}
	}
	extension := func(id asn1.ObjectIdentifier, critical bool, value string) func(*x509.Certificate) {
		return func(c *x509.Certificate) {
			c.ExtraExtensions = []pkix.Extension{{Id: id, Critical: critical, Value: []byte(value)}}
		}
	}
	const uri = "\x86\x0ahttp://a/b"
	tests := []struct {
		reason string
		status pki.StatusInfo
		change func(*x509.Certificate)
		isCA   bool
		want   string // part of the error; empty if it is fine
	}{
		{reason: "one URL", status: names("http://a/b")},
		{reason: "https", status: names("https://a/b"), want: "is not a URL with http and a host"},
		{reason: "no host", status: names("http:///b"), want: "is not a URL with http and a host"},
		{reason: "critical", status: names("http://a/b"), change: extension(distributionPoints, true, "\x30\x12\x30\x10\xa0\x0e\xa0\x0c"+uri), want: "without reasons and without an issuer, and not critical"},
		{reason: "two names", status: names("http://a/b"), change: extension(distributionPoints, false, "\x30\x1e\x30\x1c\xa0\x1a\xa0\x18"+uri+uri), want: "must be one URL"},
		{reason: "two points", status: names("http://a/b"), change: extension(distributionPoints, false, "\x30\x24\x30\x10\xa0\x0e\xa0\x0c"+uri+"\x30\x10\xa0\x0e\xa0\x0c"+uri), want: "must be one URL"},
		{reason: "reasons", status: names("http://a/b"), change: extension(distributionPoints, false, "\x30\x16\x30\x14\xa0\x0e\xa0\x0c"+uri+"\x81\x02\x01\x06"), want: "must be one URL"},
		{reason: "points of an issuer's user", change: func(c *x509.Certificate) { c.CRLDistributionPoints = []string{"ldap://a/b", "https://c/d"} }},

		{reason: "noRevAvail", change: extension(noRevAvail, false, "\x05\x00")},
		{reason: "noRevAvail, critical", change: extension(noRevAvail, true, "\x05\x00"), want: "must be NULL, and not critical"},
		{reason: "noRevAvail with content", change: extension(noRevAvail, false, "\x30\x00"), want: "extension 2.5.29.56 is empty"},
		{reason: "noRevAvail that is not NULL", change: extension(noRevAvail, false, "\x02\x01\x00"), want: "must be NULL"},
		{reason: "noRevAvail with a point", status: names("http://a/b"), change: extension(noRevAvail, false, "\x05\x00"), want: "noRevAvail contradicts"},
		{reason: "noRevAvail with OCSP", change: func(c *x509.Certificate) {
			extension(noRevAvail, false, "\x05\x00")(c)
			c.OCSPServer = []string{"http://a/"}
		}, want: "noRevAvail contradicts"},
		{reason: "noRevAvail in a CA", isCA: true, change: extension(noRevAvail, false, "\x05\x00"), want: "has no place in a CA certificate"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			template, lint := leafTemplate(t), ca.Lint
			if tc.isCA {
				template, lint = newCATemplate(t), ca.LintCA
			}
			if tc.change != nil {
				tc.change(template)
			}
			before := slices.Clone(template.ExtraExtensions)
			_, err := lint(template, pki.Policy{MinRSABits: 1024, Status: tc.status})
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if diff := cmp.Diff(before, template.ExtraExtensions); diff != "" {
				t.Errorf("the template was changed: -want +got:\n%s", diff)
			}
		})
	}
}
