package policies_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/server"
)

// issueOnCreate lets a policy approve in the calls that create requests.
func issueOnCreate(s *v1alpha1.CertificatePolicySpec) {
	s.Approval = &v1alpha1.PolicyApproval{IssueOnCreate: ptr.To(true)}
}

// The answer to the creation of a request that a policy approves has the
// certificate. Nothing is written after that, and the audit log names who approved
// and signed.
func TestIssuedOnCreate(t *testing.T) {
	audited := filepath.Join(t.TempDir(), "audit.log")
	f := start(t, apitest.IssueOnCreate, auditTo(t, audited))
	f.policy("web", issueOnCreate)
	created := f.csr("web-1")
	if len(created.Status.Certificate) == 0 {
		t.Fatalf("the answer has no certificate: %+v", created.Status)
	}
	approved := created.Status.Conditions[0]
	if approved.Type != certificatesv1.CertificateApproved || approved.Reason != policies.ReasonApproved || approved.LastUpdateTime.IsZero() {
		t.Errorf("condition = %+v", approved)
	}
	stored, err := f.api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), created.Name, metav1.GetOptions{})
	if err != nil || stored.ResourceVersion != created.ResourceVersion || string(stored.Status.Certificate) != string(created.Status.Certificate) {
		t.Errorf("stored = %+v, %v; the answer had version %s", stored, err, created.ResourceVersion)
	}
	apitest.Eventually(t, "the audit log names the accounts", func() bool {
		log, err := os.ReadFile(audited)
		return err == nil &&
			strings.Contains(string(log), `"oncreate.certplane.dev/approval":"`+accountPrefix+rights.ApproveByPolicy.Account+`"`) &&
			strings.Contains(string(log), `"oncreate.certplane.dev/status":"`+accountPrefix+rights.Sign.Account+`"`)
	})
}

// auditTo records all requests for certificates.
func auditTo(t *testing.T, path string) func(*server.Config) {
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	const rules = `{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata", "resources": [{"group": "certificates.k8s.io"}]}]}`
	if err := os.WriteFile(policy, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	return func(cfg *server.Config) { cfg.Audit.PolicyFile, cfg.Audit.Log.Path = policy, path }
}

// Whatever keeps the approver or the signer from updating a stored request keeps
// them from updating one that is being created. Then the request is stored as it is
// by then, and the controllers go on.
func TestNotIssuedOnCreate(t *testing.T) {
	f := start(t, apitest.IssueOnCreate)
	f.policy("web", issueOnCreate)
	// closed creates requests until one has no certificate, which what was just changed
	// takes a moment to do.
	closed := func(name string, wantApproved bool) {
		t.Helper()
		var last certificatesv1.CertificateSigningRequestStatus
		tries := 0
		apitest.Eventually(t, name+" is not issued at its creation", func() bool {
			tries++
			last = f.csr(fmt.Sprintf("web-%s-%d", name, tries)).Status
			return len(last.Certificate) == 0
		})
		if approved := len(last.Conditions) > 0; approved != wantApproved {
			t.Errorf("%s: the answer has the conditions %+v", name, last.Conditions)
		}
	}
	if created := f.csr("web-0"); len(created.Status.Certificate) == 0 {
		t.Fatalf("the answer has no certificate: %+v", created.Status)
	}

	dry := apitest.NewCSR(t, "web-dry", signerName, pki.Subject{CommonName: "web-dry"}, apitest.NewKey(t))
	answer, err := f.api.CertificatesV1().CertificateSigningRequests().Create(t.Context(), dry, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil || len(answer.Status.Certificate) > 0 || len(answer.Status.Conditions) > 0 {
		t.Errorf("dry run: %+v, %v", answer.Status, err)
	}
	taken := apitest.NewCSR(t, "web-0", signerName, pki.Subject{CommonName: "web-0"}, apitest.NewKey(t))
	if _, err := f.api.CertificatesV1().CertificateSigningRequests().Create(t.Context(), taken, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a name that is taken: %v", err)
	}

	f.refuseStatus()
	closed("refused-signature", true)
	if err := f.api.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Delete(t.Context(), "refuse", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	tries := 0
	apitest.Eventually(t, "the signer may sign again", func() bool {
		tries++
		return len(f.csr(fmt.Sprintf("web-again-%d", tries)).Status.Certificate) > 0
	})

	f.disarm(rights.Sign.Account)
	closed("no-signer", true)
	f.server.Grant(t, accountPrefix+rights.Sign.Account, apitest.Allow("update", "certificatesigningrequests/status"))
	closed("no-right-to-sign", true)

	f.disarm(rights.ApproveByPolicy.Account)
	closed("no-approver", false)
	f.server.Grant(t, accountPrefix+rights.ApproveByPolicy.Account, apitest.Allow("update", "certificatesigningrequests/approval"))
	closed("no-right-to-approve", false)
}

const accountPrefix = "system:serviceaccount:" + rights.ServeNamespace + ":"

// disarm takes all rights that roles give to an account of a controller.
func (f *fixture) disarm(account string) {
	f.Helper()
	bindings, err := f.api.RbacV1().ClusterRoleBindings().List(f.Context(), metav1.ListOptions{})
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range bindings.Items {
		if !slices.ContainsFunc(b.Subjects, func(s rbacv1.Subject) bool { return s.Name == account }) {
			continue
		}
		if err := f.api.RbacV1().ClusterRoleBindings().Delete(f.Context(), b.Name, metav1.DeleteOptions{}); err != nil {
			f.Fatal(err)
		}
	}
}

// refuseStatus has a policy of admission refuse updates of the status of requests.
func (f *fixture) refuseStatus() {
	f.Helper()
	f.create(&admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule: admissionregistrationv1.Rule{
						APIGroups: []string{certificatesv1.GroupName}, APIVersions: []string{"*"}, Resources: []string{"certificatesigningrequests/status"},
					},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "object.status.certificate == oldObject.status.?certificate.orValue(b'')"}},
		},
	})
	f.create(&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "refuse", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	})
}
