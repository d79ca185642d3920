package pki_test

import (
	"encoding/asn1"
	"net"
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func TestRequestNames(t *testing.T) {
	encoded, err := pki.Content{Names: pki.AltNames{
		DNSNames: []string{"web.example.com"}, EmailAddresses: []string{"web@example.com"}, IPAddresses: []net.IP{net.ParseIP("fd00::1")},
		URIs:       []*url.URL{{Scheme: "spiffe", Host: "example.com", Path: "/web"}},
		OtherNames: []pki.OtherName{{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 20, 2, 3}, Value: "ann@corp.example.com"}},
	}}.Request(newKey(t, pki.ECDSAP256))
	if err != nil {
		t.Fatal(err)
	}
	req, err := pki.ParseRequest(encoded)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"DNS:web.example.com", "IP:fd00::1", "URI:spiffe://example.com/web", "email:web@example.com",
		"otherName:1.3.6.1.4.1.311.20.2.3=ann@corp.example.com",
	}
	if diff := cmp.Diff(want, pki.RequestNames(req)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
