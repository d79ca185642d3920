package typecheck_test

import (
	"strings"
	"testing"

	v1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/apitest"
)

func TestStatusOfPolicies(t *testing.T) {
	s := apitest.Start(t)
	policies := apitest.Client(t, s.Admin(t)).AdmissionregistrationV1().ValidatingAdmissionPolicies()
	policy := &v1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: v1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &v1.MatchResources{ResourceRules: []v1.NamedRuleWithOperations{{RuleWithOperations: v1.RuleWithOperations{
				Operations: []v1.OperationType{v1.Create},
				Rule:       v1.Rule{APIGroups: []string{"certificates.k8s.io"}, APIVersions: []string{"v1"}, Resources: []string{"certificatesigningrequests"}},
			}}}},
			Validations: []v1.Validation{
				{Expression: "object.spec.signerName != ''"},
				{Expression: "object.spec.nosuch == 1"},
			},
		},
	}
	policy, err := policies.Create(t.Context(), policy, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	checked := func() *v1.ValidatingAdmissionPolicy {
		apitest.Eventually(t, "the policy is checked", func() bool {
			policy, err = policies.Get(t.Context(), "p", metav1.GetOptions{})
			return err == nil && policy.Status.ObservedGeneration == policy.Generation
		})
		return policy
	}
	warnings := checked().Status.TypeChecking.ExpressionWarnings
	if len(warnings) != 1 || warnings[0].FieldRef != "spec.validations[1].expression" || !strings.Contains(warnings[0].Warning, "undefined field 'nosuch'") {
		t.Errorf("warnings of the first generation: %+v", warnings)
	}

	policy.Spec.Validations = policy.Spec.Validations[:1]
	if policy, err = policies.Update(t.Context(), policy, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := checked().Status; got.ObservedGeneration != 2 || got.TypeChecking != nil && len(got.TypeChecking.ExpressionWarnings) != 0 {
		t.Errorf("status of the second generation: %+v", got)
	}
}
