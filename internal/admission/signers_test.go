package admission

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// Approving and signing make the same two authorizer calls, with different
// verbs.
func TestSignerAuthorization(t *testing.T) {
	const (
		mayNotApprove = `user not permitted to approve requests with signerName "abc.com/xyz"`
		mayNotSign    = `user not permitted to sign requests with signerName "abc.com/xyz"`
	)
	issue := func(obj *csr) *csr {
		obj = obj.DeepCopy()
		obj.Status.Certificate = []byte("certificate")
		return obj
	}
	for _, tc := range []struct {
		reason  string
		answers map[string]answer
		sent    string // the signer in the body
		allowed bool
	}{
		{"the right to the name", map[string]answer{"abc.com/xyz": yes}, "abc.com/xyz", true},
		{"the right to the domain", map[string]answer{"abc.com/*": yes}, "abc.com/xyz", true},
		{"the domain's right counts although the name's is denied", map[string]answer{"abc.com/xyz": no, "abc.com/*": yes}, "abc.com/xyz", true},
		{"no right", nil, "abc.com/xyz", false},
		{"the right to another name", map[string]answer{"abc.com/other": yes}, "abc.com/xyz", false},
		{"the right to another domain", map[string]answer{"other.com/*": yes}, "abc.com/xyz", false},
		{"wildcards mean nothing", map[string]answer{"*": yes, "*.com/*": yes, "abc.com/xy*": yes}, "abc.com/xyz", false},
		{"an error is a no, even with a yes", map[string]answer{"abc.com/xyz": yesButErr, "abc.com/*": yesButErr}, "abc.com/xyz", false},
		{"but not to the second question", map[string]answer{"abc.com/xyz": yesButErr, "abc.com/*": yes}, "abc.com/xyz", true},
		{"another signer in the body is no way around", map[string]answer{"abc.com/other": yes}, "abc.com/other", false},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj, old := issue(signedBy(tc.sent)), signedBy("abc.com/xyz")
			for _, dryRun := range []bool{false, true} {
				approveErr := validate(t, newApproval(&rules{answers: tc.answers}), attributes(admission.Update, "approval", obj, old, dryRun))
				signErr := validate(t, newSigning(&rules{answers: tc.answers}), attributes(admission.Update, "status", obj, old, dryRun))
				if tc.allowed {
					checkForbidden(t, approveErr, "")
					checkForbidden(t, signErr, "")
				} else {
					checkForbidden(t, approveErr, mayNotApprove)
					checkForbidden(t, signErr, mayNotSign)
				}
			}
		})
	}
}

// Authors of authorization rules depend on these attributes.
func TestSignerQuestions(t *testing.T) {
	question := func(verb, name string) asked {
		return asked{
			User: alice, Verb: verb, APIGroup: "certificates.k8s.io", APIVersion: "*",
			Resource: "signers", Name: name, ResourceRequest: true,
		}
	}
	for _, tc := range []struct {
		reason  string
		answers map[string]answer
		want    []asked
	}{
		{"the name, then the domain", nil, []asked{question("approve", "abc.com/xyz"), question("approve", "abc.com/*")}},
		{"no second question after a yes", map[string]answer{"abc.com/xyz": yes}, []asked{question("approve", "abc.com/xyz")}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			r := &rules{answers: tc.answers}
			_ = validate(t, newApproval(r), update("approval", signedBy("abc.com/xyz"), signedBy("abc.com/xyz")))
			if diff := cmp.Diff(tc.want, r.asked, cmp.AllowUnexported(asked{})); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
		})
	}
}

// Even an update that changes nothing needs the right to approve.
func TestApprovalIsNeverSkipped(t *testing.T) {
	err := validate(t, newApproval(&rules{}), update("approval", signedBy("abc.com/xyz"), signedBy("abc.com/xyz")))
	checkForbidden(t, err, `user not permitted to approve requests with signerName "abc.com/xyz"`)
}

func TestSigningLooksAtChanges(t *testing.T) {
	const refused = `user not permitted to sign requests with signerName "abc.com/xyz"`
	then := metav1.Unix(1_700_000_000, 0)
	failed := certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, LastUpdateTime: then,
	}
	elsewhere := failed
	elsewhere.LastUpdateTime = metav1.NewTime(then.In(time.FixedZone("elsewhere", 3600)))
	touched := failed
	touched.LastUpdateTime = metav1.Unix(1_700_000_001, 0)
	custom := certificatesv1.CertificateSigningRequestCondition{Type: "Custom", Status: corev1.ConditionTrue}

	type status = certificatesv1.CertificateSigningRequestStatus
	conditions := func(c ...certificatesv1.CertificateSigningRequestCondition) status { return status{Conditions: c} }

	for _, tc := range []struct {
		reason   string
		old, new status
		want     string
	}{
		{"nothing changes", conditions(failed), conditions(failed), ""},
		{"no conditions are the same as an empty list", status{}, conditions(), ""},
		{"the same instant in another zone is the same", conditions(failed), conditions(elsewhere), ""},
		{"a certificate comes", status{}, status{Certificate: []byte("x")}, refused},
		{"a certificate changes", status{Certificate: []byte("x")}, status{Certificate: []byte("y")}, refused},
		{"an empty certificate is not the same as none", status{}, status{Certificate: []byte{}}, refused},
		{"a condition comes", status{}, conditions(failed), refused},
		{"a time changes", conditions(failed), conditions(touched), refused},
		{"the order changes", conditions(failed, custom), conditions(custom, failed), refused},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			obj, old := signedBy("abc.com/xyz"), signedBy("abc.com/xyz")
			obj.Labels = map[string]string{"changes": "freely"}
			obj.Status, old.Status = tc.new, tc.old
			broken := map[string]answer{"abc.com/xyz": yesButErr, "abc.com/*": yesButErr}
			checkForbidden(t, validate(t, newSigning(&rules{answers: broken}), update("status", obj, old)), tc.want)
		})
	}
}

func TestPluginsMindTheirOwnRequests(t *testing.T) {
	obj, old := signedBy("abc.com/xyz"), signedBy("abc.com/xyz")
	obj.Status.Certificate = []byte("x")
	foreign := admission.NewAttributesRecord(obj, old, certificatesv1.SchemeGroupVersion.WithKind("Other"), "", "test",
		certificatesv1.SchemeGroupVersion.WithResource("others"), "approval", admission.Update, &metav1.UpdateOptions{}, false, alice)

	for _, tc := range []struct {
		reason string
		plugin admission.Interface
		a      admission.Attributes
	}{
		{"approval, on /status", newApproval(&rules{}), update("status", obj, old)},
		{"approval, on the resource", newApproval(&rules{}), update("", obj, old)},
		{"approval, on a create", newApproval(&rules{}), attributes(admission.Create, "approval", obj, nil, false)},
		{"approval, on another resource", newApproval(&rules{}), foreign},
		{"signing, on /approval", newSigning(&rules{}), update("approval", obj, old)},
		{"signing, on the resource", newSigning(&rules{}), update("", obj, old)},
		{"signing, on a create", newSigning(&rules{}), attributes(admission.Create, "status", obj, nil, false)},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			checkForbidden(t, validate(t, tc.plugin, tc.a), "")
		})
	}
}

func TestPluginsRefuseOtherTypes(t *testing.T) {
	const refused = `expected type CertificateSigningRequest, got: *v1.Status`
	everything := &rules{answers: map[string]answer{"abc.com/xyz": yes}}
	good, bad := signedBy("abc.com/xyz"), &metav1.Status{}

	for _, tc := range []struct {
		reason   string
		plugin   admission.Interface
		sub      string
		obj, old runtime.Object
		want     string
	}{
		{"approval of nothing known", newApproval(everything), "approval", good, bad, refused},
		{"approval does not care what is sent", newApproval(everything), "approval", bad, good, ""},
		{"signing of nothing known", newSigning(everything), "status", good, bad, refused},
		{"signing with nothing known", newSigning(everything), "status", bad, good, refused},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			checkForbidden(t, validate(t, tc.plugin, update(tc.sub, tc.obj, tc.old)), tc.want)
		})
	}
}
