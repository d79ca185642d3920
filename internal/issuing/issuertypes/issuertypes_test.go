package issuertypes

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
)

// Each type is listed once, with unique names.
func TestTable(t *testing.T) {
	names, components := map[certmanager.IssuerType]bool{}, map[string]bool{}
	for _, row := range BuiltIn {
		if row.Name == certmanager.NoType || row.Component == "" || names[row.Name] || components[row.Component] {
			t.Errorf("row %+v", row)
		}
		names[row.Name], components[row.Component] = true, true
		if found, ok := BuiltIn.Find(row.Name); !ok || found.Component != row.Component || !BuiltIn.Has(row.Name) {
			t.Errorf("%s is not found", row.Name)
		}
	}
	if BuiltIn.Has(certmanager.NoType) || BuiltIn.Has(certmanager.TypeVenafi) {
		t.Error("issuers sign of which there are none")
	}
}

// Issuers of an unknown type are not ready, with a message that says so, and
// sign nothing.
func TestOtherTypes(t *testing.T) {
	all := New(Config{})
	types := "spec.acme, spec.ca, spec.selfSigned or spec.vault"
	venafi := "NotSupported: Issuers of type venafi sign nothing here: this build of certplane does not support them. " +
		`Build one that does with "make venafi" (docs/venafi.md), or use ` + types + ", or an external issuer"
	tests := []struct {
		reason  string
		spec    cmv1.IssuerConfig
		ready   bool
		message string
	}{
		{"no type", cmv1.IssuerConfig{}, false, "IssuerTypeMissing: The issuer has no type: set " + types},
		{"a type that depends on the build", cmv1.IssuerConfig{Venafi: &cmv1.VenafiIssuer{}}, false, venafi},
		{"one that needs nothing", cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}, true, "IsReady: "},
		{"a Secret that cannot be", cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "A"}}, false,
			`ErrGetKeyPair: Error getting keypair for CA issuer: spec.ca.secretName: "A" is not a valid name of a Secret: ` +
				"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character" +
				" (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"},
	}
	for _, tc := range tests {
		of := &cmv1.Issuer{Spec: cmv1.IssuerSpec{IssuerConfig: tc.spec}}
		got, err := all.Check(t.Context(), of, of.CreationTimestamp.Time)
		if text := got.Reason + ": " + got.Message; err != nil || got.OK != tc.ready || text != tc.message {
			t.Errorf("%s: %v, %v, %s", tc.reason, err, got.OK, text)
		}
	}
	absent := &cmv1.Issuer{Spec: cmv1.IssuerSpec{IssuerConfig: tests[1].spec}}
	if issued, err := all.Sign(t.Context(), absent, issuing.Request{}, absent.CreationTimestamp.Time); issued != nil || err == nil {
		t.Errorf("signed %v", issued)
	}
	if needs := all.Needs(absent, issuing.Request{}); needs != nil {
		t.Errorf("needs %v", needs)
	}
}
