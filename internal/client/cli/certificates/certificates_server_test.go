package certificates_test

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/certificates"
	"github.com/certplane/certplane/internal/pki"
)

// All certificates with one key are found by the digest of the key, and no others. Their
// records have both fingerprints that they can have.
func TestFindByKey(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	key, other := apitest.NewKey(t), apitest.NewKey(t)
	twins := map[string]string{} // by fingerprint
	for _, name := range []string{"a", "b", "c"} {
		of := key
		if name == "c" {
			of = other
		}
		csr := apitest.NewCSR(t, name, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: name}, of)
		issued := apitest.Issued(t, admin, apitest.Decide(t, admin, apitest.Create(t, admin, csr), certificatesv1.CertificateApproved))
		cert, err := pki.ParseCertificates(issued)
		if err != nil {
			t.Fatal(err)
		}
		if name != "c" {
			twins[pki.Fingerprint(cert[0])] = pki.OtherFingerprint(cert[0])
		}
	}
	api, err := certificates.Connect(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	digest := pki.KeyFingerprint(key.Public())
	found, _, err := certificates.Find(t.Context(), api, certificates.Config{KeyFingerprint: digest, Limit: 10, Now: time.Now()})
	if err != nil || len(found) != len(twins) {
		t.Fatalf("%d certificates with the key were found, %v", len(found), err)
	}
	for _, r := range found {
		facts := r.Certificate
		if twin := twins[facts.Fingerprint]; twin == "" || facts.Twin == "" || !strings.HasPrefix(twin, facts.Twin) || facts.KeyFingerprint != digest {
			t.Errorf("%s has the key %s and the twin %q, want %s and the beginning of %q", facts.Subject, facts.KeyFingerprint, facts.Twin, digest, twin)
		}
	}
	with := func(value string) client.MatchingFields {
		return client.MatchingFields{inventoryv1alpha1.KeyFingerprintField: value}
	}
	list := &inventoryv1alpha1.IssuedCertificateList{}
	if err := api.List(t.Context(), list, with("AA:"+digest[2:])); err != nil || len(list.Items) > 0 {
		t.Errorf("another key has %d certificates, %v", len(list.Items), err)
	}
	for _, value := range []string{"", digest[2:], digest[:62] + "zz"} {
		if err := api.List(t.Context(), list, with(value)); !apierrors.IsBadRequest(err) || !strings.Contains(err.Error(), "certificate.keyFingerprint: ") {
			t.Errorf("the value %q: %v", value, err)
		}
	}
	got := apitest.Table(t, s.Admin(t), "/apis/inventory.certplane.dev/v1alpha1/issuedcertificates?fieldSelector="+inventoryv1alpha1.KeyFingerprintField+"%3D"+strings.ToUpper(digest))
	if lines := strings.Split(got, "\n"); lines[0] != "Name|Names|Signer|Requester|State|Ends|Age" || strings.Count(got, "|certplane:admin|valid|") != 2 {
		t.Errorf("kubectl shows:\n%s", got)
	}
}
