package certpolicy_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// tlv encodes a tag, a length of one byte or more, and a value.
func tlv(tag byte, value ...byte) []byte {
	switch n := len(value); {
	case n < 0x80:
		return append([]byte{tag, byte(n)}, value...)
	case n < 0x100:
		return append([]byte{tag, 0x81, byte(n)}, value...)
	default:
		return append([]byte{tag, 0x82, byte(n >> 8), byte(n)}, value...)
	}
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

// The names of a SAN, and the whole extension.
func dnsName(text string) []byte     { return tlv(0x82, []byte(text)...) }
func san(names ...[]byte) []byte     { return tlv(0x30, join(names...)...) }
func oidBytes(t testing.TB) []byte   { return marshal(t, oidUPN) }
func atav(oid, value []byte) []byte  { return tlv(0x30, join(oid, value)...) }
func name(rdns ...[]byte) []byte     { return tlv(0x30, join(rdns...)...) }
func set31(members ...[]byte) []byte { return tlv(0x31, join(members...)...) }

var (
	cn       = []byte{0x06, 0x03, 0x55, 0x04, 0x03}
	ordinary = dnsName("www.shop.example.com")
)

// TestOddRequests: what programs read differently, or do not show, is refused
// under a policy that permits every name, however a request brings it.
func TestOddRequests(t *testing.T) {
	asn1Names := func(names ...[]byte) func(*asked) { return func(a *asked) { a.san = san(names...) } }
	subject := func(der []byte) func(*asked) { return func(a *asked) { a.rawSubject = der } }
	otherName := func(inner ...[]byte) []byte { return tlv(0xa0, join(append([][]byte{oidBytes(t)}, inner...)...)...) }
	utf8 := func(text string) []byte { return tlv(0x0c, []byte(text)...) }
	tests := []struct {
		reason string
		ask    func(*asked)
		// reason of the refusal; InvalidRequest if the request cannot be read.
		want string
	}{
		{"a directoryName", asn1Names(ordinary, tlv(0xa4, tlv(0x30)...)), certpolicy.ReasonUnreadable},
		{"an x400Address", asn1Names(ordinary, tlv(0xa3, 0x30, 0)), certpolicy.ReasonUnreadable},
		{"an ediPartyName", asn1Names(ordinary, tlv(0xa5, tlv(0xa1, utf8("x")...)...)), certpolicy.ReasonUnreadable},
		{"a registeredID", asn1Names(ordinary, tlv(0x88, 0x2a, 0x03)), certpolicy.ReasonUnreadable},
		{"an unknown tag", asn1Names(ordinary, tlv(0x89, 'x')), certpolicy.ReasonUnreadable},
		{"a universal tag", asn1Names(ordinary, utf8("www.example.org")), certpolicy.ReasonUnreadable},
		{"an application tag", asn1Names(ordinary, tlv(0x42, 'x')), certpolicy.ReasonUnreadable},
		{"a DNS name in parts", asn1Names(ordinary, tlv(0xa2, tlv(0x16, []byte("www.example.org")...)...)), certpolicy.ReasonUnreadable},
		{"an e-mail address in parts", asn1Names(ordinary, tlv(0xa1, tlv(0x16, []byte("a@example.org")...)...)), certpolicy.ReasonUnreadable},
		{"a URI in parts", asn1Names(ordinary, tlv(0xa6, tlv(0x16, []byte("https://a.example")...)...)), certpolicy.ReasonUnreadable},
		{"an IP address in parts", asn1Names(ordinary, tlv(0xa7, tlv(0x04, 10, 0, 0, 1)...)), certpolicy.ReasonUnreadable},
		{"an other name that is no structure", asn1Names(ordinary, tlv(0x80, 'x')), certpolicy.ReasonUnreadable},
		{"an other name of a number", asn1Names(ordinary, otherName(tlv(0xa0, 2, 1, 7))), certpolicy.ReasonUnreadable},
		{"an other name with more than its value", asn1Names(ordinary, otherName(tlv(0xa0, utf8("x")...), utf8("y"))), certpolicy.ReasonUnreadable},
		{"an other name with two values", asn1Names(ordinary, otherName(tlv(0xa0, join(utf8("x"), utf8("y"))...))), certpolicy.ReasonUnreadable},
		{"an other name without a value", asn1Names(ordinary, otherName()), certpolicy.ReasonUnreadable},
		{"an IP address of five octets", asn1Names(ordinary, tlv(0x87, 10, 0, 0, 1, 0)), certpolicy.ReasonUnreadable},
		{"bytes after the names", func(a *asked) { a.san = append(san(ordinary), 0) }, certpolicy.ReasonUnreadable},
		{"a name after the names", func(a *asked) { a.san = append(san(ordinary), dnsName("www.example.org")...) }, certpolicy.ReasonUnreadable},
		{"a length that is longer than needed", func(a *asked) { a.san = join([]byte{0x30, 0x81, byte(len(ordinary))}, ordinary) }, certpolicy.ReasonUnreadable},
		{"a name's length that is longer than needed", asn1Names(join([]byte{0x82, 0x81, 3}, []byte("a.b"))), certpolicy.ReasonUnreadable},
		{"a length that is not known at first", func(a *asked) { a.san = join([]byte{0x30, 0x80}, ordinary, []byte{0, 0}) }, certpolicy.ReasonUnreadable},
		{"names in a SET", func(a *asked) { a.san = tlv(0x31, ordinary...) }, certpolicy.ReasonUnreadable},
		{"two extensions of names", func(a *asked) {
			a.extensions = []pkix.Extension{{Id: pki.OIDSubjectAltName, Value: san(ordinary)}, {Id: pki.OIDSubjectAltName, Value: san(dnsName("www.example.org"))}}
		}, certpolicy.ReasonUnreadable},
		{"a DNS name with NUL", asn1Names(dnsName("www.shop.example.com\x00.example.org")), certpolicy.ReasonUnreadable},
		{"an e-mail address with NUL", asn1Names(tlv(0x81, []byte("a@example.com\x00.example.org")...)), certpolicy.ReasonUnreadable},
		{"an other name with NUL", asn1Names(ordinary, otherName(tlv(0xa0, utf8("x\x00y")...))), certpolicy.ReasonUnreadable},

		{"two common names", func(a *asked) { a.subject = rdn("CN", "a", "CN", "b") }, certpolicy.ReasonSubject},
		{"a common name as UniversalString", subject(name(set31(atav(cn, tlv(0x1c, 0, 0, 0, 'x'))))), certpolicy.ReasonUnreadable},
		{"a common name as OCTET STRING", subject(name(set31(atav(cn, tlv(0x04, 'x'))))), certpolicy.ReasonUnreadable},
		{"a common name as number", subject(name(set31(atav(cn, tlv(0x02, 7))))), certpolicy.ReasonUnreadable},
		{"a PrintableString with other characters", subject(name(set31(atav(cn, tlv(0x13, 'a', '@'))))), certpolicy.ReasonUnreadable},
		{"a UTF8String that is none", subject(name(set31(atav(cn, tlv(0x0c, 0xff))))), certpolicy.ReasonUnreadable},
		{"a common name with NUL", subject(name(set31(atav(cn, utf8("admin\x00x"))))), certpolicy.ReasonUnreadable},
		{"an attribute with more than its value", subject(name(set31(tlv(0x30, join(cn, utf8("x"), utf8("y"))...)))), certpolicy.ReasonUnreadable},
		{"an empty relative distinguished name", subject(name(set31())), certpolicy.ReasonUnreadable},
		{"an empty relative distinguished name beside another", subject(name(set31(atav(cn, utf8("x"))), set31())), certpolicy.ReasonUnreadable},
		{"a relative distinguished name of two attributes", subject(name(set31(atav(cn, utf8("x")), atav(marshal(t, attributeTypes["O"]), utf8("y"))))), certpolicy.ReasonSubject},
		{"a relative distinguished name of two common names", subject(name(set31(atav(cn, utf8("x")), atav(cn, utf8("y"))))), certpolicy.ReasonSubject},
		{"an attribute that the policy does not mention", func(a *asked) {
			a.subject = pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{2, 5, 4, 42}, Value: "x"}}}
		}, certpolicy.ReasonSubject},

		{"an extension that the policy does not mention", func(a *asked) {
			a.extensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 2, 4}, Value: []byte{5, 0}}}
		}, certpolicy.ReasonExtensions},
		{"constraints that cannot be read", func(a *asked) {
			a.extensions = []pkix.Extension{{Id: pki.OIDBasicConstraints, Value: []byte{0x30, 3, 1, 1, 0xff, 0}}}
		}, certpolicy.ReasonUnreadable},
		{"name constraints that cannot be read", func(a *asked) { a.extensions = []pkix.Extension{{Id: pki.OIDNameConstraints, Value: []byte{0x30, 0}}} }, certpolicy.ReasonUnreadable},
		{"a key usage that does not exist", func(a *asked) {
			a.extensions = []pkix.Extension{{Id: pki.OIDKeyUsage, Value: []byte{3, 3, 6, 0x80, 0x40}}}
		}, certpolicy.ReasonUnreadable},
		{"two attributes with extensions", attributes(func(t testing.TB, extensions []byte) []byte {
			return join(extensions, extensionRequest("1.2.840.113549.1.9.14", 1))
		}), certpolicy.ReasonUnreadable},
		{"an attribute with two lists of extensions", attributes(func(t testing.TB, _ []byte) []byte { return extensionRequest("1.2.840.113549.1.9.14", 2) }), certpolicy.ReasonUnreadable},
		{"an attribute with extensions that cannot be read", attributes(func(t testing.TB, extensions []byte) []byte {
			return join(extensions, tlv(0x30, join([]byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 14}, tlv(0x30, 5, 0))...))
		}), certpolicy.ReasonUnreadable},
		{"an attribute with Microsoft's identifier of extensions", attributes(func(t testing.TB, _ []byte) []byte { return extensionRequest("1.3.6.1.4.1.311.2.1.14", 1) }), certpolicy.ReasonUnreadable},
		{"a second block of PEM", func(a *asked) { a.pem = func(data []byte) []byte { return append(data, data...) } }, certpolicy.ReasonUnreadable},
		{"a block of PEM before that is broken", func(a *asked) {
			a.pem = func(data []byte) []byte {
				return append([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAA\n-----END CERTIFICATE REQUEST-----\n"), data...)
			}
		}, certpolicy.ReasonUnreadable},
		{"a block of PEM after that is broken", func(a *asked) {
			a.pem = func(data []byte) []byte { return append(data, "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n"...) }
		}, certpolicy.ReasonUnreadable},
		{"bytes after the request", func(a *asked) { a.der = func(der []byte) []byte { return append(der, 0) } }, certpolicy.ReasonUnreadable},
		{"1,001 names", func(a *asked) { a.san = san(slices.Repeat([][]byte{dnsName("a.example")}, 1001)...) }, certpolicy.ReasonUnreadable},
		{"257 attributes", func(a *asked) { a.subject = slices.Repeat(rdn("OU", "a"), 257) }, certpolicy.ReasonUnreadable},
		{"more than 36,500 bytes", func(a *asked) {
			a.pem = func(data []byte) []byte { return append(bytes.Repeat([]byte("text\n"), 7300), data...) }
		}, certpolicy.ReasonUnreadable},
	}
	// Whatever a policy says that is about such a request, no signer may answer it, also
	// with a certificate that is ordinary.
	others := map[string]*certpolicy.Set{
		"a Limit about something else": set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"]}, certificate: {names: {max: 100000}}}`}),
		"an Allow that leaves it":      set(t, map[string]string{"p": everything + "\napproval: {mode: Leave}"}),
		"people": set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"], kinds: [CertificateSigningRequest, CertificateRequest]}, approval: {mode: People, people: {count: 2}}}`,
			"pods": `{effect: Limit, match: {signers: ["*"], kinds: [PodCertificateRequest]}}`}),
		"the rest":       set(t, map[string]string{"p": `{effect: DenyRest, match: {signers: ["*"]}}`}),
		"with exception": setWith(t, map[string]string{"p": everything}, map[string]string{"x": `{policies: [p], items: [certificate.names.dns, certificate.subject], reason: test, notAfter: "2026-12-01T00:00:00Z", match: {signers: ["*"], requesters: {users: ["*"]}}}`}),
	}
	certificate := issued(t, nil)
	s := set(t, map[string]string{"everything": everything, "nothing more": `{effect: Limit, match: {signers: ["*"]}, certificate: {subject: {}}}`})
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			for _, kind := range []v1alpha1.RequestKind{csrs, crs, pcrs} {
				a := of(kind).but(tc.ask)
				if kind == pcrs && a.pem != nil {
					continue
				}
				d := decide(t, s, a)
				if d.Outcome != v1alpha1.OutcomeDeny || d.Reason != tc.want {
					t.Errorf("%s: %s, want %s: %s", kind, brief(d), tc.want, d.Message)
				}
				if tc.want != certpolicy.ReasonUnreadable {
					continue
				}
				for what, other := range others {
					for _, finished := range []*x509.Certificate{nil, certificate} {
						d := decide(t, other, a.but(func(a *asked) { a.stage, a.certificate = v1alpha1.StageSign, finished }))
						if d.Outcome != v1alpha1.OutcomeDeny || d.Reason != tc.want {
							t.Errorf("%s, %s, with a certificate %v: %s: %s", kind, what, finished != nil, brief(d), d.Message)
						}
					}
				}
			}
		})
	}
}

// TestOrganizationsInOneSet: several organizations in one relative distinguished
// name, as Go and cert-manager write them, are so many values; each must be
// permitted.
func TestOrganizationsInOneSet(t *testing.T) {
	decided := func(policy string) *v1alpha1.PolicyDecision {
		return decide(t, set(t, map[string]string{"p": policy}), of(csrs).but(func(a *asked) {
			a.subject = (pkix.Name{CommonName: "alice", Organization: []string{"team-a", "team-b"}}).ToRDNSequence()
		}))
	}
	if d := decided(everything); d.Outcome != v1alpha1.OutcomeApprove {
		t.Errorf("two organizations: %s: %s", brief(d), d.Message)
	}
	const teamA = `{effect: Limit, match: {signers: ["*"]}, certificate: {subject: {commonName: {}, organizations: {patterns: [team-a]}}}}`
	if d := decided(teamA); d.Outcome != v1alpha1.OutcomeDeny || !strings.Contains(d.Message, "team-b") {
		t.Errorf("one of two organizations is not permitted: %s: %s", brief(d), d.Message)
	}
}

// attributes is a request with other attributes, whose signature is not valid.
func attributes(change func(t testing.TB, extensions []byte) []byte) func(*asked) {
	return func(a *asked) {
		a.der = func(der []byte) []byte {
			var request struct {
				Info struct {
					Version      int
					Subject, Key asn1.RawValue
					Attributes   asn1.RawValue `asn1:"tag:0"`
				}
				Algorithm asn1.RawValue
				Signature asn1.BitString
			}
			if _, err := asn1.Unmarshal(der, &request); err != nil {
				panic(err)
			}
			info := tlv(0x30, join([]byte{2, 1, 0}, request.Info.Subject.FullBytes, request.Info.Key.FullBytes, tlv(0xa0, change(nil, request.Info.Attributes.Bytes)...))...)
			signature, err := asn1.Marshal(request.Signature)
			if err != nil {
				panic(err)
			}
			return tlv(0x30, join(info, request.Algorithm.FullBytes, signature)...)
		}
	}
}

// extensionRequest is an attribute with n lists of extensions, each for other
// names.
func extensionRequest(oid string, n int) []byte {
	var id asn1.ObjectIdentifier
	for part := range strings.SplitSeq(oid, ".") {
		arc := 0
		for _, digit := range part {
			arc = arc*10 + int(digit-'0')
		}
		id = append(id, arc)
	}
	identifier, err := asn1.Marshal(id)
	if err != nil {
		panic(err)
	}
	var lists [][]byte
	for i := range n {
		value, err := asn1.Marshal([]pkix.Extension{{Id: pki.OIDSubjectAltName, Value: san(dnsName(string(rune('a'+i)) + ".example.org"))}})
		if err != nil {
			panic(err)
		}
		lists = append(lists, value)
	}
	return tlv(0x30, join(identifier, tlv(0x31, join(lists...)...))...)
}

// TestOrdinaryVariety: what is unusual, and can be read in one way only, is
// permitted by a policy that permits everything.
func TestOrdinaryVariety(t *testing.T) {
	s := set(t, map[string]string{"everything": everything})
	for reason, ask := range map[string]func(*asked){
		"all kinds of names": func(a *asked) {
			a.dns, a.ips, a.uris, a.mail = []string{"*.example.com", "EXAMPLE.org"}, []string{"10.0.0.1", "2001:db8::1"}, []string{"spiffe://example.org/a"}, []string{"ann@example.org"}
			a.others = []pki.OtherName{{Type: oidUPN, Value: "ann@corp.example"}}
		},
		"attributes": func(a *asked) {
			a.subject = rdn("C", "DE", "O", "a", "O", "b", "CN", "ä", "UID", "x", "emailAddress", "ann@example.org")
		},
		"a common name as BMPString": func(a *asked) { a.rawSubject = name(set31(atav(cn, tlv(0x1e, 0, 'x')))) },
		"a subject and no names":     func(a *asked) { a.dns, a.subject = nil, rdn("CN", "x") },
		"text around the request": func(a *asked) {
			a.pem = func(data []byte) []byte { return append(append([]byte("# made by hand\n"), data...), "# end\n"...) }
		},
		"a challenge password": attributes(func(_ testing.TB, extensions []byte) []byte {
			return join(extensions, tlv(0x30, join([]byte{6, 9, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 7}, tlv(0x31, tlv(0x13, 'x')...))...))
		}),
		"usages": func(a *asked) {
			a.inside = &pki.Usages{Key: x509.KeyUsageDigitalSignature, Extended: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		},
		"an extension":          func(a *asked) { a.extensions = []pkix.Extension{{Id: oidStrange, Value: []byte{5, 0}}} },
		"no CA, said expressly": func(a *asked) { a.ca = &pki.BasicConstraints{MaxPathLen: -1} },
	} {
		if got := brief(decide(t, s, of(csrs).but(ask))); got != "Approve" {
			t.Errorf("%s: %s", reason, got)
		}
	}
}

// TestUnreadableForWhom: a request that cannot be read is denied by the policies
// that are about its kind, its signer and its requester, and left otherwise.
func TestUnreadableForWhom(t *testing.T) {
	twice := func(a *asked) { a.pem = func(data []byte) []byte { return append(data, data...) } }
	for match, want := range map[string]string{
		`requesters: {users: [alice]}`:             "Deny; p request InvalidRequest request",
		`requesters: {users: [bob]}`:               "Leave",
		`requesters: {excluded: {users: [alice]}}`: "Leave",
		`kinds: [CertificateRequest]`:              "Leave",
		`namespaces: {names: [nowhere]}`:           "Deny; p request InvalidRequest request",
	} {
		s := set(t, map[string]string{"p": `{effect: Limit, match: {signers: ["*"], ` + match + `}, certificate: {}}`})
		d := decide(t, s, of(csrs).but(twice))
		if got := brief(d); got != want {
			t.Errorf("%s: %s, want %s", match, got, want)
		}
		if c := considered(t, d, "p"); want == "Leave" && !strings.HasPrefix(match, "kinds") && !strings.HasPrefix(c.Because, "match.requesters: ") {
			t.Errorf("%s: %+v", match, c)
		}
	}
}

// TestStrangeKeys: a key of an unknown kind is none that a policy lists, and
// expressions see no type.
func TestStrangeKeys(t *testing.T) {
	s := set(t, map[string]string{"everything": everything, "p": `{effect: Limit, match: {signers: ["*"]}, certificate: {keys: {types: [ECDSAP256, RSA2048], rsa: {}}}, rules: [{name: r, expression: "request.keyType != 'ECDSAP256' && request.keyBits == 0"}]}`})
	strange := func(a *asked) {
		a.der = func(der []byte) []byte { // id-ecPublicKey, with another last arc
			return bytes.ReplaceAll(der, []byte{6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1}, []byte{6, 7, 0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 0x7f})
		}
	}
	for _, kind := range []v1alpha1.RequestKind{csrs, crs, pcrs} {
		if d := decide(t, s, of(kind).but(strange)); d.Outcome != v1alpha1.OutcomeDeny || d.Reason != certpolicy.ReasonKey && d.Reason != certpolicy.ReasonUnreadable {
			t.Errorf("%s: %s: %s", kind, brief(d), d.Message)
		}
	}
}

// TestPEMType: a block of another type is no request.
func TestPEMType(t *testing.T) {
	s := set(t, map[string]string{"everything": everything})
	d := decide(t, s, of(csrs).but(func(a *asked) {
		a.pem = func(data []byte) []byte {
			block, _ := pem.Decode(data)
			block.Type = "NEW CERTIFICATE REQUEST"
			return pem.EncodeToMemory(block)
		}
	}))
	if d.Reason != certpolicy.ReasonUnreadable {
		t.Error(brief(d))
	}
}
