package request_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/request"
)

// Only requests that are made for orders of ACME clients are reduced, whatever their
// annotations say; what signers pass on as it is must not have more.
func TestForSigner(t *testing.T) {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	pemOf := func(subject pkix.Name) []byte {
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: subject, DNSNames: []string{"a.shop.example"}}, key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	groups, plain := pemOf(pkix.Name{CommonName: "a.shop.example", Organization: []string{"pki-officers"}}), pemOf(pkix.Name{CommonName: "a.shop.example"})
	order, account := "acme-"+strings.Repeat("a", 26), "system:serviceaccount:shop:web"
	for _, tc := range []struct {
		reason, name, user string
		pem                []byte
		reduced, refused   bool
	}{
		{"of an order", order, account, groups, true, true},
		{"of an order, with a common name alone", order, account, plain, true, false},
		{"of a user with the name of one of an order", order, "alice", groups, false, false},
		{"of a ServiceAccount, with another name", "acme-web", account, groups, false, false},
	} {
		csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: tc.pem, Username: tc.user, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{"client auth"},
		}}
		csr.Name = tc.name
		csr.Annotations = map[string]string{request.AnnotationDuration: "8760h", "kept": "x"}
		r := request.FromCSR(csr)
		seen := r.ForSigner()
		if has := len(seen.PKCS10.Subject.Organization) > 0; has == tc.reduced && len(r.PKCS10.Subject.Organization) > 0 {
			t.Errorf("%s: the signer sees %q", tc.reason, seen.PKCS10.Subject)
		}
		if _, long := seen.ObjectAnnotations[request.AnnotationDuration]; long == tc.reduced || seen.ObjectAnnotations["kept"] != "x" || len(csr.Annotations) != 2 {
			t.Errorf("%s: annotations %v", tc.reason, seen.ObjectAnnotations)
		}
		if err := seen.CheckVerbatim(); (err != nil) != tc.refused {
			t.Errorf("%s: passed on as it is: %v", tc.reason, err)
		}
	}
}
