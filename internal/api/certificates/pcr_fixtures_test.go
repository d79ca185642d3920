//lint:file-ignore SA1019 nodes of Kubernetes 1.35 know no other fields

package certificates

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type podEdit = func(*podRequest)

// podNow is the time in all tests of pods' certificates.
var podNow = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

var curves = map[string]elliptic.Curve{
	"ECDSAP224": elliptic.P224(), "ECDSAP256": elliptic.P256(), "ECDSAP384": elliptic.P384(), "ECDSAP521": elliptic.P521(),
}

var (
	rsaMu   sync.Mutex // guards rsaKeys, which are expensive
	rsaKeys = map[int]*rsa.PrivateKey{}
)

// podKey generates a key by the names that pods use, and by those of keys that
// pods cannot have.
func podKey(t testing.TB, kind string) crypto.Signer {
	t.Helper()
	if kind == "ED25519" {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	if curve, ok := curves[kind]; ok {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	bits := map[string]int{"RSA2048": 2048, "RSA3072": 3072, "RSA4096": 4096}[kind]
	rsaMu.Lock()
	defer rsaMu.Unlock()
	if rsaKeys[bits] == nil {
		key, err := rsa.GenerateKey(rand.Reader, bits)
		if err != nil {
			t.Fatal(err)
		}
		rsaKeys[bits] = key
	}
	return rsaKeys[bits]
}

func stubOf(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func pkixOf(t testing.TB, key crypto.Signer) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// prove signs text as kubelet 1.35 signs the UID of a pod.
func prove(t testing.TB, key crypto.Signer, text string) []byte {
	t.Helper()
	digest := sha256.Sum256([]byte(text))
	message, options := digest[:], crypto.SignerOpts(crypto.SHA256)
	switch key.(type) {
	case ed25519.PrivateKey:
		message, options = []byte(text), crypto.Hash(0)
	case *rsa.PrivateKey:
		options = &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthAuto, Hash: crypto.SHA256}
	}
	proof, err := key.Sign(rand.Reader, message, options)
	if err != nil {
		t.Fatal(err)
	}
	return proof
}

// newPodRequest returns a request that is valid unless an edit makes it
// invalid.
func newPodRequest(t testing.TB, edits ...podEdit) *podRequest {
	t.Helper()
	return newPodRequestFor(t, podKey(t, "ED25519"), edits...)
}

func newPodRequestFor(t testing.TB, key crypto.Signer, edits ...podEdit) *podRequest {
	t.Helper()
	day := int32(86400)
	request := &podRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "req-1", ResourceVersion: "1"},
		Spec: certificatesv1beta1.PodCertificateRequestSpec{
			SignerName: "example.com/signer",
			PodName:    "p", PodUID: "pod-uid",
			ServiceAccountName: "sa", ServiceAccountUID: "sa-uid",
			NodeName: "n", NodeUID: "node-uid",
			MaxExpirationSeconds: &day,
			StubPKCS10Request:    stubOf(t, key),
		},
	}
	return editPod(request, edits...)
}

func editPod(request *podRequest, edits ...podEdit) *podRequest {
	request = request.DeepCopy()
	for _, edit := range edits {
		edit(request)
	}
	return request
}

// bareKey converts a request to the form of kubelet 1.35.
func bareKey(t testing.TB, key crypto.Signer) podEdit {
	return func(r *podRequest) {
		r.Spec.StubPKCS10Request = nil
		r.Spec.PKIXPublicKey = pkixOf(t, key)
		r.Spec.ProofOfPossession = prove(t, key, string(r.Spec.PodUID))
	}
}

func lasts(seconds int32) podEdit {
	return func(r *podRequest) { r.Spec.MaxExpirationSeconds = &seconds }
}

func outcome(kinds ...string) podEdit {
	return func(r *podRequest) {
		r.Status.Conditions = nil
		for _, kind := range kinds {
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: "Test", LastTransitionTime: metav1.NewTime(podNow),
			})
		}
	}
}

// authority issues the certificates of tests.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func sign(t testing.TB, template, parent *x509.Certificate, public crypto.PublicKey, key crypto.Signer) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// newAuthority makes a CA below parent, or a root.
func newAuthority(t testing.TB, name string, parent *authority) *authority {
	t.Helper()
	key := podKey(t, "ED25519")
	template := &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		NotBefore: podNow.Add(-time.Hour), NotAfter: podNow.AddDate(1, 0, 0),
	}
	if parent == nil {
		parent = &authority{template, key}
	}
	return &authority{sign(t, template, parent.cert, key.Public(), parent.key), key}
}

// leaf issues a certificate for key that lasts a day.
func (a *authority) leaf(t testing.TB, key crypto.PublicKey, edits ...func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		NotBefore: podNow.Add(-time.Minute), NotAfter: podNow.Add(-time.Minute).Add(24 * time.Hour),
		DNSNames: []string{"p.example.com"},
	}
	for _, edit := range edits {
		edit(template)
	}
	return sign(t, template, a.cert, key, a.key)
}

func pemOf(certs ...*x509.Certificate) string {
	var out []byte
	for _, cert := range certs {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})...)
	}
	return string(out)
}

// issue answers a request with a leaf and the rest of its chain.
func issue(leaf *x509.Certificate, rest ...*x509.Certificate) podEdit {
	return func(r *podRequest) {
		at := func(t time.Time) *metav1.Time { return &metav1.Time{Time: t} }
		outcome("Issued")(r)
		r.Status.CertificateChain = pemOf(append([]*x509.Certificate{leaf}, rest...)...)
		r.Status.NotBefore, r.Status.NotAfter = at(leaf.NotBefore), at(leaf.NotAfter)
		r.Status.BeginRefreshAt = at(leaf.NotAfter.Add(-30 * time.Minute))
	}
}

// kinds returns the types and paths of errors, on which clients may rely.
func kinds(errs field.ErrorList) []string {
	var kinds []string
	for _, err := range errs {
		kinds = append(kinds, err.Type.String()+": "+err.Field)
	}
	return kinds
}

func wantKinds(t *testing.T, got field.ErrorList, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, kinds(got)); diff != "" {
		t.Errorf("errors (-want +got):\n%s\nin words: %v", diff, got.ToAggregate())
	}
	for _, err := range got {
		if err.Detail == "" && err.Type != field.ErrorTypeTooLong && err.Type != field.ErrorTypeRequired && err.Type != field.ErrorTypeDuplicate {
			t.Errorf("%v says nothing", err)
		}
	}
}
