package signer_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/pki"
)

// A CA is honoured by its key, or because an honoured one has issued it; a name
// alone is nothing.
func TestHonoured(t *testing.T) {
	root := oldRoot(t)
	below, err := root.NewIntermediate(pki.UnrecordedSigning, "below", ecKey(t), time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	namesake := oldRoot(t)
	subCA := &x509.Certificate{Subject: pkix.Name{CommonName: "x"}, IsCA: true}
	master := &x509.Certificate{Subject: pkix.Name{Organization: []string{"system:masters"}}}
	for _, tc := range []struct {
		reason  string
		trusted []*x509.Certificate
		ca      *pki.Authority
		want    bool
	}{
		{"nobody is", nil, root, false},
		{"the root itself", []*x509.Certificate{root.Certificate()}, root, true},
		{"a CA below it", []*x509.Certificate{root.Certificate()}, below, true},
		{"a CA that is trusted itself", []*x509.Certificate{below.Certificate()}, below, true},
		{"the root of one that is trusted", []*x509.Certificate{below.Certificate()}, namesake, false},
		{"another of the same name", []*x509.Certificate{namesake.Certificate()}, root, false},
		{"a CA below another of the same name", []*x509.Certificate{namesake.Certificate()}, below, false},
		{"among others", []*x509.Certificate{namesake.Certificate(), root.Certificate()}, below, true},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			honoured := signer.Honoured(func() []*x509.Certificate { return tc.trusted })
			rule := honoured.Rule(tc.ca)
			if (rule != nil) != tc.want {
				t.Fatalf("honoured: %v", rule != nil)
			}
			for what, cert := range map[string]*x509.Certificate{"CA": subCA, "master": master} {
				if rule != nil && rule(cert) == nil {
					t.Errorf("%s: no objection", what)
				}
				cert := *cert
				cert.RawIssuer = tc.ca.Certificate().RawSubject
				if err := honoured.Check([]*x509.Certificate{&cert, tc.ca.Certificate()}); (err != nil) != tc.want {
					t.Errorf("%s from elsewhere: %v", what, err)
				}
			}
			if harmless := new(x509.Certificate); rule != nil && rule(harmless) != nil || honoured.Check([]*x509.Certificate{harmless, tc.ca.Certificate()}) != nil {
				t.Error("a harmless one is refused")
			}
		})
	}
	if err := signer.Honoured(nil).Check([]*x509.Certificate{master}); err != nil {
		t.Errorf("nobody knows: %v", err)
	}
}

// The rule is the linter's: nothing is signed that breaks it.
func TestHonouredRule(t *testing.T) {
	root := oldRoot(t)
	honoured := signer.Honoured(func() []*x509.Certificate { return []*x509.Certificate{root.Certificate()} })
	cert := &x509.Certificate{
		SerialNumber: root.Certificate().SerialNumber, PublicKey: ecKey(t).Public(),
		Subject: pkix.Name{Organization: []string{"system:masters"}}, NotBefore: now, NotAfter: now.Add(time.Hour), BasicConstraintsValid: true,
	}
	_, err := root.Lint(cert, pki.Policy{Rule: honoured.Rule(root)})
	if err == nil || !strings.Contains(err.Error(), "refusing to sign: a certificate of group system:masters cannot be requested") {
		t.Errorf("%v", err)
	}
}
