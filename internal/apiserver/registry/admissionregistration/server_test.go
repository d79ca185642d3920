package admissionregistration_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/apitest"
)

type world struct {
	*apitest.Server
	admin kubernetes.Interface
}

func TestServer(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	w := world{Server: s, admin: apitest.Client(t, s.Admin(t))}
	t.Run("parts", w.testParts)
	t.Run("parameters", w.testParameters)
	t.Run("tables", w.testTables)
	t.Run("discovery", w.testDiscovery)
}

// policy refuses no request.
func policy(name string, params *v1.ParamKind) *v1.ValidatingAdmissionPolicy {
	return &v1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1.ValidatingAdmissionPolicySpec{
			ParamKind: params,
			MatchConstraints: &v1.MatchResources{ResourceRules: []v1.NamedRuleWithOperations{{RuleWithOperations: v1.RuleWithOperations{
				Operations: []v1.OperationType{v1.Create},
				Rule:       v1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Resources: []string{"things"}},
			}}}},
			Validations: []v1.Validation{{Expression: "true"}},
		},
	}
}

// testParts checks which users may write which part of a policy, and which
// changes a generation counts. Meanwhile the server writes the results of its
// type checking.
func (w world) testParts(t *testing.T) {
	policies := w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	made := policy("parts", nil)
	made.Status.ObservedGeneration = 7
	made, err := policies.Create(t.Context(), made, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Generation != 1 || made.Status.ObservedGeneration != 0 {
		t.Errorf("created with generation %d and status %+v", made.Generation, made.Status)
	}
	made, err = w.edit(t, "parts", policies.Update, func(p *v1.ValidatingAdmissionPolicy) {
		p.Spec.FailurePolicy = ptr.To(v1.Ignore)
		p.Status.ObservedGeneration = 7
	})
	if err != nil || made.Generation != 2 || made.Status.ObservedGeneration == 7 {
		t.Errorf("updated: %+v, %v", made, err)
	}
	made, err = w.edit(t, "parts", policies.UpdateStatus, func(p *v1.ValidatingAdmissionPolicy) {
		p.Spec.FailurePolicy = ptr.To(v1.Fail)
		p.Status.ObservedGeneration = 7
	})
	if err != nil || *made.Spec.FailurePolicy != v1.Ignore || made.Status.ObservedGeneration != 7 || made.Generation != 2 {
		t.Errorf("status written: %+v, %v", made, err)
	}
	_, err = w.edit(t, "parts", policies.UpdateStatus, func(p *v1.ValidatingAdmissionPolicy) {
		p.Status.TypeChecking = &v1.TypeChecking{ExpressionWarnings: []v1.ExpressionWarning{{FieldRef: "spec.validations[0].expression"}}}
	})
	if !apierrors.IsInvalid(err) {
		t.Errorf("an empty warning: %v", err)
	}
	_, err = w.edit(t, "parts", policies.Update, func(p *v1.ValidatingAdmissionPolicy) { p.ResourceVersion = "" })
	if !apierrors.IsInvalid(err) {
		t.Errorf("an update of no version: %v", err)
	}
	if _, err := policies.Patch(t.Context(), "parts", types.MergePatchType, []byte(`{"spec":{"validations":[{"expression":"object."}]}}`), metav1.PatchOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("an expression that is none: %v", err)
	}
}

// edit changes the current policy, and returns the server's answer.
func (w world) edit(t *testing.T, name string,
	write func(context.Context, *v1.ValidatingAdmissionPolicy, metav1.UpdateOptions) (*v1.ValidatingAdmissionPolicy, error),
	change func(*v1.ValidatingAdmissionPolicy),
) (*v1.ValidatingAdmissionPolicy, error) {
	t.Helper()
	var answer *v1.ValidatingAdmissionPolicy
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		p, err := w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		change(p)
		answer, err = write(t.Context(), p, metav1.UpdateOptions{})
		return err
	})
	return answer, err
}

// testParameters checks that users cannot read through a policy what they may
// not read themselves.
func (w world) testParameters(t *testing.T) {
	everything := rbacv1.PolicyRule{Verbs: []string{"*"}, APIGroups: []string{v1.GroupName}, Resources: []string{"*"}}
	w.Grant(t, "author", everything)
	w.Grant(t, "reader", everything, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"secrets"}})
	author, reader := apitest.Client(t, w.As(t, "author")).AdmissionregistrationV1(), apitest.Client(t, w.As(t, "reader")).AdmissionregistrationV1()

	secrets := policy("secrets", &v1.ParamKind{APIVersion: "v1", Kind: "Secret"})
	_, err := author.ValidatingAdmissionPolicies().Create(t.Context(), secrets, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.paramKind: Forbidden") {
		t.Errorf("a policy about secrets: %v", err)
	}
	if secrets, err = reader.ValidatingAdmissionPolicies().Create(t.Context(), secrets, metav1.CreateOptions{}); err != nil {
		t.Fatalf("a policy about secrets of somebody who reads them: %v", err)
	}
	_, err = w.edit(t, secrets.Name, author.ValidatingAdmissionPolicies().Update, func(p *v1.ValidatingAdmissionPolicy) {
		p.Labels = map[string]string{"edited": "by-author"}
	})
	if err != nil {
		t.Errorf("an update that does not touch the parameters: %v", err)
	}

	binding := &v1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "secrets"},
		Spec: v1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "secrets", ValidationActions: []v1.ValidationAction{v1.Deny},
			ParamRef: &v1.ParamRef{Name: "a", Namespace: "default", ParameterNotFoundAction: ptr.To(v1.AllowAction)},
		},
	}
	_, err = author.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "spec.paramRef: Forbidden") {
		t.Errorf("a binding to a secret: %v", err)
	}
	if _, err := reader.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Errorf("a binding to a secret of somebody who reads it: %v", err)
	}
	binding.Name, binding.Spec.PolicyName = "early", "not-there-yet"
	if _, err := reader.ValidatingAdmissionPolicyBindings().Create(t.Context(), binding, metav1.CreateOptions{}); !apierrors.IsInvalid(err) {
		t.Errorf("a binding to whatever a policy will make of it: %v", err)
	}
}

func (w world) testTables(t *testing.T) {
	c := &v1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "none"}}
	if _, err := w.admin.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(t.Context(), policy("tables", nil), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for object, want := range map[string]string{
		"validatingwebhookconfigurations/none": "Name=none Webhooks=0",
		"validatingadmissionpolicies/tables":   "Name=tables Validations=1 ParamKind=<unset>",
	} {
		raw, err := w.admin.Discovery().RESTClient().Get().AbsPath("/apis/admissionregistration.k8s.io/v1/"+object).
			SetHeader("Accept", "application/json;as=Table;g=meta.k8s.io;v=v1").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var table metav1.Table
		if err := json.Unmarshal(raw, &table); err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, column := range table.ColumnDefinitions {
			if cell, _ := json.Marshal(table.Rows[0].Cells[i]); column.Name != "Age" {
				got = append(got, column.Name+"="+strings.ReplaceAll(strings.Trim(string(cell), `"`), `\u003cunset\u003e`, "<unset>"))
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", object, diff)
		}
	}
}

func (w world) testDiscovery(t *testing.T) {
	list, err := w.admin.Discovery().ServerResourcesForGroupVersion("admissionregistration.k8s.io/v1")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list.APIResources {
		got = append(got, r.Name+" "+r.Kind+" "+strings.Join(r.Categories, ","))
	}
	want := []string{
		"mutatingadmissionpolicies MutatingAdmissionPolicy api-extensions",
		"mutatingadmissionpolicybindings MutatingAdmissionPolicyBinding api-extensions",
		"mutatingwebhookconfigurations MutatingWebhookConfiguration api-extensions",
		"validatingadmissionpolicies ValidatingAdmissionPolicy api-extensions",
		"validatingadmissionpolicies/status ValidatingAdmissionPolicy ",
		"validatingadmissionpolicybindings ValidatingAdmissionPolicyBinding api-extensions",
		"validatingwebhookconfigurations ValidatingWebhookConfiguration api-extensions",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resources (-want +got):\n%s", diff)
	}
}
