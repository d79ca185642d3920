package csr_test

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	certificatehelper "k8s.io/client-go/util/certificate/csr"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

// The requests by which clusters are certified (Kubernetes conformance).
func TestServerConformance(t *testing.T) {
	t.Parallel()
	w := start(t, withSigners)
	t.Run("API operations", w.testOperations)
	t.Run("client certificate", w.testClientCertificate)
	t.Run("helpers of kubelets", w.testHelpers)
}

func (w world) testOperations(t *testing.T) {
	const signerName = "example.com/conformance"
	selected := metav1.ListOptions{FieldSelector: "spec.signerName=" + signerName}
	var created *csr
	for range 3 {
		created = w.create(t, "", signer(signerName), expires(3600), func(c *csr) { c.GenerateName = "e2e-example-csr-" })
	}
	if got := w.get(t, created.Name); got.UID != created.UID || ptr.Deref(got.Spec.ExpirationSeconds, 0) != 3600 {
		t.Errorf("got %v", got)
	}
	list, err := w.csrs().List(bounded(t), selected)
	if err != nil || len(list.Items) != 3 {
		t.Fatalf("%v, %v", list, err)
	}
	events := w.watch(t, metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "metadata.name=" + created.Name})
	w.annotate(t, created, events)
	w.operateApproval(t, created)
	w.operateStatus(t, created)

	if err := w.csrs().Delete(bounded(t), created.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.csrs().Get(bounded(t), created.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the deleted one: %v", err)
	}
	list, err = w.csrs().List(bounded(t), selected)
	if err != nil || len(list.Items) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	if err := w.csrs().DeleteCollection(bounded(t), metav1.DeleteOptions{}, selected); err != nil {
		t.Fatal(err)
	}
	list, err = w.csrs().List(bounded(t), selected)
	if err != nil || len(list.Items) != 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// annotate patches, then updates, and watches both.
func (w world) annotate(t *testing.T, created *csr, events watch.Interface) {
	t.Helper()
	patched, err := patch(t, w.admin, mainEndpoint, created.Name, types.MergePatchType, `{"metadata":{"annotations":{"patched":"true"}}}`)
	checkError(t, err, "")
	if patched.Annotations["patched"] != "true" || !later(t, patched, created.ResourceVersion) {
		t.Errorf("patched object is %v", patched.ObjectMeta)
	}
	w.mustPut(t, mainEndpoint, changed(patched, func(c *csr) { c.Annotations["updated"] = "true" }))
	for {
		event, obj := next(t, events)
		if event != "MODIFIED "+created.Name {
			t.Fatalf("got %s", event)
		}
		if obj.Annotations["updated"] == "true" {
			if obj.Annotations["patched"] != "true" {
				t.Errorf("annotations are %v", obj.Annotations)
			}
			return
		}
	}
}

func (w world) operateApproval(t *testing.T, created *csr) {
	t.Helper()
	w.getVia(t, approvalEndpoint, created)
	patched, err := patch(t, w.admin, approvalEndpoint, created.Name, types.MergePatchType,
		`{"metadata":{"annotations":{"patchedapproval":"true"}},"status":{"conditions":[{"type":"ApprovalPatch","status":"True","reason":"e2e"}]}}`)
	checkError(t, err, "")
	if typesOf(patched) != "ApprovalPatch" || patched.Annotations["patchedapproval"] != "true" {
		t.Errorf("patched approval is %v %v", patched.Annotations, patched.Status)
	}
	updated := w.mustPut(t, approvalEndpoint, changed(patched, addCondition("Approved")))
	if typesOf(updated) != "ApprovalPatch Approved" {
		t.Errorf("conditions are %s", typesOf(updated))
	}
}

func (w world) operateStatus(t *testing.T, created *csr) {
	t.Helper()
	w.getVia(t, statusEndpoint, created)
	issued := chain(t)
	patched, err := patch(t, w.admin, statusEndpoint, created.Name, types.MergePatchType,
		`{"metadata":{"annotations":{"patchedstatus":"true"}},"status":{"certificate":"`+base64.StdEncoding.EncodeToString(issued)+`"}}`)
	checkError(t, err, "")
	if diff := cmp.Diff(issued, patched.Status.Certificate); diff != "" || patched.Annotations["patchedstatus"] != "true" {
		t.Errorf("annotations %v, certificate (-want +got):\n%s", patched.Annotations, diff)
	}
	updated := w.mustPut(t, statusEndpoint, changed(patched, addCondition("StatusUpdate")))
	if typesOf(updated) != "ApprovalPatch Approved StatusUpdate" {
		t.Errorf("conditions are %s", typesOf(updated))
	}
}

func addCondition(kind certificatesv1.RequestConditionType) edit {
	return func(c *csr) {
		c.Status.Conditions = append(c.Status.Conditions, condition{Type: kind, Status: "True", Reason: "Test", Message: "Set by a test"})
	}
}

// getVia reads the request through a subresource.
func (w world) getVia(t *testing.T, via endpoint, created *csr) {
	t.Helper()
	got := read[certificatesv1.CertificateSigningRequest](t, w.call(t, call{path: via.path(created.Name)}))
	if got.Kind != "CertificateSigningRequest" || got.APIVersion != "certificates.k8s.io/v1" || got.UID != created.UID {
		t.Errorf("via %s: %v", via, got)
	}
}

// A key becomes a certificate, and the certificate authenticates a user.
func (w world) testClientCertificate(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "e2e-test"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	obj := w.create(t, "client", func(c *csr) { c.Spec.Request = block("CERTIFICATE REQUEST", der) },
		signer(certificatesv1.KubeAPIServerClientSignerName), usages("digital signature", "key encipherment", "client auth"), expires(3600))
	waiter := w.wait(t, "client", obj.UID)
	<-waiter.watching
	w.mustPut(t, approvalEndpoint, changed(obj, addCondition("Approved")))
	issued := <-waiter.answer
	if err := <-waiter.failure; err != nil {
		t.Fatal(err)
	}
	decoded, _ := pem.Decode(issued)
	cert, err := x509.ParseCertificate(decoded.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	if lifetime := cert.NotAfter.Sub(cert.NotBefore); lifetime > 65*time.Minute || lifetime < time.Hour {
		t.Errorf("lifetime is %v", lifetime)
	}

	w.Grant(t, "e2e-test", apitest.Allow("create", "certificatesigningrequests"))
	second, err := apitest.Client(t, w.LoginWith(t, issued, key)).CertificatesV1().CertificateSigningRequests().Create(bounded(t), newCSR(t, "by-client"), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if second.Spec.Username != "e2e-test" {
		t.Errorf("username is %q", second.Spec.Username)
	}
}

// The requests that client-go sends for kubelets.
func (w world) testHelpers(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: "helper"}}, key)
	if err != nil {
		t.Fatal(err)
	}
	request := func(name, signerName string) (string, types.UID, error) {
		return certificatehelper.RequestCertificateWithContext(bounded(t), w.admin, block("CERTIFICATE REQUEST", der), name, signerName,
			ptr.To(time.Hour), []certificatesv1.KeyUsage{"client auth"}, key)
	}
	name, uid, err := request("helper", signerName)
	checkError(t, err, "")
	if got := w.get(t, name); got.UID != uid || *got.Spec.ExpirationSeconds != 3600 {
		t.Errorf("stored %v", got)
	}
	again, sameUID, err := request("helper", signerName)
	if err != nil || again != name || sameUID != uid {
		t.Errorf("asking again: %s %s, %v", again, sameUID, err)
	}
	if name, _, err = request("", "kubernetes.io/legacy-unknown"); err == nil || !strings.Contains(err.Error(), "is not allowed") { // sent to v1beta1
		t.Errorf("the legacy signer: stored %q, %v", name, err)
	}
}
