package publishlists_test

import (
	"crypto"
	"crypto/x509"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// warnings collects the warnings of answers.
type warnings []string

// HandleWarningHeader implements rest.WarningHandler.
func (w *warnings) HandleWarningHeader(_ int, _, text string) { *w = append(*w, text) }

// secretCA declares a Signer whose CA is in a Secret.
func (f *fixture) secretCA(t *testing.T, name string, secret *corev1.Secret) {
	t.Helper()
	if err := f.api.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	f.create(t, name, v1alpha1.SignerCA{Secret: &v1alpha1.SecretCA{Name: secret.Name}})
}

func secretOf(t *testing.T, name string, keyPEM []byte, chain ...*x509.Certificate) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Type: corev1.SecretTypeTLS, Data: map[string][]byte{
		corev1.TLSCertKey: pki.EncodeCertificates(chain...), corev1.TLSPrivateKeyKey: keyPEM,
	}}
}

func newKey(t *testing.T) (key crypto.Signer, keyPEM []byte) {
	t.Helper()
	made := apitest.NewKey(t)
	keyPEM, err := pki.EncodePrivateKey(made)
	if err != nil {
		t.Fatal(err)
	}
	return made, keyPEM
}

func (f *fixture) ready(t *testing.T, name string, status metav1.ConditionStatus, reason string) *metav1.Condition {
	t.Helper()
	signer := &v1alpha1.Signer{}
	var ready *metav1.Condition
	apitest.Eventually(t, "the Signer "+name+" is "+reason, func() bool {
		if err := f.api.Get(t.Context(), types.NamespacedName{Name: name}, signer); err != nil {
			t.Fatal(err)
		}
		ready = meta.FindStatusCondition(signer.Status.Conditions, v1alpha1.Ready)
		return ready != nil && ready.Status == status && ready.Reason == reason
	})
	return ready
}

func byPEM(ca *x509.Certificate, reason v1alpha1.RevocationReason) *v1alpha1.Revocation {
	return &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{GenerateName: "ca-"}, Spec: v1alpha1.RevocationSpec{
		Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pki.EncodeCertificates(ca))}}, Reason: reason,
	}}
}

// A revoked intermediate is in the list of the CA above, and no signer uses it. When it is
// replaced, the Signer signs again.
func TestIntermediateRevoked(t *testing.T) {
	f := start(t)
	rootKey, rootPEM := newKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", rootKey, 24*time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	intermediate := func() (*x509.Certificate, []byte) {
		key, keyPEM := newKey(t)
		ca, err := root.NewIntermediate(pki.UnrecordedSigning, "intermediate", key, time.Hour*12, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		return ca.Certificate(), keyPEM
	}
	ca, keyPEM := intermediate()
	f.secretCA(t, "root", secretOf(t, "root", rootPEM, root.Certificate()))
	f.secretCA(t, "web", secretOf(t, "web", keyPEM, ca, root.Certificate()))
	list := f.listOf(t, "example.com/root")
	f.listOf(t, "example.com/web")
	apitest.Eventually(t, "the CA is revoked", func() bool {
		err = f.api.Create(t.Context(), byPEM(ca, "CACompromise"))
		return err == nil // once the root is published
	})
	if ready := f.ready(t, "web", metav1.ConditionFalse, "CARevoked"); !strings.Contains(ready.Message, "the CA CN=intermediate was revoked on ") {
		t.Errorf("the condition is %+v", ready)
	}
	f.until(t, list, ca.SerialNumber.Int64())
	core := apitest.Client(t, f.Admin(t))
	request := func(name, signer string) *certificatesv1.CertificateSigningRequest {
		csr := apitest.NewCSR(t, name, "example.com/"+signer, pki.Subject{CommonName: name}, apitest.NewKey(t))
		csr.Spec.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth}
		csr.Spec.ExpirationSeconds = nil
		return apitest.Decide(t, core, apitest.Create(t, core, csr), certificatesv1.CertificateApproved)
	}
	waiting := request("waiting", "web")
	apitest.Issued(t, core, request("other", "root")) // one controller signs for all Signers
	if latest, err := core.CertificatesV1().CertificateSigningRequests().Get(t.Context(), waiting.Name, metav1.GetOptions{}); err != nil || len(latest.Status.Certificate) > 0 {
		t.Errorf("the revoked CA signs: %v", err)
	}
	next, nextPEM := intermediate()
	if err := f.api.Update(t.Context(), secretOf(t, "web", nextPEM, next, root.Certificate())); err != nil {
		t.Fatal(err)
	}
	f.ready(t, "web", metav1.ConditionTrue, "Signing")
	apitest.Issued(t, core, waiting)

	// Below a revoked root, no CA signs. The root is on no list.
	if err := f.api.Create(t.Context(), byPEM(root.Certificate(), "CACompromise")); err != nil {
		t.Fatal(err)
	}
	f.ready(t, "root", metav1.ConditionFalse, "CARevoked")
	f.ready(t, "web", metav1.ConditionFalse, "CARevoked")
}

// A generated CA is rotated first. A root is on no list, which is said.
func TestGeneratedRevoked(t *testing.T) {
	f := start(t)
	list := f.declare(t, "web")
	ca := authority(t, list)
	want := "is the CA with which the Signer web signs: rotate it first (certplane.dev/rotate-ca)"
	var err error
	apitest.Eventually(t, "its root is published", func() bool {
		err = f.api.Create(t.Context(), byPEM(ca, "Superseded"))
		return !strings.Contains(err.Error(), "no CA that this server knows")
	})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
	signer := &v1alpha1.Signer{}
	if err := f.api.Get(t.Context(), types.NamespacedName{Name: "web"}, signer); err != nil {
		t.Fatal(err)
	}
	signer.Spec.CA.Generated.Propagation = &metav1.Duration{}
	if err := f.api.Update(t.Context(), signer); err != nil {
		t.Fatal(err)
	}
	f.rotate(t, "web", "1")
	var said warnings
	cfg := rest.CopyConfig(f.Admin(t))
	cfg.WarningHandler = &said
	api, err := client.New(cfg, client.Options{Scheme: f.api.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(), byPEM(ca, "Superseded")); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(said, "\n"); !strings.Contains(text, "remove it from trust: kubectl delete clustertrustbundle certplane.dev:") && !strings.Contains(text, "remove it from trust: kubectl delete clustertrustbundle example.com:") {
		t.Errorf("warnings %q", said)
	}
	f.revoke(t, "act", entryOf(ca, 4711, pki.ReasonUnspecified))
	if entries := f.until(t, list, 4711).RevokedCertificateEntries; len(entries) != 1 {
		t.Errorf("the list has %d entries", len(entries))
	}
}
