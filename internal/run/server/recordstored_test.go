package server_test

import (
	"testing"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// A start records the certificates in stored objects that have no record, such as those of
// a version without an inventory: in requests, and in the Secrets of Certificates whose
// requests are gone. Another start records nothing twice.
func TestStoredCertificatesAreRecorded(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	api := recordsClient(t, s)
	csr := apitest.Create(t, admin, apitest.NewCSR(t, "alice", certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: "alice"}, apitest.NewKey(t)))
	apitest.Decide(t, admin, csr, certificatesv1.CertificateApproved)
	fingerprints := map[string][]byte{"request": apitest.Issued(t, admin, csr)}
	in := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }
	issuer := &cmv1.Issuer{ObjectMeta: in("own"), Spec: cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{SelfSigned: &cmv1.SelfSignedIssuer{}}}}
	objects := []client.Object{issuer}
	for _, name := range []string{"web", "kept"} {
		objects = append(objects, &cmv1.Certificate{ObjectMeta: in(name), Spec: cmv1.CertificateSpec{
			SecretName: name, DNSNames: []string{name + ".example.com"}, IssuerRef: cmmeta.IssuerReference{Name: "own"},
			PrivateKey: &cmv1.CertificatePrivateKey{Algorithm: cmv1.ECDSAKeyAlgorithm},
		}})
	}
	for _, object := range objects {
		if err := api.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"web", "kept"} {
		apitest.Eventually(t, name+" is ready", func() bool {
			crt := &cmv1.Certificate{}
			return api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, crt) == nil && crt.Status.NotAfter != nil
		})
		fingerprints[name] = secretOf(t, api, name).Data[corev1.TLSCertKey]
	}
	if err := api.DeleteAllOf(t.Context(), &cmv1.CertificateRequest{}, client.InNamespace("default")); err != nil {
		t.Fatal(err)
	}
	forged := secretOf(t, api, "web")
	forged.ObjectMeta = metav1.ObjectMeta{Namespace: "default", Name: "forged", Annotations: forged.Annotations}
	forged.Data[corev1.TLSCertKey] = otherCertificate(t)
	if err := api.Create(t.Context(), forged); err != nil {
		t.Fatal(err)
	}

	s.Unstore(t, "/registry/inventory.certplane.dev/")
	for range 2 {
		s.Restart(t)
		api = recordsClient(t, s)
		for what, chain := range fingerprints {
			record := eventuallyRecorded(t, api, what, chain)
			if record.Annotations[inventoryv1alpha1.FoundAnnotation] == "" || record.SignerName == "" || record.Annotations[inventoryv1alpha1.ChargedAnnotation] == "" {
				t.Errorf("the record of %s: %+v", what, record)
			}
			switch what {
			case "request":
				if record.Request.Name != "alice" || record.Approval == nil || record.Request.Requester != "certplane:admin" {
					t.Errorf("the record of the request: %+v", record)
				}
			case "kept", "web":
				if record.Request.Kind != "Certificate" || record.Request.Name != what || record.Location == nil || record.SignerName != "issuers.cert-manager.io/default.own" {
					t.Errorf("the record of a Secret: %+v", record)
				} else if record.Location.Claimed { // the server has found it there
					t.Errorf("%s is only claimed to be in a Certificate", what)
				}
			}
		}
	}
	if record := recordOf(t, api, forged.Data[corev1.TLSCertKey]); record != nil {
		t.Errorf("a certificate that is no Certificate's has a record: %+v", record)
	}
}

func recordsClient(t *testing.T, s *apitest.Server) client.Client {
	t.Helper()
	api, err := client.New(s.Admin(t), client.Options{Scheme: recordsScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return api
}

func secretOf(t *testing.T, api client.Client, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := api.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

func otherCertificate(t *testing.T) []byte {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "other", apitest.NewKey(t), century, metav1.Now().Time)
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(root.Certificate())
}

// recordOf returns the record of the first certificate of a chain, nil if it has none. It
// must not have several.
func recordOf(t *testing.T, api client.Client, chain []byte) *inventoryv1alpha1.IssuedCertificate {
	t.Helper()
	certs, err := pki.ParseCertificates(chain)
	if err != nil {
		t.Fatal(err)
	}
	list := &inventoryv1alpha1.IssuedCertificateList{}
	by := client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector(inventoryv1alpha1.FingerprintField, pki.Fingerprint(certs[0]))}
	if err := api.List(t.Context(), list, by); err != nil {
		t.Fatal(err)
	}
	switch len(list.Items) {
	case 0:
		return nil
	case 1:
		return &list.Items[0]
	}
	t.Fatalf("there are %d records of one certificate", len(list.Items))
	return nil
}

func eventuallyRecorded(t *testing.T, api client.Client, what string, chain []byte) *inventoryv1alpha1.IssuedCertificate {
	t.Helper()
	var record *inventoryv1alpha1.IssuedCertificate
	apitest.Eventually(t, what+" has a record", func() bool {
		record = recordOf(t, api, chain)
		return record != nil
	})
	return record
}
