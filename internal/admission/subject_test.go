package admission

import (
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"

	"github.com/certplane/certplane/internal/pki"
)

func TestSubjectRestriction(t *testing.T) {
	const (
		apiClient = "kubernetes.io/kube-apiserver-client"
		refused   = `use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed`
	)
	request := func(signer string, organizations ...string) *csr {
		obj := signedBy(signer)
		obj.Spec.Request = newRequest(t, pki.Subject{CommonName: "system:masters", Organizations: organizations})
		return obj
	}
	garbage := signedBy(apiClient)
	garbage.Spec.Request = []byte("garbage")
	foreignGarbage := signedBy("example.com/signer")
	foreignGarbage.Spec.Request = []byte("garbage")

	for _, tc := range []struct {
		reason    string
		operation admission.Operation
		sub       string
		obj       runtime.Object
		want      string
	}{
		{"the privileged group", admission.Create, "", request(apiClient, "system:masters"), refused},
		{"among other groups", admission.Create, "", request(apiClient, "a", "system:masters"), refused},
		{"another group", admission.Create, "", request(apiClient, "a", "System:Masters", "system:masters2"), ""},
		{"no group; the common name is none", admission.Create, "", request(apiClient), ""},
		{"another signer decides for itself", admission.Create, "", request("example.com/signer", "system:masters"), ""},
		{"the kubelets' signer does too", admission.Create, "", request("kubernetes.io/kube-apiserver-client-kubelet", "system:masters"), ""},
		{"a subresource", admission.Create, "approval", request(apiClient, "system:masters"), ""},
		{"an update", admission.Update, "", request(apiClient, "system:masters"), ""},
		{"garbage", admission.Create, "", garbage, `failed to parse CSR: PEM block type must be CERTIFICATE REQUEST`},
		{"garbage for another signer", admission.Create, "", foreignGarbage, ""},
		{"another type", admission.Create, "", &metav1.Status{}, `expected type CertificateSigningRequest, got: *v1.Status`},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			for _, dryRun := range []bool{false, true} {
				checkForbidden(t, validate(t, newSubjectRestriction(nil), attributes(tc.operation, tc.sub, tc.obj, nil, dryRun)), tc.want)
			}
		})
	}
}

func TestSubjectRestrictionIgnoresOtherResources(t *testing.T) {
	a := admission.NewAttributesRecord(&metav1.Status{}, nil, certificatesv1.SchemeGroupVersion.WithKind("Other"), "", "test",
		certificatesv1.SchemeGroupVersion.WithResource("others"), "", admission.Create, &metav1.CreateOptions{}, false, alice)
	checkForbidden(t, validate(t, newSubjectRestriction(nil), a), "")
}

func newRequest(t testing.TB, subject pki.Subject) []byte {
	t.Helper()
	key, err := pki.GenerateKey("ecdsa-p256")
	if err != nil {
		t.Fatal(err)
	}
	request, err := pki.NewRequest(subject, key)
	if err != nil {
		t.Fatal(err)
	}
	return request
}
