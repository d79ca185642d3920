package shim

import (
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// parse returns the annotations in lines "key: value", in the group cert-manager.io.
func parse(lines ...string) map[string]string {
	all := map[string]string{}
	for _, line := range lines {
		key, value, _ := strings.Cut(line, ": ")
		all["cert-manager.io/"+strings.TrimSuffix(key, ":")] = value
	}
	return all
}

// Each combination of annotations gives an issuer or cert-manager's texts.
func TestIssuer(t *testing.T) {
	defaults := IngressSettings{DefaultIssuerName: "default", DefaultIssuerKind: "Issuer", DefaultIssuerGroup: "cert-manager.io"}
	const (
		noName    = `failed to determine issuer name to be used for ingress resource`
		bothNames = `both "cert-manager.io/issuer" and "cert-manager.io/cluster-issuer" may not be set`
		withGroup = `both "cert-manager.io/cluster-issuer" and "cert-manager.io/issuer-group" may not be set`
		withKind  = `both "cert-manager.io/cluster-issuer" and "cert-manager.io/issuer-kind" may not be set`
	)
	for _, tt := range []struct {
		annotations       []string
		name, kind, group string
		err               []string
	}{
		{nil, "default", "Issuer", "cert-manager.io", nil},
		{[]string{"issuer: a"}, "a", "Issuer", "cert-manager.io", nil},
		{[]string{"cluster-issuer: a"}, "a", "ClusterIssuer", "cert-manager.io", nil},
		{[]string{"issuer: a", "issuer-kind: Own", "issuer-group: example.com"}, "a", "Own", "example.com", nil},
		{[]string{"issuer-kind: Own"}, "default", "Own", "cert-manager.io", nil},
		{[]string{"issuer-group: example.com"}, "default", "Issuer", "example.com", nil},
		{[]string{"issuer:"}, "", "", "", []string{noName}},
		{[]string{"issuer: a", "cluster-issuer: b"}, "", "", "", []string{bothNames}},
		{[]string{"cluster-issuer: b", "issuer-group: c"}, "", "", "", []string{withGroup}},
		{[]string{"cluster-issuer: b", "issuer-kind: c"}, "", "", "", []string{withKind}},
		{[]string{"issuer: a", "cluster-issuer:", "issuer-group: c", "issuer-kind: d"}, "", "", "", []string{noName, bothNames, withGroup, withKind}},
	} {
		got, err := issuer(parse(tt.annotations...), defaults)
		if want := (cmmeta.IssuerReference{Name: tt.name, Kind: tt.kind, Group: tt.group}); got != want {
			t.Errorf("%v: %+v, want %+v", tt.annotations, got, want)
		}
		if text := strings.Join(tt.err, ", "); (err == nil) != (text == "") || err != nil && err.Error() != text {
			t.Errorf("%v: error %v, want %s", tt.annotations, err, text)
		}
	}
}

// Each annotation sets its field.
func TestTranslate(t *testing.T) {
	key := func(k cmv1.CertificatePrivateKey) cmv1.CertificateSpec { return cmv1.CertificateSpec{PrivateKey: &k} }
	of := func(s cmv1.X509Subject) cmv1.CertificateSpec { return cmv1.CertificateSpec{Subject: &s} }
	long := strings.Repeat("x", 64)
	for _, tt := range []struct {
		annotations []string
		want        cmv1.CertificateSpec
	}{
		{[]string{"common-name: " + long}, cmv1.CertificateSpec{CommonName: long}},
		{[]string{"alt-names: a.example, a.example"}, cmv1.CertificateSpec{DNSNames: []string{"a.example", " a.example"}}},
		{[]string{"alt-names:"}, cmv1.CertificateSpec{}},
		{[]string{"ip-sans: 10.0.0.1, ::1"}, cmv1.CertificateSpec{IPAddresses: []string{"10.0.0.1", "::1"}}},
		{[]string{"ip-sans:"}, cmv1.CertificateSpec{}},
		{[]string{"email-sans: a@example.com, b@example.com"}, cmv1.CertificateSpec{EmailAddresses: []string{"a@example.com", "b@example.com"}}},
		{[]string{"uri-sans: spiffe://a"}, cmv1.CertificateSpec{}},
		{[]string{`subject-organizations: "a, b",c`}, of(cmv1.X509Subject{Organizations: []string{"a, b", "c"}})},
		{[]string{"subject-organizationalunits: a"}, of(cmv1.X509Subject{OrganizationalUnits: []string{"a"}})},
		{[]string{"subject-countries: a"}, of(cmv1.X509Subject{Countries: []string{"a"}})},
		{[]string{"subject-provinces: a"}, of(cmv1.X509Subject{Provinces: []string{"a"}})},
		{[]string{"subject-localities: a"}, of(cmv1.X509Subject{Localities: []string{"a"}})},
		{[]string{"subject-postalcodes: a"}, of(cmv1.X509Subject{PostalCodes: []string{"a"}})},
		{[]string{"subject-streetaddresses: a", "subject-serialnumber: 1"}, of(cmv1.X509Subject{StreetAddresses: []string{"a"}, SerialNumber: "1"})},
		{[]string{"subject-serialnumber:"}, cmv1.CertificateSpec{}},
		{[]string{"duration: 1h"}, cmv1.CertificateSpec{Duration: &metav1.Duration{Duration: time.Hour}}},
		{[]string{"renew-before: 5m"}, cmv1.CertificateSpec{RenewBefore: &metav1.Duration{Duration: 5 * time.Minute}}},
		{[]string{"renew-before-percentage: 300"}, cmv1.CertificateSpec{RenewBeforePercentage: new(int32(300))}},
		{[]string{"usages: server auth, client auth"}, cmv1.CertificateSpec{Usages: []cmv1.KeyUsage{"server auth", "client auth"}}},
		{[]string{"revision-history-limit: 1"}, cmv1.CertificateSpec{RevisionHistoryLimit: new(int32(1))}},
		{[]string{"private-key-algorithm: Ed25519", "private-key-size: 1"}, key(cmv1.CertificatePrivateKey{Algorithm: "Ed25519", Size: 1})},
		{[]string{"private-key-algorithm: ECDSA", "private-key-size: 521"}, key(cmv1.CertificatePrivateKey{Algorithm: "ECDSA", Size: 521})},
		{[]string{"private-key-size: 8192"}, key(cmv1.CertificatePrivateKey{Size: 8192})},
		{[]string{"private-key-encoding: PKCS8"}, key(cmv1.CertificatePrivateKey{Encoding: "PKCS8"})},
		{[]string{"private-key-rotation-policy: Always"}, key(cmv1.CertificatePrivateKey{RotationPolicy: "Always"})},
		{[]string{`secret-template: {"labels":{"a":"b"}}`}, cmv1.CertificateSpec{SecretTemplate: &cmv1.CertificateSecretTemplate{Labels: map[string]string{"a": "b"}}}},
		{[]string{"secret-template: {}"}, cmv1.CertificateSpec{}},
	} {
		var got cmv1.CertificateSpec
		err := translate(parse(tt.annotations...), &got)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%v: error %v (-want +got):\n%s", tt.annotations, err, diff)
		}
	}
}

// Names and usages are added to those of the TLS entry, or replace them.
func TestTranslateOnTop(t *testing.T) {
	got := cmv1.CertificateSpec{DNSNames: []string{"a"}, IPAddresses: []string{"::1"}, Usages: cmv1.DefaultKeyUsages()}
	if err := translate(parse("alt-names: b", "ip-sans: ::2", "usages: server auth"), &got); err != nil {
		t.Fatal(err)
	}
	want := cmv1.CertificateSpec{DNSNames: []string{"a", "b"}, IPAddresses: []string{"::1", "::2"}, Usages: []cmv1.KeyUsage{"server auth"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each bad value has cert-manager's text.
func TestTranslateRefuses(t *testing.T) {
	for _, tt := range []struct{ annotation, value, want string }{
		{"common-name", strings.Repeat("x", 65), "common name may not be more than 64 bytes"},
		{"ip-sans", "10.0.0.1, x", `"x" is not a valid IP address`},
		{"email-sans", "x", `"x" is not a valid email address`},
		{"email-sans", "X <x@example.com>", `"X <x@example.com>" must only contain the email address itself`},
		{"subject-organizations", "a\nb", `refusing to use "a\nb" as input as it parses as multiple lines of CSV`},
		{"subject-organizationalunits", "a\nb", `refusing to use "a\nb" as input as it parses as multiple lines of CSV`},
		{"subject-countries", "", `no values found after parsing ""`},
		{"subject-provinces", `"a`, `failed to parse "\"a" as CSV: parse error on line 1, column 3: extraneous or missing " in quoted-field`},
		{"duration", "x", `time: invalid duration "x"`},
		{"duration", "59m", "duration must be greater than or equal to 1h0m0s"},
		{"renew-before", "299s", "renewBefore must be greater than or equal to 5m0s"},
		{"renew-before-percentage", "x", `strconv.ParseInt: parsing "x": invalid syntax`},
		{"usages", "server auth, x", `invalid key usage name " x"`},
		{"revision-history-limit", "0", `revision history limit must be a positive number "0"`},
		{"revision-history-limit", "x", `strconv.ParseInt: parsing "x": invalid syntax`},
		{"private-key-algorithm", "DSA", `invalid private key algorithm "DSA"`},
		{"private-key-encoding", "PKCS7", `invalid private key encoding "PKCS7"`},
		{"private-key-size", "x", `strconv.Atoi: parsing "x": invalid syntax`},
		{"private-key-size", "2047", `invalid private key size for RSA algorithm "2047"`},
		{"private-key-size", "8193", `invalid private key size for RSA algorithm "8193"`},
		{"private-key-rotation-policy", "Sometimes", `invalid private key rotation policy "Sometimes"`},
		{"secret-template", `{"a":1}`, `error parsing secret template JSON: json: unknown field "a"`},
		{"secret-template", `{"annotations":{"cert-manager.io/a":"b"}}`, `secretTemplate must not have cert-manager.io/ annotations: "cert-manager.io/a"`},
	} {
		err := translate(map[string]string{"cert-manager.io/" + tt.annotation: tt.value}, &cmv1.CertificateSpec{})
		if want := `invalid ingress annotation "cert-manager.io/` + tt.annotation + `": ` + tt.want; err == nil || err.Error() != want {
			t.Errorf("%s %q: %v\nwant %s", tt.annotation, tt.value, err, want)
		}
	}
	err := translate(parse("private-key-algorithm: ECDSA", "private-key-size: 512"), &cmv1.CertificateSpec{})
	if err == nil || !strings.HasSuffix(err.Error(), `invalid private key size for ECDSA algorithm "512"`) {
		t.Errorf("a size of an ECDSA key: %v", err)
	}
}
