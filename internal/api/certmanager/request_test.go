package certmanager_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"strings"
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/certmanager"
)

var (
	oidKeyUsage         = asn1.ObjectIdentifier{2, 5, 29, 15}
	oidBasicConstraints = asn1.ObjectIdentifier{2, 5, 29, 19}
	oidExtKeyUsage      = asn1.ObjectIdentifier{2, 5, 29, 37}

	serverAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	clientAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 2}
	mail       = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 4}
)

// csr returns a request with extensions, which alternate between identifier and
// content.
func csr(t testing.TB, extensions ...any) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "web"}}
	for i := 0; i < len(extensions); i += 2 {
		value, raw := extensions[i+1].([]byte)
		if !raw {
			if value, err = asn1.Marshal(extensions[i+1]); err != nil {
				t.Fatal(err)
			}
		}
		template.ExtraExtensions = append(template.ExtraExtensions, pkix.Extension{Id: extensions[i].(asn1.ObjectIdentifier), Value: value})
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

type constraints struct {
	IsCA    bool `asn1:"optional"`
	PathLen int  `asn1:"optional,default:-1"`
}

// bits returns a bit string with these bits set.
func bits(set ...int) asn1.BitString {
	value := asn1.BitString{Bytes: make([]byte, 2)}
	for _, bit := range set {
		value.Bytes[bit/8] |= 0x80 >> (bit % 8)
		value.BitLength = max(value.BitLength, bit+1)
	}
	value.Bytes = value.Bytes[:(value.BitLength+7)/8]
	return value
}

func TestRequests(t *testing.T) {
	type spec = cmv1.CertificateRequestSpec
	oids := func(ids ...asn1.ObjectIdentifier) []asn1.ObjectIdentifier { return ids }
	tests := []struct {
		reason string
		edit   func(*spec)
		want   string // "" means valid
	}{
		{"nothing said", func(*spec) {}, ""},
		{"the text around a request", func(s *spec) { s.Request = append([]byte("text\n"), append(s.Request, "more"...)...) }, ""},
		{"another block type", func(s *spec) {
			s.Request = []byte(strings.ReplaceAll(string(s.Request), "CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"))
		}, ""},
		{"no issuer", func(s *spec) { s.IssuerRef.Name = "" }, "spec.issuerRef.name: Required"},
		{"external issuer", func(s *spec) { s.IssuerRef.Kind, s.IssuerRef.Group = "Vault", "example.com" }, ""},
		{"external issuer without a group", func(s *spec) { s.IssuerRef.Kind = "Vault" }, "external issuer needs its API group in spec.issuerRef.group"},
		{"unknown kind", func(s *spec) { s.IssuerRef.Kind, s.IssuerRef.Group = "Vault", "cert-manager.io" }, `spec.issuerRef.kind: Invalid value: "Vault"`},
		{"no request", func(s *spec) { s.Request = nil }, "spec.request: Required"},
		{"no PEM", func(s *spec) { s.Request = []byte("invalid-csr") }, `spec.request: Invalid value: "invalid-csr"`},
		{"no request in PEM", func(s *spec) { s.Request = pem.EncodeToMemory(&pem.Block{Type: "X", Bytes: []byte{1}}) }, "its first PEM block is not a PKCS #10 certificate request"},
		{"too long", func(s *spec) { s.Request = append(s.Request, make([]byte, 36_500)...) }, "bytes long"},
		{"somebody else's signature", func(s *spec) {
			block, _ := pem.Decode(s.Request)
			block.Bytes[len(block.Bytes)-1] ^= 1
			s.Request = pem.EncodeToMemory(block)
		}, "not signed with its own key"},
		{"unknown usage", func(s *spec) { s.Usages = []cmv1.KeyUsage{"dancing"} }, `spec.usages: Invalid value: ["dancing"]`},

		{"a CA as asked for", func(s *spec) { s.IsCA, s.Request = true, csr(t, oidBasicConstraints, constraints{true, 3}) }, ""},
		{"a CA, the request is silent", func(s *spec) { s.IsCA = true }, ""},
		{"a CA, the request says no", func(s *spec) { s.IsCA, s.Request = true, csr(t, oidBasicConstraints, constraints{false, -1}) }, "IsCA false does not match expected value true"},
		{"no CA, the request says so", func(s *spec) { s.Request = csr(t, oidBasicConstraints, constraints{true, -1}) }, "IsCA true does not match expected value false"},
		{"broken constraints", func(s *spec) { s.Request = csr(t, oidBasicConstraints, []byte{1}) }, "malformed basic constraints"},

		{"default bits", func(s *spec) { s.Request = csr(t, oidKeyUsage, bits(0, 2)) }, ""},
		{"signing is digital signature", func(s *spec) {
			s.Usages, s.Request = []cmv1.KeyUsage{cmv1.UsageSigning}, csr(t, oidKeyUsage, bits(0))
		}, ""},
		{"a CA signs certificates", func(s *spec) {
			s.IsCA, s.Request = true, csr(t, oidKeyUsage, bits(0, 2, 5))
		}, ""},
		{"the ninth bit", func(s *spec) {
			s.Usages, s.Request = []cmv1.KeyUsage{cmv1.UsageDecipherOnly}, csr(t, oidKeyUsage, bits(8))
		}, ""},
		{"no bits are not the default", func(s *spec) { s.Request = csr(t, oidKeyUsage, bits()) }, "the KeyUsages [] do not match the expected KeyUsages [ 'digital signature', 'key encipherment' ]"},
		{"purposes alone mean no bits", func(s *spec) {
			s.Usages, s.Request = []cmv1.KeyUsage{cmv1.UsageDigitalSignature, cmv1.UsageServerAuth}, csr(t, oidExtKeyUsage, oids(serverAuth))
		}, "the KeyUsages [] do not match the expected KeyUsages [ 'digital signature' ]"},
		{"purposes alone, and asked for", func(s *spec) {
			s.Usages, s.Request = []cmv1.KeyUsage{cmv1.UsageServerAuth}, csr(t, oidExtKeyUsage, oids(serverAuth))
		}, ""},
		{"purposes in any order, some twice", func(s *spec) {
			s.Usages, s.Request = []cmv1.KeyUsage{cmv1.UsageServerAuth, cmv1.UsageClientAuth}, csr(t, oidExtKeyUsage, oids(clientAuth, serverAuth, clientAuth))
		}, ""},
		{"s/mime is email protection", func(s *spec) {
			s.Usages, s.Request = []cmv1.KeyUsage{cmv1.UsageSMIME}, csr(t, oidExtKeyUsage, oids(mail))
		}, ""},
		{"a purpose without a name", func(s *spec) {
			s.Usages, s.Request = []cmv1.KeyUsage{cmv1.UsageServerAuth}, csr(t, oidExtKeyUsage, oids(serverAuth, asn1.ObjectIdentifier{1, 2, 3}))
		}, ""},
		{"a purpose too few", func(s *spec) {
			s.Usages, s.Request = []cmv1.KeyUsage{cmv1.UsageServerAuth, cmv1.UsageClientAuth}, csr(t, oidExtKeyUsage, oids(serverAuth))
		}, "the ExtKeyUsages [ 'server auth' ] do not match the expected ExtKeyUsages [ 'server auth', 'client auth' ]"},
		{"broken bits", func(s *spec) { s.Request = csr(t, oidKeyUsage, []byte{1}) }, "malformed key usage"},
		{"broken purposes", func(s *spec) { s.Request = csr(t, oidExtKeyUsage, []byte{1}) }, "malformed extended key usage"},
	}
	plain := csr(t)
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cr := &cmv1.CertificateRequest{Spec: spec{IssuerRef: cmmeta.IssuerReference{Name: "ca"}, Request: append([]byte{}, plain...)}}
			tc.edit(&cr.Spec)
			check(t, certmanager.ValidateRequest(cr), tc.want)
		})
	}
}

// A long request is not repeated in full.
func TestEcho(t *testing.T) {
	cr := &cmv1.CertificateRequest{Spec: cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Name: "ca"}, Request: []byte(strings.Repeat("x", 200))}}
	errs := certmanager.ValidateRequest(cr)
	if len(errs) != 1 || errs[0].BadValue != strings.Repeat("x", 97)+"..." {
		t.Errorf("got %v", errs)
	}
}

func TestDecisions(t *testing.T) {
	condition := func(kind cmv1.CertificateRequestConditionType, status cmmeta.ConditionStatus) cmv1.CertificateRequestCondition {
		return cmv1.CertificateRequestCondition{Type: kind, Status: status}
	}
	approved, denied := condition("Approved", "True"), condition("Denied", "True")
	tests := []struct {
		reason     string
		conditions []cmv1.CertificateRequestCondition
		want       string
	}{
		{"approved", []cmv1.CertificateRequestCondition{approved}, ""},
		{"denied and failed", []cmv1.CertificateRequestCondition{denied, condition("Ready", "False")}, ""},
		{"both", []cmv1.CertificateRequestCondition{approved, denied}, "status.conditions: Forbidden: both 'Denied' and 'Approved' conditions cannot coexist"},
		{"twice", []cmv1.CertificateRequestCondition{approved, approved}, `multiple "Approved" conditions present`},
		{"not approved", []cmv1.CertificateRequestCondition{condition("Approved", "False")}, `status.conditions.Approved: Invalid value: "False": "Approved" condition may only be set to True`},
		{"perhaps denied", []cmv1.CertificateRequestCondition{condition("Denied", "Unknown")}, `"Denied" condition may only be set to True`},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			cr := &cmv1.CertificateRequest{}
			cr.Status.Conditions = tc.conditions
			check(t, certmanager.ValidateRequestUpdate(cr, &cmv1.CertificateRequest{}), tc.want)
		})
	}
}

// check requires one error with this text, or none.
func check(t *testing.T, errs field.ErrorList, want string) {
	t.Helper()
	switch {
	case want == "" && len(errs) > 0:
		t.Errorf("refused: %v", errs)
	case want != "" && len(errs) == 0:
		t.Errorf("let through, want %q", want)
	case want != "" && !strings.Contains(errs.ToAggregate().Error(), want):
		t.Errorf("got  %v\nwant %s", errs, want)
	}
}
