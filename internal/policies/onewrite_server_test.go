package policies_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/rights"
)

// One write equals three steps: the same status, the same accounts with the same rights, and
// the same notes in the audit log. Also if a policy of admission is about the updates. Only
// the managed fields differ: they do not name the approver and the signer.
func TestOneWriteEqualsThreeSteps(t *testing.T) {
	t.Run("alone", func(t *testing.T) { oneWriteEqualsThreeSteps(t, func(*fixture) {}) })
	t.Run("with a policy of admission", func(t *testing.T) { oneWriteEqualsThreeSteps(t, (*fixture).permitStatus) })
}

func oneWriteEqualsThreeSteps(t *testing.T, prepare func(*fixture)) {
	audited := filepath.Join(t.TempDir(), "audit.log")
	f := start(t, apitest.IssueOnCreate, auditTo(t, audited))
	f.policy("web", issueOnCreate)
	f.policy("step", func(s *v1alpha1.CertificatePolicySpec) {
		s.Certificate.Subject.CommonName.Patterns = []string{"step-*"}
		s.Approval = &v1alpha1.PolicyApproval{IssueOnCreate: ptr.To(false)}
	})
	equal := func(suffix string) {
		t.Helper()
		one, three := f.csr("web-"+suffix), f.csr("step-"+suffix)
		if len(one.Status.Certificate) == 0 || len(three.Status.Conditions) > 0 {
			t.Fatalf("%s: the answers have the status %+v and %+v", suffix, one.Status, three.Status)
		}
		apitest.Issued(t, f.api, three)
		three, err := f.api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), three.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range three.Status.Conditions {
			three.Status.Conditions[i].Message = strings.ReplaceAll(three.Status.Conditions[i].Message, `"step"`, `"web"`)
		}
		times := cmpopts.IgnoreTypes(metav1.Time{})
		if diff := gocmp.Diff(three.Status.Conditions, one.Status.Conditions, times); diff != "" {
			t.Errorf("%s: conditions (-three steps +one write):\n%s", suffix, diff)
		}
		if c := one.Status.Conditions[0]; c.LastUpdateTime.IsZero() || c.LastTransitionTime.IsZero() {
			t.Errorf("%s: the condition has no times: %+v", suffix, c)
		}
		creator := slices.DeleteFunc(three.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Subresource != "" })
		if diff := gocmp.Diff(creator, one.ManagedFields, times, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: managed fields (-three steps +one write):\n%s", suffix, diff)
		}
		apitest.Eventually(t, "the audit log has "+three.Name, func() bool { return len(readAudit(t, audited, three.Name).done) == 3 })
		want, got := readAudit(t, audited, three.Name), readAudit(t, audited, one.Name)
		if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(audit{})); diff != "" || len(got.notes) == 0 {
			t.Errorf("%s: audit log (-three steps +one write):\n%s", suffix, diff)
		}
	}
	prepare(f)
	equal("all")

	for _, tc := range []struct {
		account, update string
		approved        int
	}{
		{rights.Sign.Account, "certificatesigningrequests/status", 1},
		{rights.ApproveByPolicy.Account, "certificatesigningrequests/approval", 0},
	} {
		f.disarm(tc.account)
		f.server.Grant(t, accountPrefix+tc.account, apitest.Allow("update", tc.update))
		var last *certificatesv1.CertificateSigningRequest
		tries := 0
		apitest.Eventually(t, tc.account+" is refused", func() bool {
			tries++
			last = f.csr(fmt.Sprintf("web-%s-%d", tc.account, tries))
			return len(last.Status.Certificate) == 0
		})
		for _, name := range []string{last.Name, f.csr("step-" + tc.account).Name} {
			apitest.Eventually(t, tc.account+" is refused in steps, too", func() bool {
				return slices.Contains(readAudit(t, audited, name).refused, accountPrefix+tc.account)
			})
			stored, err := f.api.CertificatesV1().CertificateSigningRequests().Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || len(stored.Status.Conditions) != tc.approved || len(stored.Status.Certificate) > 0 {
				t.Errorf("without the right of %s, %s has the status %+v, %v", tc.account, name, stored.Status, err)
			}
		}
	}
}

// audit is what the audit log says about a request.
type audit struct {
	done    []string // users with verbs and subresources, also those within a creation
	refused []string // users
	notes   map[string]string
}

func readAudit(t *testing.T, path, name string) audit {
	t.Helper()
	log, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	found := audit{notes: map[string]string{}}
	for line := range bytes.Lines(log) {
		var event auditv1.Event
		if json.Unmarshal(line, &event) != nil || event.ObjectRef == nil || event.ObjectRef.Name != name || event.ResponseStatus == nil || event.Verb != "create" && event.Verb != "update" {
			continue
		}
		if code := event.ResponseStatus.Code; code >= 300 {
			if code == 403 {
				found.refused = append(found.refused, event.User.Username)
			}
			continue
		}
		found.done = append(found.done, event.User.Username+" "+event.Verb+" "+event.ObjectRef.Subresource)
		for _, part := range []string{"approval", "status"} {
			if by := event.Annotations["oncreate.certplane.dev/"+part]; by != "" {
				found.done = append(found.done, by+" update "+part)
			}
		}
		for key, value := range event.Annotations {
			if strings.HasPrefix(key, "policy.certplane.dev/") {
				found.notes[key] = strings.ReplaceAll(value, "step", "web")
			}
		}
	}
	return found
}

// permitStatus has a policy of admission permit all updates of the status and the approval
// of requests.
func (f *fixture) permitStatus() {
	f.Helper()
	f.create(&admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "permit"},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Update},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*/*"}},
				},
			}}},
			Validations: []admissionregistrationv1.Validation{{Expression: "true"}},
		},
	})
}
