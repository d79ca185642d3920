package pki

import (
	"encoding/asn1"
	"testing"
)

// attributeValue is how a common name is written.
type attributeValue struct {
	tag  int
	text string
}

func nameOf(t *testing.T, values ...attributeValue) []byte {
	t.Helper()
	var rdns []asn1.RawValue
	for _, value := range values {
		attribute, err := asn1.Marshal(struct {
			Type  asn1.ObjectIdentifier
			Value asn1.RawValue
		}{asn1.ObjectIdentifier{2, 5, 4, 3}, asn1.RawValue{Tag: value.tag, Bytes: []byte(value.text)}})
		if err != nil {
			t.Fatal(err)
		}
		rdns = append(rdns, asn1.RawValue{Tag: asn1.TagSet, IsCompound: true, Bytes: attribute})
	}
	der, err := asn1.Marshal(rdns)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// RFC 5280 section 7.1.
func TestSameDN(t *testing.T) {
	printable, utf8 := asn1.TagPrintableString, asn1.TagUTF8String
	ca := nameOf(t, attributeValue{printable, "certplane client CA"})
	for _, tc := range []struct {
		reason string
		name   []byte
		want   bool
	}{
		{"the same", ca, true},
		{"as another string type", nameOf(t, attributeValue{utf8, "certplane client CA"}), true},
		{"in other case", nameOf(t, attributeValue{utf8, "CertPlane Client ca"}), true},
		{"with more white space", nameOf(t, attributeValue{printable, "  certplane   client CA "}), true},
		{"without white space", nameOf(t, attributeValue{printable, "certplaneclient CA"}), false},
		{"another text", nameOf(t, attributeValue{printable, "certplane client CB"}), false},
		{"more attributes", nameOf(t, attributeValue{printable, "certplane client CA"}, attributeValue{printable, "x"}), false},
		{"none", nameOf(t), false},
		{"no name", []byte("x"), false},
	} {
		if got := sameDN(tc.name, ca); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}
