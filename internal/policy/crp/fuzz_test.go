package crp_test

import (
	"encoding/pem"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/policy/crp"
)

// FuzzDecide: whatever a requester sends, there is the same answer each time. A
// policy that allows nothing approves nothing that has a name.
func FuzzDecide(f *testing.F) {
	for _, der := range []string{
		"x", "0\x81\xba0b\x02\x0100\x000Y0\x13\x06\a*\xa00\xce0000\b00000000\x030\x00" + strings.Repeat("0", 134), // its error has an address in memory
	} {
		f.Add([]byte(der))
	}
	for _, a := range []asks{
		{}, {dns: []string{"a.b"}, organizations: []string{"o"}}, {subject: subject(commonName, "a", commonName, universal, emailAddress, "x")},
		{names: generalNames(otherName(upn, "ann", "utf8"), name(2, []byte("a")), constructed(name(5, []byte{0x81, 1, 'x'})), name(8, []byte{42}))},
		{key: "Ed25519", names: generalNames(constructed(name(2, []byte{0x16, 1, 'x'})))},
	} {
		block, _ := pem.Decode(a.encode(f))
		f.Add(block.Bytes)
	}
	generous := policy(f, "generous", `allowed: {
		commonName: {value: "*", validations: [{rule: "self != cr.name"}]}, dnsNames: {values: ["*"]}, uris: {values: ["*"]}, ipAddresses: {values: ["*"]}, emailAddresses: {values: ["*"]},
		otherNames: [{oid: 1.3.6.1.4.1.311.20.2.3, values: ["*"], validations: [{rule: "self.size() < 9 || self.matches('^a+')"}]}],
		subject: {organizations: {values: ["*"]}, otherAttributes: [{oid: 1.2.840.113549.1.9.1, values: ["*"], required: true}]}}`)
	limits := policy(f, "limits", `constraints: {privateKey: {algorithm: RSA, minSize: 1, maxSize: 2}}`)
	f.Fuzz(func(t *testing.T, der []byte) {
		cr := asks{pem: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})}.request(t)
		decide := func() string {
			result, err := crp.Decide([]*crp.Policy{generous, limits}, cr, everybody)
			if (err == nil) == (result.Outcome == "") {
				t.Fatal("neither a result nor an error, or both")
			}
			if err != nil {
				return err.Error()
			}
			return result.Message
		}
		if first, again := decide(), decide(); first != again {
			t.Fatalf("first %q, then %q", first, again)
		}
	})
}

// FuzzRule: whatever compiles is evaluated without a panic.
func FuzzRule(f *testing.F) {
	for _, rule := range []string{`self == cr.name`, `serviceAccount(self).getName() == ''`, `cr.groups.exists(g, g == self)`, `type(cr) == type(cr)`, `[serviceAccount(self)] == []`, costly} {
		f.Add(rule)
	}
	a := asks{dns: []string{"system:serviceaccount:a:b"}, username: "ann", groups: []string{"g"}}
	f.Fuzz(func(t *testing.T, rule string) {
		declared := object(t, "p", `allowed: {dnsNames: {validations: [{rule: ""}]}}`)
		declared.Spec.Allowed.DNSNames.Validations[0].Rule = rule
		p, _ := crp.Compile(declared)
		if _, err := crp.Decide([]*crp.Policy{p}, a.request(t), everybody); err != nil {
			t.Fatal(err)
		}
	})
}
