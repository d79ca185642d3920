package admission_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// chain is a certificate chain with text around it.
func chain(t *testing.T) []byte {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "elsewhere", apitest.NewKey(t), time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := root.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "leaf"}, apitest.NewKey(t).Public(), pki.ClientUsages(), time.Minute, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat([]byte("The leaf:\n"), pki.EncodeCertificates(leaf...),
		[]byte("The root:\n"), pki.EncodeCertificates(root.Certificate()), []byte("The end.\n"))
}

const notPermittedToSign = `user not permitted to sign requests with signerName "example.com/signer"`

func (w world) testSigning(t *testing.T) {
	w.grantAll(t, "sign", "status")
	certificate := chain(t)
	for _, c := range rightsCases {
		t.Run(c.reason, func(t *testing.T) {
			stored := w.create(t, "sign-"+c.user)
			signed := stored.DeepCopy()
			signed.Status.Certificate = certificate
			requests := w.as(t, "sign-"+c.user).CertificatesV1().CertificateSigningRequests()
			for _, options := range []metav1.UpdateOptions{dryRun, noUpdate} {
				_, err := requests.UpdateStatus(t.Context(), signed, options)
				if c.want && err != nil {
					t.Errorf("dry run %v: %v", options.DryRun, err)
				}
				if !c.want {
					wantForbidden(t, err, stored.Name, notPermittedToSign)
				}
			}
			if issued := bytes.Equal(w.get(t, stored.Name).Status.Certificate, certificate); issued != c.want {
				t.Errorf("certificate is stored: %v, want %v", issued, c.want)
			}
		})
	}
	t.Run("changes that sign", w.testChangesThatSign)
	t.Run("changes that do not sign", w.testChangesThatDoNotSign)
	t.Run("administrator without the binding", w.testAdministrator)
}

// testChangesThatSign: changing conditions needs the right to sign, as changing
// the certificate does.
func (w world) testChangesThatSign(t *testing.T) {
	stored := apitest.Decide(t, w.admin, w.create(t, "needs-sign"), "Approved")
	tests := []struct {
		reason string
		change func(*csr)
	}{
		{"failure", func(c *csr) { *c = *apitest.With(c, "Failed") }},
		{"a condition that decides nothing", func(c *csr) { *c = *apitest.With(c, "Other") }},
		{"the same condition without its time, which the server then sets", func(c *csr) { c.Status.Conditions[0].LastUpdateTime = metav1.Time{} }},
		{"the same conditions in another order", func(c *csr) { slices.Reverse(c.Status.Conditions) }},
		{"a condition less", func(c *csr) { c.Status.Conditions = c.Status.Conditions[1:] }},
		{"a certificate for a forged signer", func(c *csr) {
			c.Status.Certificate = chain(t)
			c.Spec.SignerName = "example.com/other" // for which the user may sign
		}},
	}
	requests := w.as(t, "sign-other").CertificatesV1().CertificateSigningRequests()
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			changed := stored.DeepCopy()
			tc.change(changed)
			_, err := requests.UpdateStatus(t.Context(), changed, noUpdate)
			wantForbidden(t, err, stored.Name, notPermittedToSign)
		})
	}
	t.Run("an empty certificate is not none", func(t *testing.T) {
		body := bytes.Replace(encode(t, stored), []byte(`"status":{`), []byte(`"status":{"certificate":"",`), 1)
		wantForbidden(t, w.putStatus(t, stored.Name, body), stored.Name, notPermittedToSign)
	})
	if diff := cmp.Diff(stored, w.get(t, stored.Name)); diff != "" {
		t.Errorf("the request has changed (-was +is):\n%s", diff)
	}
}

func (w world) testChangesThatDoNotSign(t *testing.T) {
	tests := []struct {
		reason string
		change func(*csr)
	}{
		{"nothing", func(*csr) {}},
		{"metadata", func(c *csr) { c.Labels = map[string]string{"a": "b"} }},
		{"a decision's text, which is put back", func(c *csr) { c.Status.Conditions[1].Message = "forged" }},
		{"a decision's time, which is put back", func(c *csr) { c.Status.Conditions[1].LastUpdateTime = metav1.Time{} }},
		{"the spec, which is put back", func(c *csr) { c.Spec.Username = "forged" }},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			stored := apitest.Decide(t, w.admin, w.create(t, "needs-no-sign-"+string(rune('a'+i))), "Approved")
			changed := stored.DeepCopy()
			tc.change(changed)
			got, err := w.as(t, "sign-other").CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), changed, noUpdate)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(stored.Status, got.Status); diff != "" {
				t.Errorf("status (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(changed.Labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// testAdministrator: no mistake in RBAC objects locks administrators out.
func (w world) testAdministrator(t *testing.T) {
	if err := w.admin.RbacV1().ClusterRoleBindings().Delete(t.Context(), "cluster-admin", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	stored := w.create(t, "superuser")
	signed := stored.DeepCopy()
	signed.Status.Certificate = chain(t)
	got, err := w.admin.CertificatesV1().CertificateSigningRequests().UpdateStatus(t.Context(), signed, dryRun)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got.Status.Certificate, signed.Status.Certificate) {
		t.Errorf("the certificate in the answer is %q", got.Status.Certificate)
	}
	if diff := cmp.Diff(stored, w.get(t, stored.Name)); diff != "" {
		t.Errorf("a dry run has changed the request (-was +is):\n%s", diff)
	}
}

func encode(t *testing.T, c *csr) []byte {
	t.Helper()
	c = c.DeepCopy()
	c.APIVersion, c.Kind = "certificates.k8s.io/v1", "CertificateSigningRequest"
	body, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// putStatus sends content that a typed client cannot send.
func (w world) putStatus(t *testing.T, name string, body []byte) error {
	t.Helper()
	return w.as(t, "sign-other").CertificatesV1().RESTClient().Put().
		Resource("certificatesigningrequests").Name(name).SubResource("status").
		SetHeader("Content-Type", "application/json").Body(body).Do(t.Context()).Error()
}
