package approverpolicy

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	cryptorand "crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"strconv"
	"strings"
	"sync"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var keys = sync.OnceValue(func() []crypto.Signer {
	_, edwards, err := ed25519.GenerateKey(cryptorand.Reader)
	list := []crypto.Signer{must(edwards, err), must(rsa.GenerateKey(cryptorand.Reader, 2048))}
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P256(), elliptic.P256(), elliptic.P384()} {
		list = append(list, must(ecdsa.GenerateKey(curve, cryptorand.Reader)))
	}
	return list
})

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func (g generator) request() *cmv1.CertificateRequest {
	cr := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: pick(g, namespaces)},
		Spec: cmv1.CertificateRequestSpec{
			Request: g.pem(), Duration: maybe(g, 60, g.duration), IsCA: g.chance(15), Usages: some(g, usages, 2),
			IssuerRef: cmmeta.IssuerReference{
				Name: pick(g, []string{"ca", "ca", "x"}), Kind: pick(g, []string{"", "Issuer", "ClusterIssuer", "Step"}), Group: pick(g, []string{"", "cert-manager.io", "example.com"}),
			},
			Username: pick(g, usernames), UID: "u", Groups: some(g, groups, 2), Extra: map[string][]string{"k": {"v"}},
		},
	}
	if g.chance(10) {
		cr.Spec.Extra = nil
	}
	return cr
}

func (g generator) pem() []byte {
	if g.chance(1) {
		return []byte(pick(g, []string{"", "x", "-----BEGIN CERTIFICATE REQUEST-----\neA==\n-----END CERTIFICATE REQUEST-----\n", strings.Repeat("x", 40_000)}))
	}
	template := &x509.CertificateRequest{RawSubject: must(asn1.Marshal(g.subject()))}
	if g.chance(80) {
		template.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 17}, Value: g.alternativeNames()}}
	}
	der := must(x509.CreateCertificateRequest(cryptorand.Reader, template, pick(g, keys())))
	if g.chance(1) {
		der[g.IntN(len(der))] ^= 1 << g.IntN(8)
	}
	return pem.EncodeToMemory(&pem.Block{Type: pick(g, []string{"CERTIFICATE REQUEST", "NEW CERTIFICATE REQUEST"}), Bytes: der})
}

func (g generator) subject() pkix.RDNSequence {
	var sequence pkix.RDNSequence
	for g.chance(60) && len(sequence) < 4 {
		rdn := pkix.RelativeDistinguishedNameSET{g.attribute()}
		if g.chance(10) {
			rdn = append(rdn, g.attribute())
		}
		sequence = append(sequence, rdn)
	}
	return sequence
}

func (g generator) attribute() pkix.AttributeTypeAndValue {
	of := asn1.ObjectIdentifier{2, 5, 4, pick(g, []int{3, 3, 5, 6, 7, 8, 9, 10, 10, 11, 17, 42})}
	if g.chance(15) {
		of = parseOID(pick(g, attributes))
	}
	return pkix.AttributeTypeAndValue{Type: of, Value: g.attributeValue()}
}

// attributeValue returns a text in most cases, otherwise a value of another
// type, or a text in an encoding that Go reads differently.
func (g generator) attributeValue() any {
	text := pick(g, texts)
	switch g.IntN(25) {
	case 0:
		return asn1.RawValue{Tag: 28, Bytes: []byte("\x00\x00\x00x")} // UniversalString
	case 1:
		return asn1.RawValue{Tag: 20, Bytes: []byte(pick(g, []string{"ann", "\xe9", "\xff"}))} // T61String
	case 2:
		return asn1.RawValue{Tag: 30, Bytes: []byte("\x00x\x00y")} // BMPString
	case 3:
		return asn1.RawValue{Tag: 27, Bytes: []byte("x")} // GeneralString
	case 4:
		return 7
	case 5:
		return asn1.RawValue{Tag: 4, Bytes: []byte("x")} // OCTET STRING
	case 6:
		return asn1.RawValue{Tag: 22, Bytes: []byte("ann@corp")} // IA5String
	case 7:
		return asn1.RawValue{Tag: 18, Bytes: []byte("12")} // NumericString
	}
	return text
}

func parseOID(text string) asn1.ObjectIdentifier {
	var oid asn1.ObjectIdentifier
	for arc := range strings.SplitSeq(text, ".") {
		oid = append(oid, must(strconv.Atoi(arc)))
	}
	return oid
}

// alternativeNames returns the value of a subjectAltName extension.
func (g generator) alternativeNames() []byte {
	var names []asn1.RawValue
	for g.chance(60) && len(names) < 4 {
		names = append(names, g.name())
	}
	value := must(asn1.Marshal(names))
	if g.chance(1) {
		value = append(value, 5, 0)
	}
	return value
}

func generalName(tag int, content []byte) asn1.RawValue {
	return asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: tag, Bytes: content}
}

func constructedName(tag int, content []byte) asn1.RawValue {
	name := generalName(tag, content)
	name.IsCompound = true
	return name
}

func (g generator) name() asn1.RawValue {
	switch n := g.IntN(100); {
	case n < 35:
		return generalName(2, []byte(pick(g, dnsNames)))
	case n < 50:
		return generalName(1, []byte(pick(g, emails)))
	case n < 62:
		return generalName(6, []byte(pick(g, uris)))
	case n < 77:
		return generalName(7, pick(g, [][]byte{{10, 0, 0, 1}, {10, 0, 0, 2}, net.ParseIP("2001:db8::1"), net.ParseIP("::ffff:10.0.0.1")}))
	case n < 92:
		return g.otherName()
	}
	return pick(g, oddNames)
}

var oddNames = []asn1.RawValue{
	constructedName(4, must(asn1.Marshal(pkix.RelativeDistinguishedNameSET{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "x"}}))),
	constructedName(4, must(asn1.Marshal(pkix.RDNSequence{{{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "x"}}}))),
	generalName(3, []byte("x")), constructedName(3, nil), constructedName(5, []byte{0x81, 1, 'x'}), constructedName(5, []byte{0x80, 1, 'x', 0x81, 1, 'y'}), constructedName(5, []byte{0x80, 1, 'x'}),
	generalName(8, []byte{42}), generalName(8, []byte{0x80}), generalName(9, nil), constructedName(0, []byte{5, 0}), generalName(0, []byte{5, 0}), constructedName(0, nil), constructedName(0, []byte{6, 1, 42}),
}

func (g generator) otherName() asn1.RawValue {
	text := pick(g, texts)
	value := pick(g, []asn1.RawValue{
		{Tag: asn1.TagUTF8String, Bytes: []byte(text)}, {Tag: asn1.TagUTF8String, Bytes: []byte(text)}, {Tag: asn1.TagIA5String, Bytes: []byte("ann@corp")},
		{Tag: asn1.TagPrintableString, Bytes: []byte("ann")}, {Tag: asn1.TagT61String, Bytes: []byte("\xffx")}, {Tag: asn1.TagBMPString, Bytes: []byte("\x00x")},
		{Tag: asn1.TagInteger, Bytes: []byte{7}}, {Tag: asn1.TagOctetString, Bytes: []byte("x")}, {Tag: asn1.TagUTF8String, IsCompound: true, Bytes: []byte("x")},
		generalName(0, []byte{5, 0}), constructedName(0, []byte{12, 1, 'x'}),
	})
	inner := must(asn1.Marshal(value))
	if g.chance(5) {
		inner = append(inner, 5, 0) // what follows the value
	}
	content := append(must(asn1.Marshal(parseOID(pick(g, otherNames)))), must(asn1.Marshal(constructedName(0, inner)))...)
	if g.chance(5) {
		content = append(content, 5, 0)
	}
	return constructedName(0, content)
}
