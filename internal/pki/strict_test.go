package pki_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/pki"
)

var (
	serverAuth = asn1.ObjectIdentifier{1, 3, 6, 1, 5, 5, 7, 3, 1}
	strangeID  = asn1.ObjectIdentifier{1, 2, 3}
)

// TestReadRequest: what the standard library does not read of a request.
func TestReadRequest(t *testing.T) {
	dns := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 2, Bytes: []byte("a.example")}
	directory := asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 4, IsCompound: true, Bytes: []byte{0x30, 0}}
	other := func(value any, params string) asn1.RawValue {
		text := mustMarshal(t, value, params)
		return asn1.RawValue{Class: asn1.ClassContextSpecific, IsCompound: true, Bytes: append(mustMarshal(t, upn, ""), text...)}
	}
	tests := []struct {
		reason    string
		extension pkix.Extension
		subject   pkix.RDNSequence
		want      func(*pki.Request) bool
		strict    string // a part of what Strict says
	}{
		{reason: "nothing", want: func(r *pki.Request) bool {
			return !r.CA.Present && !r.KeyUsage.Present && !r.ExtKeyUsage.Present && !r.OtherNames.Present && len(r.Other) == 0
		}},
		{
			reason: "a CA with a path length", extension: ext(t, pki.OIDBasicConstraints, pki.BasicConstraints{IsCA: true, MaxPathLen: 3}),
			want: func(r *pki.Request) bool {
				return r.CA.Present && r.CA.Err == nil && r.CA.Value == pki.BasicConstraints{IsCA: true, MaxPathLen: 3}
			},
		},
		{
			reason: "a CA without one", extension: pkix.Extension{Id: pki.OIDBasicConstraints, Value: []byte{0x30, 3, 1, 1, 0xff}},
			want: func(r *pki.Request) bool { return r.CA.Value.IsCA && r.CA.Value.MaxPathLen == -1 },
		},
		{
			reason: "bytes after the constraints", extension: pkix.Extension{Id: pki.OIDBasicConstraints, Value: []byte{0x30, 3, 1, 1, 0xff, 0}},
			want:   func(r *pki.Request) bool { return r.CA.Present && !r.CA.Value.IsCA && r.CA.Err != nil },
			strict: "basic constraints: is malformed",
		},
		{
			reason: "a length that is longer than needed", extension: pkix.Extension{Id: pki.OIDBasicConstraints, Value: []byte{0x30, 0x81, 3, 1, 1, 0xff}},
			want:   func(r *pki.Request) bool { return r.CA.Err != nil },
			strict: "basic constraints: is malformed",
		},
		{
			reason: "key usages", extension: ext(t, pki.OIDKeyUsage, asn1.BitString{Bytes: []byte{0x81, 0x80}, BitLength: 9}),
			want: func(r *pki.Request) bool {
				return r.KeyUsage.Err == nil && r.KeyUsage.Value == x509.KeyUsageDigitalSignature|x509.KeyUsageEncipherOnly|x509.KeyUsageDecipherOnly
			},
		},
		{
			reason: "a key usage that does not exist", extension: ext(t, pki.OIDKeyUsage, asn1.BitString{Bytes: []byte{0x80, 0x40}, BitLength: 10}),
			want: func(r *pki.Request) bool {
				return errors.Is(r.KeyUsage.Err, pki.ErrUnknownKeyUsage) && r.KeyUsage.Value == x509.KeyUsageDigitalSignature
			},
			strict: "key usage: has key usages that do not exist",
		},
		{
			reason: "no key usages at all", extension: pkix.Extension{Id: pki.OIDKeyUsage, Value: []byte{4, 1, 0}},
			want: func(r *pki.Request) bool {
				return r.KeyUsage.Err != nil && !errors.Is(r.KeyUsage.Err, pki.ErrUnknownKeyUsage)
			},
			strict: "key usage: is malformed",
		},
		{
			reason: "purposes in their order", extension: ext(t, pki.OIDExtKeyUsage, []asn1.ObjectIdentifier{strangeID, serverAuth}),
			want: func(r *pki.Request) bool {
				return slices.EqualFunc(r.ExtKeyUsage.Value, []asn1.ObjectIdentifier{strangeID, serverAuth}, asn1.ObjectIdentifier.Equal)
			},
		},
		{
			reason: "purposes that are none", extension: ext(t, pki.OIDExtKeyUsage, []int{1}),
			want: func(r *pki.Request) bool {
				return r.ExtKeyUsage.Present && r.ExtKeyUsage.Err != nil && r.ExtKeyUsage.Value == nil
			},
			strict: "extended key usage: is malformed",
		},
		{
			reason: "a user principal name", extension: ext(t, pki.OIDSubjectAltName, []asn1.RawValue{dns, other("ann@corp", "utf8,explicit,tag:0")}),
			want: func(r *pki.Request) bool {
				return r.OtherNames.Err == nil && len(r.OtherNames.Value) == 1 && r.OtherNames.Value[0].String() == "1.3.6.1.4.1.311.20.2.3=ann@corp" &&
					slices.Equal(r.DNSNames, []string{"a.example"})
			},
		},
		{
			reason: "an other name that is a number", extension: ext(t, pki.OIDSubjectAltName, []asn1.RawValue{other(7, "explicit,tag:0")}),
			want:   func(r *pki.Request) bool { return len(r.OtherNames.Value) == 1 && r.OtherNames.Value[0].Value == "" },
			strict: "subject alternative name: has names of other kinds",
		},
		{
			reason: "a directory name", extension: ext(t, pki.OIDSubjectAltName, []asn1.RawValue{dns, directory}),
			want: func(r *pki.Request) bool {
				return r.OtherNames.Err != nil && slices.Equal(r.DNSNames, []string{"a.example"})
			},
			strict: "subject alternative name: has names of other kinds",
		},
		{
			reason: "an extension that is not read", extension: pkix.Extension{Id: strangeID, Critical: true, Value: []byte{5, 0}},
			want: func(r *pki.Request) bool {
				return len(r.Other) == 1 && r.Other[0].Critical && r.Other[0].Id.Equal(strangeID)
			},
		},
		{
			reason: "NUL in a name", extension: ext(t, pki.OIDSubjectAltName, []asn1.RawValue{{Class: 2, Tag: 1, Bytes: []byte("ann@a.example\x00.evil")}}),
			want:   func(*pki.Request) bool { return true },
			strict: `alternative name "ann@a.example\x00.evil" has NUL`,
		},
		{
			reason: "NUL in the subject", subject: pkix.RDNSequence{{{Type: pki.OIDCommonName, Value: "admin\x00.example"}}},
			want:   func(*pki.Request) bool { return true },
			strict: "attribute 2.5.4.3 with NUL",
		},
		{
			reason: "a number in the subject", subject: pkix.RDNSequence{{{Type: pki.OIDCommonName, Value: 7}}},
			want:   func(*pki.Request) bool { return true },
			strict: "attribute 2.5.4.3 that is not a text",
		},
		{
			reason: "a subject of the largest size but one", subject: slices.Repeat(pkix.RDNSequence{{{Type: pki.OIDCommonName, Value: "a"}}}, 257),
			want:   func(*pki.Request) bool { return true },
			strict: "257 attributes, more than 256",
		},
		{
			reason: "too many names", extension: ext(t, pki.OIDSubjectAltName, slices.Repeat([]asn1.RawValue{dns}, 1001)),
			want:   func(r *pki.Request) bool { return len(r.DNSNames) == 1001 },
			strict: "1001 alternative names, more than 1000",
		},
	}
	key := newKey(t, pki.ECDSAP256)
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			template := &x509.CertificateRequest{}
			if tc.extension.Id != nil {
				template.ExtraExtensions = []pkix.Extension{tc.extension}
			}
			if tc.subject != nil {
				template.RawSubject = marshal(t, tc.subject)
			}
			req, err := pki.ParseRequestDER(newRequest(t, template, key).Raw)
			if err != nil {
				t.Fatal(err)
			}
			if !tc.want(req) {
				t.Errorf("read %+v", req)
			}
			if got := text(req.Strict()); (got == "") != (tc.strict == "") || !strings.Contains(got, tc.strict) {
				t.Errorf("strictly %q, want %q", got, tc.strict)
			}
		})
	}
}

// Two of one extension, wherever they are, make a request unreadable.
func TestDuplicateExtensions(t *testing.T) {
	template := &x509.CertificateRequest{ExtraExtensions: []pkix.Extension{
		{Id: strangeID, Value: []byte{5, 0}}, {Id: strangeID, Value: []byte{5, 0}},
	}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, newKey(t, pki.ECDSAP256))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pki.ParseRequestDER(der); err == nil {
		t.Error("a request with two extensions of one kind is read")
	}
}

// What follows the first block is ignored by signers, and refused by judges.
func TestStrictPEM(t *testing.T) {
	data := pki.EncodeRequest(newRequest(t, &x509.CertificateRequest{}, newKey(t, pki.ECDSAP256)))
	for _, tc := range []struct {
		reason, after string
		ok            bool
	}{
		{"nothing follows", "", true},
		{"text follows", "made by hand\n", true},
		{"a request follows", string(data), false},
		{"a block that is broken follows", "-----BEGIN CERTIFICATE REQUEST-----\nAAAA", false},
		{"a key follows", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY"})), false},
	} {
		if got := pki.StrictPEM(append(slices.Clone(data), tc.after...)); (got == nil) != tc.ok {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}

// FuzzReadRequest: what is read is what was sent, and what is strictly read can
// be written again as the extensions that were sent.
func FuzzReadRequest(f *testing.F) {
	for _, der := range requestSeeds(f) {
		f.Add(der)
	}
	f.Fuzz(func(t *testing.T, der []byte) {
		req, err := pki.ParseRequestDER(der)
		if err != nil {
			return
		}
		known := 0
		for _, present := range []bool{req.CA.Present, req.KeyUsage.Present, req.ExtKeyUsage.Present, req.OtherNames.Present} {
			if present {
				known++
			}
		}
		if known+len(req.Other) != len(req.Extensions) {
			t.Errorf("of %d extensions %d are read and %d are left", len(req.Extensions), known, len(req.Other))
		}
		if req.Strict() != nil {
			return
		}
		if req.KeyUsage.Value&^(1<<9-1) != 0 {
			t.Errorf("key usages %b", req.KeyUsage.Value)
		}
		names, err := pki.OtherNames(req.Extensions)
		if err != nil || len(names) != len(req.OtherNames.Value) {
			t.Errorf("other names %v, %v", names, err)
		}
	})
}

func ext(t testing.TB, id asn1.ObjectIdentifier, value any) pkix.Extension {
	t.Helper()
	return pkix.Extension{Id: id, Value: marshal(t, value)}
}

func mustMarshal(t testing.TB, value any, params string) []byte {
	t.Helper()
	der, err := asn1.MarshalWithParams(value, params)
	if err != nil {
		t.Fatal(err)
	}
	return der
}
