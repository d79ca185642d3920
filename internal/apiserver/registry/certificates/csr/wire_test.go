package csr

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/utils/ptr"
)

// The error for an invalid request, which the generic registry combines from
// the strategy and the library's own rules.
func TestCreateErrors(t *testing.T) {
	for _, tc := range []struct {
		reason, version string
		edit            func(*csr)
		want            string // "" for success
	}{
		{"a good request", "v1", func(*csr) {}, ""},
		{"one error", "v1", func(c *csr) { c.Spec.ExpirationSeconds = ptr.To[int32](599) },
			`CertificateSigningRequest.certificates.k8s.io "test" is invalid: spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)`},
		{"several errors", "v1", func(c *csr) { c.Spec.SignerName, c.Spec.Usages = "", nil },
			`CertificateSigningRequest.certificates.k8s.io "test" is invalid: [spec.usages: Required value, spec.signerName: Required value]`},
		{"a name that is no path segment", "v1", func(c *csr) { c.Name = "a/b%" },
			`CertificateSigningRequest.certificates.k8s.io "a/b%" is invalid: [metadata.name: Invalid value: "a/b%": may not contain '/', metadata.name: Invalid value: "a/b%": may not contain '%']`},
		{"is a matter only when nothing else is wrong", "v1", func(c *csr) { c.Name, c.Spec.Usages = "..", nil },
			`CertificateSigningRequest.certificates.k8s.io ".." is invalid: spec.usages: Required value`},
		{"the legacy signer", "v1", func(c *csr) { c.Spec.SignerName = "kubernetes.io/legacy-unknown" },
			`CertificateSigningRequest.certificates.k8s.io "test" is invalid: spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName is not allowed via this API version`},
		{"in v1beta1 it may not have been named", "v1beta1", func(c *csr) { c.Spec.SignerName = "kubernetes.io/legacy-unknown" },
			`CertificateSigningRequest.certificates.k8s.io "test" is invalid: spec.signerName: Invalid value: "kubernetes.io/legacy-unknown": the legacy signerName, which is the default of v1beta1, is not allowed: name a signer, such as kubernetes.io/kube-apiserver-client`},
		{"v1beta1 takes unknown and duplicate usages", "v1beta1", func(c *csr) { c.Spec.Usages = []certificatesv1.KeyUsage{"x", "x"} }, ""},
		{"a forged status is dropped before it can be wrong", "v1", func(c *csr) {
			c.Status.Conditions, c.Status.Certificate = []condition{{}}, []byte("forged")
		}, ""},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			err := rest.BeforeCreate(newStrategy(t), in(tc.version), newCSR(t, tc.edit))
			checkRefusal(t, err, tc.want)
		})
	}
}

// The same update through each endpoint and version.
func TestUpdateErrors(t *testing.T) {
	const invalid = `CertificateSigningRequest.certificates.k8s.io "test" is invalid: `
	approved := conditions(decided("Approved", "stored"))
	issued := func(c *csr) { c.Status.Certificate = newCertificate(t, 1) }

	for _, tc := range []struct {
		reason           string
		stored, sent     func(*csr)
		status, approval string
		beta1            string // of /status
		keeps            bool   // v1beta1 keeps its stored conditions
	}{
		{reason: "a decision comes", stored: conditions(), sent: approved,
			status: invalid + `status.conditions: Forbidden: updates may not add a condition of type "Approved"`, keeps: true},
		{reason: "a failure and a decision come", stored: conditions(), sent: conditions(decided("Failed", "new"), decided("Denied", "new")),
			status: invalid + `status.conditions: Forbidden: updates may not add a condition of type "Denied"`, keeps: true},
		{reason: "a decision goes", stored: approved, sent: conditions(),
			status:   invalid + `status.conditions: Forbidden: updates may not remove a condition of type "Approved"`,
			approval: invalid + `status.conditions: Forbidden: updates may not remove a condition of type "Approved"`, keeps: true},
		{reason: "a failure goes", stored: conditions(decided("Failed", "stored")), sent: conditions(),
			status:   invalid + `status.conditions: Forbidden: updates may not remove a condition of type "Failed"`,
			approval: invalid + `status.conditions: Forbidden: updates may not remove a condition of type "Failed"`,
			beta1:    invalid + `status.conditions: Forbidden: updates may not remove a condition of type "Failed"`},
		{reason: "a decision changes", stored: approved, sent: conditions(decided("Approved", "new")), keeps: true},
		{reason: "the opposite decision comes", stored: approved, sent: conditions(decided("Approved", "stored"), decided("Denied", "new")),
			status:   invalid + `[status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive, status.conditions: Forbidden: updates may not add a condition of type "Denied"]`,
			approval: invalid + `status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive`, keeps: true},
		{reason: "a certificate is replaced", stored: issued, sent: issued,
			status: invalid + `status.certificate: Forbidden: updates may not modify existing certificate content`},
		{reason: "a certificate is not one", stored: conditions(), sent: func(c *csr) { c.Status.Certificate = []byte("text") },
			status: invalid + `status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block`},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			base := newStrategy(t)
			old := newCSR(t, tc.stored)
			sent := old.DeepCopy()
			tc.sent(sent)

			checkRefusal(t, rest.BeforeUpdate(base, in("v1"), sent.DeepCopy(), old.DeepCopy()), "")
			checkRefusal(t, rest.BeforeUpdate(statusStrategy{base}, in("v1"), sent.DeepCopy(), old.DeepCopy()), tc.status)
			checkRefusal(t, rest.BeforeUpdate(approvalStrategy{base}, in("v1"), sent.DeepCopy(), old.DeepCopy()), tc.approval)

			obj := sent.DeepCopy()
			checkRefusal(t, rest.BeforeUpdate(statusStrategy{base}, in("v1beta1"), obj, old.DeepCopy()), tc.beta1)
			if diff := cmp.Diff(old.Status.Conditions, obj.Status.Conditions); tc.keeps && diff != "" {
				t.Errorf("v1beta1: conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpdateKeepsGeneration(t *testing.T) {
	old := newCSR(t, func(c *csr) { c.Generation = 3 })
	obj := old.DeepCopy()
	obj.Generation = 9
	checkRefusal(t, rest.BeforeUpdate(newStrategy(t), in("v1"), obj, old), "")
	if obj.Generation != 3 {
		t.Errorf("generation is %d, want the stored 3", obj.Generation)
	}
}

// Both the generic registry and the group's own rules check metadata: the
// causes contain both errors, the text contains them once.
func TestUpdateErrorsAreSaidOnce(t *testing.T) {
	old := newCSR(t)
	obj := old.DeepCopy()
	obj.Finalizers = []string{"bad finalizer/"}
	err := rest.BeforeUpdate(newStrategy(t), in("v1"), obj, old)

	var status *apierrors.StatusError
	if !errors.As(err, &status) {
		t.Fatalf("got %v", err)
	}
	said := map[string]int{}
	for _, cause := range status.ErrStatus.Details.Causes {
		if cause.Type != metav1.CauseTypeFieldValueInvalid || cause.Field != "metadata.finalizers" {
			t.Errorf("unexpected cause %v", cause)
		}
		said[cause.Message]++
	}
	if len(said) == 0 {
		t.Error("no causes")
	}
	for message, times := range said {
		if times != 2 {
			t.Errorf("%d causes say %q, want 2", times, message)
		}
	}
}

func checkRefusal(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Errorf("refused: %v", err)
		}
		return
	}
	if err == nil || !apierrors.IsInvalid(err) {
		t.Errorf("got %v, want %q", err, want)
		return
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}
