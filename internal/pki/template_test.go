package pki_test

import (
	"bytes"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"net"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func TestSubjectTemplate(t *testing.T) {
	root, key := newRoot(t), newKey(t, pki.ECDSAP521)
	raw, err := asn1.Marshal(pkix.Name{ExtraNames: []pkix.AttributeTypeAndValue{
		{Type: asn1.ObjectIdentifier{2, 5, 4, 11}, Value: "unit"},
		{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: "name"},
	}}.ToRDNSequence())
	if err != nil {
		t.Fatal(err)
	}
	pod := &pki.PodIdentity{
		Namespace: "ns", NamespaceUID: "1", ServiceAccountName: "sa", ServiceAccountUID: "2",
		PodName: "pod", PodUID: "3", NodeName: "node", NodeUID: "4",
	}
	for _, tc := range []struct {
		reason  string
		subject pki.Subject
		want    string
	}{
		{"from fields", pki.Subject{CommonName: "name", Organizations: []string{"org"}, OrganizationalUnits: []string{"unit"}}, "CN=name,OU=unit,O=org"},
		{"from bytes, in their order", pki.Subject{Raw: raw, CommonName: "other"}, "CN=name,OU=unit"},
		{"names alone", pki.Subject{DNSNames: []string{"a.example"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}, URIs: []*url.URL{{Scheme: "spiffe", Host: "a"}}}, ""},
		{"a pod", pki.Subject{CommonName: "name", Pod: pod}, "CN=name"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			template, err := pki.SubjectTemplate(tc.subject, key.Public(), pki.ClientUsages(), hour(), big.NewInt(1))
			if err != nil {
				t.Fatal(err)
			}
			cert := sign(t, root, template)
			if got := cert.Subject.String(); got != tc.want {
				t.Errorf("subject %q, want %q", got, tc.want)
			}
			if tc.subject.Raw != nil && !bytes.Equal(cert.RawSubject, raw) {
				t.Error("the subject's bytes have changed")
			}
			identity, err := pki.PodIdentityOf(cert)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.subject.Pod, identity); diff != "" {
				t.Errorf("pod: -want +got:\n%s", diff)
			}
		})
	}
}

func TestSubjectTemplateOfBrokenBytes(t *testing.T) {
	for _, raw := range [][]byte{{1}, {0x30, 0x00, 0x00}} {
		if _, err := pki.SubjectTemplate(pki.Subject{Raw: raw}, newKey(t, pki.Ed25519).Public(), pki.ClientUsages(), hour(), big.NewInt(1)); err == nil {
			t.Errorf("subject %x is taken", raw)
		}
	}
}

func TestPodIdentityThatCannotBeRead(t *testing.T) {
	for _, value := range [][]byte{nil, {0x30, 0x00}, {1, 2, 3}} {
		cert := &x509.Certificate{Extensions: []pkix.Extension{{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 1}, Value: value}}}
		if pod, err := pki.PodIdentityOf(cert); err == nil {
			t.Errorf("%x is read as %+v", value, pod)
		}
	}
}
