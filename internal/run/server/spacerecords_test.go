package server_test

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

func recordsScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, cmv1.AddToScheme, inventoryv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return scheme
}

const century = 100 * 365 * 24 * time.Hour

// issuing is an editor of a namespace with an Issuer of its own.
type issuing struct {
	client.Client
	namespace string
	made      int
}

// newIssuing makes the Issuer of a namespace, as its editor.
func (w *spaceWorld) newIssuing(t *testing.T, namespace string) *issuing {
	t.Helper()
	cfg := w.As(t, "editor-"+namespace)
	as, err := client.New(cfg, client.Options{Scheme: recordsScheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	key := apitest.NewKey(t)
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", key, 2*century, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	keyPEM, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{
		&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ca"}, Type: corev1.SecretTypeTLS,
			Data: map[string][]byte{corev1.TLSPrivateKeyKey: keyPEM, corev1.TLSCertKey: pki.EncodeCertificates(root.Certificate())},
		},
		&cmv1.Issuer{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ca"},
			Spec:       cmv1.IssuerSpec{IssuerConfig: cmv1.IssuerConfig{CA: &cmv1.CAIssuer{SecretName: "ca"}}},
		},
	}
	for _, object := range objects {
		if err := as.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return &issuing{Client: as, namespace: namespace}
}

// newLongRequest returns a request for names of its own: records of the same names take hardly any
// space once they are packed.
func newLongRequest(t *testing.T) []byte {
	t.Helper()
	var names []string
	for range 960 { // a record has the digests of most of them
		random := make([]byte, 10)
		_, _ = rand.Read(random)
		names = append(names, hex.EncodeToString(random)+".a")
	}
	csr, err := pki.NewRequest(pki.Subject{DNSNames: names}, apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

// issue gets a certificate for a century and names of its own, and deletes its request.
func (i *issuing) issue(t *testing.T) error {
	t.Helper()
	return i.issueFor(t, newLongRequest(t))
}

func (i *issuing) issueFor(t *testing.T, request []byte) error {
	t.Helper()
	i.made++
	cr := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.namespace, Name: fmt.Sprintf("request-%d", i.made)},
		Spec:       cmv1.CertificateRequestSpec{IssuerRef: cmmeta.IssuerReference{Name: "ca"}, Request: request, Duration: &metav1.Duration{Duration: century}},
	}
	if err := i.Create(t.Context(), cr); err != nil {
		return err
	}
	apitest.Eventually(t, cr.Name+" has its certificate", func() bool {
		return len(cr.Status.Certificate) > 0 || i.Get(t.Context(), client.ObjectKeyFromObject(cr), cr) == nil && len(cr.Status.Certificate) > 0
	})
	if err := i.Delete(t.Context(), cr); err != nil {
		t.Fatal(err)
	}
	return nil
}

// Records of certificates count for who has caused them, whatever becomes of the requests
// and the namespace, and after a restart. Administrators make room; nobody else notices.
func TestRecordsAreCharged(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t, smallStore, apitest.IssueOnCreate, func(cfg *server.Config) { cfg.Etcd.MaxPercentPerTenant = 6 })
	w := spaceWorld{s, apitest.Client(t, s.Admin(t))}
	for i := range 9 { // so much that tenants are held to their shares
		name := fmt.Sprintf("other-%d", i)
		w.newEditor(t, name)
		for n := range 2 {
			if err := w.add(t, w.admin, name, n); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.newEditor(t, "a")
	w.newEditor(t, "b")
	a := w.newIssuing(t, "a")
	var refusal error
	for refusal == nil && a.made < 3000 {
		refusal = a.issue(t)
	}
	if !isFull(refusal) || !strings.Contains(refusal.Error(), "namespace a has") {
		t.Fatalf("after %d certificates: %v", a.made, refusal)
	}
	t.Logf("refused after %d certificates: %v", a.made, refusal)
	if err := w.add(t, w.editor(t, "b"), "b", 0); err != nil {
		t.Errorf("another tenant writes: %v", err)
	}
	if err := w.newIssuing(t, "b").issue(t); err != nil {
		t.Errorf("another tenant gets a certificate: %v", err)
	}

	if err := w.admin.CoreV1().Namespaces().Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the namespace is gone", func() bool {
		_, err := w.admin.CoreV1().Namespaces().Get(t.Context(), "a", metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	w.Restart(t)
	w.admin = apitest.Client(t, w.Admin(t))
	w.bindEditor(t, "a")
	a = w.newIssuing(t, "a")
	apitest.Eventually(t, "records count after the namespace and a restart", func() bool {
		err := a.issue(t)
		return isFull(err) && strings.Contains(err.Error(), "namespace a has")
	})
	w.testDeletingRecords(t, a)
}

func (w *spaceWorld) testDeletingRecords(t *testing.T, a *issuing) {
	t.Helper()
	_, err := w.admin.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "records"}, RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "certplane-inventory-admin"},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: "keeper"}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var keeper client.Client
	all := &inventoryv1alpha1.IssuedCertificateList{}
	ofA := client.MatchingLabels{inventoryv1alpha1.ChargedLabel: "namespace.a"}
	if keeper, err = client.New(w.As(t, "keeper"), client.Options{Scheme: recordsScheme(t)}); err != nil {
		t.Fatal(err)
	}
	apitest.Eventually(t, "the keeper may read records", func() bool { return keeper.List(t.Context(), all, ofA, client.Limit(5)) == nil })
	if len(all.Items) == 0 {
		t.Fatal("there are no records of namespace a")
	}
	one := &all.Items[0]
	if err := a.Delete(t.Context(), one, client.GracePeriodSeconds(0)); !apierrors.IsForbidden(err) {
		t.Errorf("an editor deletes a record: %v", err)
	}
	if err := keeper.Delete(t.Context(), one); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a record of a certificate that has not ended is deleted without force: %v", err)
	}
	if err := keeper.DeleteAllOf(t.Context(), &inventoryv1alpha1.IssuedCertificate{}, ofA); !apierrors.IsConflict(err) {
		t.Errorf("such records are deleted without force: %v", err)
	}
	if err := keeper.Delete(t.Context(), one, client.GracePeriodSeconds(0)); err != nil {
		t.Errorf("deleting a record: %v", err)
	}
	if err := keeper.Get(t.Context(), client.ObjectKeyFromObject(one), one); !apierrors.IsNotFound(err) {
		t.Errorf("the record after that: %v", err)
	}
	if err := keeper.DeleteAllOf(t.Context(), &inventoryv1alpha1.IssuedCertificate{}, ofA, client.GracePeriodSeconds(0)); err != nil {
		t.Errorf("deleting all records of a namespace: %v", err)
	}
	if err := keeper.List(t.Context(), all, ofA); err != nil || len(all.Items) > 0 {
		t.Errorf("%d records are left: %v", len(all.Items), err)
	}
	if err := keeper.List(t.Context(), all, client.MatchingLabels{inventoryv1alpha1.ChargedLabel: "namespace.b"}); err != nil || len(all.Items) != 1 {
		t.Errorf("another namespace has %d records: %v", len(all.Items), err)
	}
	apitest.Eventually(t, "there is room for certificates", func() bool { return a.issue(t) == nil })
}
