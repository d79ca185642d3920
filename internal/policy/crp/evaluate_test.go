package crp_test

import (
	"encoding/asn1"
	"net"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/crp"
)

const unsupported = "uses an unsupported ASN.1 type or string encoding; re-issue the certificate with a UTF8String or PrintableString subject"

// universal is a value that encoding/asn1 does not read as a text.
var universal = asn1.RawValue{Tag: 28, Bytes: []byte("\x00\x00\x00x")}

// Each row is a policy with a selector for all requests, and a request. want are
// the violations; without any, the request is approved.
func TestViolations(t *testing.T) {
	const never = `{rule: "self == '-'", message: "is not -"}`
	tests := []struct {
		reason, policy string
		asks           asks
		want           string
	}{
		{"nothing is asked for", ``, asks{}, ""},
		{"nothing is allowed", `allowed: {}`, asks{dns: []string{"a.b"}}, `spec.allowed.dnsNames: Invalid value: ["a.b"]: no allowed values`},
		{"without allowed too", ``, asks{dns: []string{"a.b", "c"}}, `spec.allowed.dnsNames: Invalid value: ["a.b","c"]: no allowed values`},
		{"a list that matches", `allowed: {dnsNames: {values: ["*.b", x]}}`, asks{dns: []string{"a.b", "x", "*.b"}}, ""},
		{"one that does not", `allowed: {dnsNames: {values: ["*.c", d]}}`, asks{dns: []string{"a.b"}}, `spec.allowed.dnsNames.values: Invalid value: ["a.b"]: *.c, d`},
		{"one of several does not", `allowed: {dnsNames: {values: ["*.b"]}}`, asks{dns: []string{"a.b", "c"}}, `spec.allowed.dnsNames.values: Invalid value: ["a.b","c"]: *.b`},
		{"an empty list matches nothing", `allowed: {dnsNames: {values: []}}`, asks{dns: []string{"a"}}, `spec.allowed.dnsNames.values: Invalid value: ["a"]`},
		{"a required list is absent", `allowed: {uris: {values: ["*"], required: true}}`, asks{}, `spec.allowed.uris.required: Required value: true`},
		{"never approves", `allowed: {dnsNames: {values: [], required: true}}`, asks{}, `spec.allowed.dnsNames.required: Required value: true`},
		{"required, without anything allowed", `allowed: {dnsNames: {required: true}}`, asks{dns: []string{"a"}}, `spec.allowed.dnsNames: Invalid value: ["a"]: no allowed values`},
		{"rules only", `allowed: {dnsNames: {validations: [{rule: "self.size() < 3"}]}}`, asks{dns: []string{"ab"}}, ""},
		{"values and rules, of which one holds", `allowed: {dnsNames: {values: [a, b], validations: [` + never + `]}}`, asks{dns: []string{"a"}}, `spec.allowed.dnsNames.validations[0]: Invalid value: "a": is not -`},
		{"a rule for each value, without a message", `allowed: {dnsNames: {validations: [{rule: "self == 'a'"}]}}`, asks{dns: []string{"a", "b", "c"}},
			`[spec.allowed.dnsNames.validations[0]: Invalid value: "b": failed rule: self == 'a', spec.allowed.dnsNames.validations[0]: Invalid value: "c": failed rule: self == 'a']`},
		{"the same violation twice", `allowed: {dnsNames: {validations: [` + never + `]}}`, asks{dns: []string{"a", "a"}}, `spec.allowed.dnsNames.validations[0]: Invalid value: "a": is not -`},

		{"IP addresses", `allowed: {ipAddresses: {values: ["10.*"]}}`, asks{ips: []net.IP{{10, 0, 0, 1}, net.ParseIP("::1")}}, `spec.allowed.ipAddresses.values: Invalid value: ["10.0.0.1","::1"]: 10.*`},
		{"IP addresses as Go prints them", `allowed: {ipAddresses: {values: ["2001:db8::1"]}}`, asks{ips: []net.IP{net.ParseIP("2001:0db8:0::0001")}}, ""},
		{"URIs", `allowed: {uris: {values: ["spiffe://a/*"]}}`, asks{uris: []string{"spiffe://a/b", "spiffe://b/a"}}, `spec.allowed.uris.values: Invalid value: ["spiffe://a/b","spiffe://b/a"]: spiffe://a/*`},
		{"e-mail addresses", `allowed: {emailAddresses: {values: ["*@a"]}}`, asks{emails: []string{"x@a", "x@b"}}, `spec.allowed.emailAddresses.values: Invalid value: ["x@a","x@b"]: *@a`},

		{"a common name", `allowed: {commonName: {value: "x*"}}`, asks{subject: subject(commonName, "xy")}, ""},
		{"one that does not match", `allowed: {commonName: {value: z}}`, asks{subject: subject(commonName, "x")}, `spec.allowed.commonName.value: Invalid value: "x": z`},
		{"one that is not allowed", `allowed: {commonName: {required: true}}`, asks{subject: subject(commonName, "x")}, `spec.allowed.commonName: Invalid value: "x": no allowed value`},
		{"one that is required", `allowed: {commonName: {required: true, value: ""}}`, asks{}, `spec.allowed.commonName.required: Required value: true`},
		{"an empty one is absent", `allowed: {commonName: {required: true, value: "*"}}`, asks{subject: subject(commonName, "")}, `spec.allowed.commonName.required: Required value: true`},
		{"a value and a rule", `allowed: {commonName: {value: "*", validations: [` + never + `]}}`, asks{subject: subject(commonName, "x")}, `spec.allowed.commonName.validations[0]: Invalid value: "x": is not -`},
		{"a second one", `allowed: {commonName: {value: "a"}}`, asks{subject: subject(commonName, "a", commonName, "evil")}, `spec.allowed.commonName[1].value: Invalid value: "evil": a`},
		{"a second one, not allowed", ``, asks{subject: subject(commonName, "a", commonName, "b")},
			`[spec.allowed.commonName[0]: Invalid value: "a": no allowed value, spec.allowed.commonName[1]: Invalid value: "b": no allowed value]`},
		{"one that is not a text", `allowed: {commonName: {value: "*"}}`, asks{subject: subject(commonName, universal)}, `spec.allowed.commonName: Invalid value: "<non-string value>": subject attribute 2.5.4.3 ` + unsupported},
		{"a serial number", `allowed: {subject: {serialNumber: {value: "1"}}}`, asks{subject: subject(serialNumber, "1", serialNumber, "2")}, `spec.allowed.subject.serialNumber[1].value: Invalid value: "2": 1`},
		{"one that is not a text", `allowed: {subject: {serialNumber: {value: "*"}}}`, asks{subject: subject(serialNumber, universal)}, `spec.allowed.subject.serialNumber: Invalid value: "<non-string value>": subject attribute 2.5.4.5 ` + unsupported},

		{"CA", ``, asks{isCA: true}, `spec.allowed.isCA: Invalid value: true: nil`},
		{"CA, false", `allowed: {isCA: false}`, asks{isCA: true}, `spec.allowed.isCA: Invalid value: true: false`},
		{"CA, allowed", `allowed: {isCA: true}`, asks{isCA: true}, ""},
		{"CA, allowed and not asked for", `allowed: {isCA: true}`, asks{}, ""},
		{"usages", ``, asks{usages: []cmv1.KeyUsage{"any"}}, `spec.allowed.usages: Invalid value: ["any"]: nil`},
		{"usages, none", `allowed: {usages: []}`, asks{usages: []cmv1.KeyUsage{"any"}}, `spec.allowed.usages: Invalid value: ["any"]`},
		{"usages, others", `allowed: {usages: [server auth, client auth]}`, asks{usages: []cmv1.KeyUsage{"server auth", "any"}}, `spec.allowed.usages: Invalid value: ["server auth","any"]: server auth, client auth`},
		{"usages, a part of them", `allowed: {usages: [server auth, client auth]}`, asks{usages: []cmv1.KeyUsage{"client auth"}}, ""},
		{"usages as patterns", `allowed: {usages: ["* auth"]}`, asks{usages: []cmv1.KeyUsage{"client auth"}}, ""},

		{"the order of violations", `{allowed: {commonName: {value: a}, isCA: false}, constraints: {maxDuration: 1h}}`, asks{subject: subject(commonName, "x"), isCA: true, dns: []string{"d"}},
			`[spec.allowed.commonName.value: Invalid value: "x": a, spec.allowed.dnsNames: Invalid value: ["d"]: no allowed values, spec.allowed.isCA: Invalid value: true: false], ` +
				`spec.constraints.maxDuration: Invalid value: "nil": 1h0m0s`},

		{"longer than the maximum", `constraints: {maxDuration: 24h}`, asks{duration: 25 * time.Hour}, `spec.constraints.maxDuration: Invalid value: "25h0m0s": 24h0m0s`},
		{"the maximum", `constraints: {maxDuration: 24h}`, asks{duration: 24 * time.Hour}, ""},
		{"shorter than the minimum", `constraints: {minDuration: 2h}`, asks{duration: time.Hour}, `spec.constraints.minDuration: Invalid value: "1h0m0s": 2h0m0s`},
		{"the minimum", `constraints: {minDuration: 2h}`, asks{duration: 2 * time.Hour}, ""},
		{"no duration", `constraints: {minDuration: 1h, maxDuration: 2h}`, asks{},
			`[spec.constraints.maxDuration: Invalid value: "nil": 2h0m0s, spec.constraints.minDuration: Invalid value: "nil": 1h0m0s]`},
		{"algorithm", `constraints: {privateKey: {algorithm: RSA}}`, asks{key: "P-256"}, `spec.constraints.privateKey.algorithm: Invalid value: "ECDSA": RSA`},
		{"algorithm and sizes", `constraints: {privateKey: {algorithm: RSA, minSize: 2048, maxSize: 2048}}`, asks{key: "RSA"}, ""},
		{"too small", `constraints: {privateKey: {minSize: 3072}}`, asks{key: "RSA"}, `spec.constraints.privateKey.minSize: Invalid value: "2048": 3072`},
		{"too large", `constraints: {privateKey: {maxSize: 256}}`, asks{key: "P-384"}, `spec.constraints.privateKey.maxSize: Invalid value: "384": 256`},
		{"Ed25519 has the size -1", `constraints: {privateKey: {minSize: 0}}`, asks{key: "Ed25519"}, `spec.constraints.privateKey.minSize: Invalid value: "-1": 0`},
		{"Ed25519 by its algorithm", `constraints: {privateKey: {algorithm: Ed25519, maxSize: 0}}`, asks{key: "Ed25519"}, ""},
		{"all of the key", `constraints: {privateKey: {algorithm: RSA, minSize: 512, maxSize: 128}}`, asks{},
			`[spec.constraints.privateKey.algorithm: Invalid value: "ECDSA": RSA, spec.constraints.privateKey.maxSize: Invalid value: "256": 128, spec.constraints.privateKey.minSize: Invalid value: "256": 512]`},
	}
	for _, tc := range tests {
		checkViolations(t, tc.reason, tc.policy, tc.asks, tc.want)
	}
}

func checkViolations(t *testing.T, reason, spec string, a asks, want string) {
	t.Helper()
	result, err := crp.Decide([]*crp.Policy{policy(t, "p", spec)}, a.request(t), everybody)
	if err != nil {
		t.Errorf("%s: %v", reason, err)
		return
	}
	if got := result.Considered[0].Violations; got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", reason, got, want)
	}
	if approves := result.Outcome == v1alpha1.OutcomeApprove; approves != (want == "") {
		t.Errorf("%s: %s", reason, result.Outcome)
	}
}

// Each of the lists of the subject is compared with its own attribute.
func TestSubjectLists(t *testing.T) {
	for fieldName, last := range map[string]int{
		"countries": 6, "localities": 7, "provinces": 8, "streetAddresses": 9, "organizations": 10, "organizationalUnits": 11, "postalCodes": 17,
	} {
		oid, path := asn1.ObjectIdentifier{2, 5, 4, last}, "spec.allowed.subject."+fieldName
		spec := `allowed: {subject: {` + fieldName + `: {values: ["x*"], required: true}}}`
		checkViolations(t, fieldName+" that matches", spec, asks{subject: subject(oid, "x1", oid, "x2")}, "")
		checkViolations(t, fieldName+" that does not", spec, asks{subject: subject(oid, "x1", oid, "y")}, path+`.values: Invalid value: ["x1","y"]: x*`)
		checkViolations(t, fieldName+" that is absent", spec, asks{}, path+".required: Required value: true")
		checkViolations(t, fieldName+" that is not allowed", "", asks{subject: subject(oid, "x")}, path+`: Invalid value: ["x"]: no allowed values`)
		checkViolations(t, fieldName+" that is not a text", strings.Replace(spec, "true", "false", 1), asks{subject: subject(oid, universal)},
			path+`: Invalid value: "<non-string value>": subject attribute `+unsupported)
	}
}

func TestOtherAttributes(t *testing.T) {
	const path = "spec.allowed.subject.otherAttributes[1.2.840.113549.1.9.1]"
	uid := asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 1}
	allowing := func(fields string) string {
		return `allowed: {subject: {otherAttributes: [{oid: 1.2.840.113549.1.9.1, ` + fields + `}]}}`
	}
	tests := []struct {
		reason, policy string
		asks           asks
		want           string
	}{
		{"not mentioned", ``, asks{subject: subject(emailAddress, "a@b")}, path + `: Invalid value: ["a@b"]: no allowed values`},
		{"matches", allowing(`values: ["*@b"]`), asks{subject: subject(emailAddress, "a@b", emailAddress, "c@b")}, ""},
		{"does not match", allowing(`values: ["*@b"]`), asks{subject: subject(emailAddress, "a@b", emailAddress, "a@c")}, path + `.values: Invalid value: ["a@b","a@c"]: *@b`},
		{"violates a rule", allowing(`validations: [{rule: "self == cr.namespace"}]`), asks{subject: subject(emailAddress, "x")}, path + `.validations[0]: Invalid value: "x": failed rule: self == cr.namespace`},
		{"is required", allowing(`values: ["*"], required: true`), asks{}, path + ".required: Required value: true"},
		{"nothing is allowed", allowing(`required: false`), asks{subject: subject(emailAddress, "x")}, path + `: Invalid value: ["x"]: no allowed values`},
		{"is not a text, which counts as present", allowing(`values: ["*"], required: true`), asks{subject: subject(emailAddress, universal)}, path + `: Invalid value: "<non-string value>": subject attribute ` + unsupported},
		{"another one, in the order of the request", allowing(`values: [x]`), asks{subject: subject(uid, "u", emailAddress, "y", uid, "v")},
			`[spec.allowed.subject.otherAttributes[0.9.2342.19200300.100.1.1]: Invalid value: ["u","v"]: no allowed values, ` + path + `.values: Invalid value: ["y"]: x]`},
	}
	for _, tc := range tests {
		checkViolations(t, tc.reason, tc.policy, tc.asks, tc.want)
	}
}

func TestAlternativeNames(t *testing.T) {
	const path = "spec.allowed.otherNames[1.3.6.1.4.1.311.20.2.3]"
	const undecodable = "subjectAltName (SAN) extension could not be decoded: "
	allowing := func(fields string) string {
		return `allowed: {dnsNames: {values: ["*"]}, otherNames: [{oid: 1.3.6.1.4.1.311.20.2.3, ` + fields + `}]}`
	}
	anything := allowing(`values: ["*"]`)
	forbidden := func(is string) string {
		return "spec.allowed.subjectAltName." + is + `: Invalid value: "` + is + `": ` + is + " SAN entries are not permitted"
	}
	ann := otherName(upn, "ann@corp", "utf8")
	tests := []struct {
		reason, policy string
		names          []byte
		want           string
	}{
		{"not mentioned", ``, generalNames(ann), path + `: Invalid value: ["ann@corp"]: no allowed values`},
		{"matches", allowing(`values: ["*@corp"]`), generalNames(ann, name(2, []byte("a.b"))), ""},
		{"does not match", allowing(`values: [bob]`), generalNames(ann, otherName(upn, "bob", "ia5")), path + `.values: Invalid value: ["ann@corp","bob"]: bob`},
		{"violates a rule", allowing(`validations: [{rule: "self == 'x'", message: m}]`), generalNames(ann), path + `.validations[0]: Invalid value: "ann@corp": m`},
		{"is required", allowing(`values: ["*"], required: true`), generalNames(name(2, []byte("a"))), path + ".required: Required value: true"},
		{"PrintableString is a text", allowing(`values: [Ann]`), generalNames(otherName(upn, "Ann", "printable")), ""},
		{"T61String is a text", allowing(`values: [Ann]`), generalNames(otherName(upn, asn1.RawValue{Tag: asn1.TagT61String, Bytes: []byte("Ann")}, "")), ""},
		{"all else is hexadecimal", allowing(`values: ["0203010001"]`), generalNames(otherName(upn, 65537, "")), ""},
		{"directoryName", anything, generalNames(constructed(name(4, must(asn1.Marshal(subject(commonName, "x")[0]))))), forbidden("directoryName")},
		{"x400Address", anything, generalNames(name(3, nil)), forbidden("x400Address")},
		{"ediPartyName", anything, generalNames(constructed(name(5, []byte{0x81, 1, 'x'}))), forbidden("ediPartyName")},
		{"registeredID", anything, generalNames(name(8, []byte{42})), forbidden("registeredID")},
		{"a name in parts, which Go leaves out", anything, generalNames(constructed(name(2, []byte{0x16, 1, 'x'}))), forbidden("unreadable")},
		{"a name of another class", anything, generalNames(asn1.RawValue{Class: asn1.ClassApplication, Tag: 2, Bytes: []byte("x")}), forbidden("unreadable")},
		{"an unknown type", anything, generalNames(name(9, []byte("x"))), undecodable + "asn1: structure error: bad SAN choice"},
		{"trailing data", anything, append(generalNames(name(2, []byte("a"))), 5, 0), undecodable + "x509: trailing data after X.509 extension"},
		{"an other name that is none", anything, generalNames(constructed(name(0, []byte{5, 0}))), undecodable + "asn1: structure error: tags don't match"},
		{"a directory name as RFC 5280 has it", anything, generalNames(constructed(name(4, must(asn1.Marshal(subject(commonName, "x")))))), undecodable + "asn1: structure error: sequence tag mismatch"},
	}
	for _, tc := range tests {
		checkViolations(t, tc.reason, tc.policy, asks{names: tc.names}, tc.want)
	}
	checkViolations(t, "limits are checked all the same", `constraints: {maxDuration: 1h}`, asks{names: generalNames(name(9, nil))},
		undecodable+`asn1: structure error: bad SAN choice, spec.constraints.maxDuration: Invalid value: "nil": 1h0m0s`)
}

func TestUndecodable(t *testing.T) {
	for reason, pem := range map[string][]byte{
		"no PEM":   []byte("x"),
		"no DER":   []byte("-----BEGIN CERTIFICATE REQUEST-----\neA==\n-----END CERTIFICATE REQUEST-----\n"),
		"too long": append(asks{}.encode(t), make([]byte, 40_000)...),
	} {
		cr := asks{pem: pem}.request(t)
		if result, err := crp.Decide([]*crp.Policy{policy(t, "p", "")}, cr, everybody); err == nil {
			t.Errorf("%s: %+v", reason, result)
		}
		if result, err := crp.Decide(nil, cr, everybody); err != nil || result.Outcome != v1alpha1.OutcomeLeave {
			t.Errorf("%s, no policy: %+v, %v", reason, result, err)
		}
	}
}
