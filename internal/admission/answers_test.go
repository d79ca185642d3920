package admission

import (
	"maps"
	"slices"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
)

// Whatever users configure that may be about an update of an approval has all plugins asked.
func TestAlone(t *testing.T) {
	rule := func(operation admissionregistrationv1.OperationType, group, resource string) admissionregistrationv1.RuleWithOperations {
		return admissionregistrationv1.RuleWithOperations{
			Operations: []admissionregistrationv1.OperationType{operation},
			Rule: admissionregistrationv1.Rule{
				APIGroups: []string{group}, APIVersions: []string{"v1beta1"}, Resources: []string{resource}, Scope: ptr.To(admissionregistrationv1.NamespacedScope),
			},
		}
	}
	about := rule("UPDATE", certificatesv1.GroupName, "certificatesigningrequests/approval")
	matching := func(r admissionregistrationv1.RuleWithOperations) *admissionregistrationv1.MatchResources {
		return &admissionregistrationv1.MatchResources{ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: r}}}
	}
	validating := func(r admissionregistrationv1.RuleWithOperations) runtime.Object {
		return &admissionregistrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "w"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{Rules: []admissionregistrationv1.RuleWithOperations{r}}},
		}
	}
	for reason, tc := range map[string]struct {
		object runtime.Object
		alone  bool
	}{
		"another subresource":  {validating(rule("UPDATE", certificatesv1.GroupName, "certificatesigningrequests/status")), true},
		"the resource itself":  {validating(rule("UPDATE", certificatesv1.GroupName, "certificatesigningrequests")), true},
		"creations":            {validating(rule("CREATE", certificatesv1.GroupName, "*/*")), true},
		"another group":        {validating(rule("UPDATE", "cert-manager.io", "*/*")), true},
		"a validating webhook": {validating(about), false},
		"all":                  {validating(rule("*", "*", "*/*")), false},
		"a mutating webhook": {&admissionregistrationv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "w"}, Webhooks: []admissionregistrationv1.MutatingWebhook{{Rules: []admissionregistrationv1.RuleWithOperations{about}}},
		}, false},
		"a validating policy": {&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{MatchConstraints: matching(about)},
		}, false},
		"a mutating policy": {&admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{MatchConstraints: matching(about)},
		}, false},
	} {
		p := &Plugins{answers: &answers{}, configured: &configured{plugins: slices.Collect(maps.Keys(configurable))}}
		shared := informers.NewSharedInformerFactory(fake.NewClientset(tc.object), 0)
		p.configured.SetExternalKubeInformerFactory(shared)
		resource := certificatesv1.Resource("certificatesigningrequests")
		if p.Alone(resource, "approval") != nil {
			t.Errorf("%s: what users configure is not known, but nobody asks", reason)
		}
		shared.Start(t.Context().Done())
		shared.WaitForCacheSync(t.Context().Done())
		if got := p.Alone(resource, "approval") != nil; got != tc.alone {
			t.Errorf("%s: alone %v, want %v", reason, got, tc.alone)
		}
	}
}
