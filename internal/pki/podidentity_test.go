package pki_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"math/big"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

func TestPodIdentity(t *testing.T) {
	root, key := newRoot(t), newKey(t, pki.ECDSAP521)
	for _, want := range []*pki.PodIdentity{
		nil,
		{
			Namespace: "ns", NamespaceUID: "1", ServiceAccountName: "sa", ServiceAccountUID: "2",
			PodName: "pod", PodUID: "3", NodeName: "node", NodeUID: "4",
		},
	} {
		request := newRequest(t, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "name"}}, key)
		template := pki.RequestTemplate(request, pki.ClientUsages(), hour(), big.NewInt(1))
		if want != nil {
			extension, err := want.Extension()
			if err != nil {
				t.Fatal(err)
			}
			template.ExtraExtensions = []pkix.Extension{extension}
		}
		got, err := pki.PodIdentityOf(sign(t, root, template))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
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
