package manifests_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/run/cluster"
)

// The webhook is registered as cert-manager's is: clients know its name, and an
// object that bypasses it has not been checked.
func TestWebhookRegistration(t *testing.T) {
	all := objects(t, config(withCertManager))
	mutating := find[*admissionregistrationv1.MutatingWebhookConfiguration](all)[0].Webhooks[0]
	validating := find[*admissionregistrationv1.ValidatingWebhookConfiguration](all)[0].Webhooks[0]
	if diff := cmp.Diff(mutating.Rules, []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"CREATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"cert-manager.io"}, APIVersions: []string{"v1"}, Resources: []string{"certificaterequests"}},
	}}); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(validating.Rules, []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"cert-manager.io", "acme.cert-manager.io"}, APIVersions: []string{"v1"}, Resources: []string{"*/*"}},
	}}); diff != "" {
		t.Error(diff)
	}
	for _, got := range []admissionregistrationv1.ValidatingWebhook{validating, {
		Name: mutating.Name, FailurePolicy: mutating.FailurePolicy, MatchPolicy: mutating.MatchPolicy, SideEffects: mutating.SideEffects,
		TimeoutSeconds: mutating.TimeoutSeconds, AdmissionReviewVersions: mutating.AdmissionReviewVersions, ClientConfig: mutating.ClientConfig,
	}} {
		if got.Name != "webhook.cert-manager.io" || *got.FailurePolicy != "Fail" || *got.MatchPolicy != "Equivalent" || *got.SideEffects != "None" ||
			*got.TimeoutSeconds != 10 || !slices.Equal(got.AdmissionReviewVersions, []string{"v1"}) || got.NamespaceSelector != nil {
			t.Errorf("%+v", got)
		}
		if service := got.ClientConfig.Service; service.Name != "certplane-webhook" || service.Namespace != "certplane-system" || got.ClientConfig.CABundle != nil {
			t.Errorf("reached by %+v", got.ClientConfig)
		}
	}
}

// Signers are checked where their controllers run, with or without those of
// cert-manager.io, and can be written while the webhook does not answer.
func TestSignersWebhook(t *testing.T) {
	want := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{"CREATE", "UPDATE"},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{"certplane.dev"}, APIVersions: []string{"v1alpha1"}, Resources: []string{"signers"}},
	}}
	for _, choice := range [][]string{{"*"}, {"*", "certificates"}} {
		all := objects(t, config(func(c *cluster.Config) { c.Controllers = choice }))
		webhooks := find[*admissionregistrationv1.ValidatingWebhookConfiguration](all)[0].Webhooks
		i := slices.IndexFunc(webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == "webhook.certplane.dev" })
		if i < 0 || len(webhooks) != len(choice)+8 {
			t.Fatalf("%v: %+v", choice, webhooks)
		}
		if diff := cmp.Diff(webhooks[i].Rules, want); diff != "" {
			t.Errorf("%v: %s", choice, diff)
		}
		if got := webhooks[i]; *got.FailurePolicy != "Ignore" || *got.TimeoutSeconds != 5 || *got.SideEffects != "None" || *got.ClientConfig.Service.Path != "/validate" || got.ClientConfig.CABundle != nil {
			t.Errorf("%v: %+v", choice, got)
		}
		if !mayListSigners(all) {
			t.Errorf("%v: the webhook cannot find other Signers", choice)
		}
	}
	without := objects(t, config(func(c *cluster.Config) { c.Controllers = []string{"certificates"} }))
	if webhooks := find[*admissionregistrationv1.ValidatingWebhookConfiguration](without)[0].Webhooks; len(webhooks) != 1 || mayListSigners(without) {
		t.Errorf("without the controller there is %+v", webhooks)
	}
}

// Policies cannot be written unchecked; new requests go on while the webhook does
// not answer, and so do approvals until there are policies about them, also those of
// kubelets that it may need to run. Why policies are overridden cannot be said then.
func TestPolicyWebhooks(t *testing.T) {
	all := objects(t, config(nil))
	want := map[string]admissionregistrationv1.FailurePolicyType{"policies.certplane.dev": "Fail", "approvals.certplane.dev": "Ignore", "governed.certplane.dev": "Fail", "requests.certplane.dev": "Ignore", "overrides.certplane.dev": "Fail"}
	for _, got := range find[*admissionregistrationv1.ValidatingWebhookConfiguration](all)[0].Webhooks {
		failure, ok := want[got.Name]
		path := "/policies/validate"
		if got.Name == "governed.certplane.dev" {
			path = "/policies/answer"
		}
		if delete(want, got.Name); ok && (*got.FailurePolicy != failure || *got.ClientConfig.Service.Path != path) {
			t.Errorf("%+v", got)
		}
		if called := len(got.Rules) > 0; called == (got.Name == "governed.certplane.dev") {
			t.Errorf("%s is called for %+v before there are policies", got.Name, got.Rules)
		}
		if counts := got.Name == "approvals.certplane.dev"; counts != (*got.SideEffects == admissionregistrationv1.SideEffectClassNoneOnDryRun) {
			t.Errorf("the side effects of %s are %s", got.Name, *got.SideEffects)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing: %v", want)
	}
	mutating := find[*admissionregistrationv1.MutatingWebhookConfiguration](all)[0].Webhooks
	var names []string
	for _, got := range mutating {
		if names = append(names, got.Name+" "+string(*got.FailurePolicy)); *got.ClientConfig.Service.Path != "/policies/mutate" {
			t.Errorf("%+v", got)
		}
	}
	if want := []string{"approvals.certplane.dev Ignore", "policies.certplane.dev Fail"}; !slices.Equal(names, want) {
		t.Errorf("those that change objects are %q, want %q", names, want)
	}
}

// Certificates come to the webhook when they are new or their spec changes, if
// their authors are told anything.
func TestCertificatesComeToTheWebhook(t *testing.T) {
	for choice, want := range map[policies.CertificateChecks]bool{policies.CertificatesWarn: true, policies.CertificatesRefuse: true, policies.CertificatesOff: false} {
		all := objects(t, config(func(c *cluster.Config) { c.Policy.Certificates = choice }))
		webhooks := find[*admissionregistrationv1.ValidatingWebhookConfiguration](all)[0].Webhooks
		requests := webhooks[slices.IndexFunc(webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == "requests.certplane.dev" })]
		got := slices.ContainsFunc(requests.Rules, func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Equal(r.Resources, []string{"certificates"}) && len(r.Operations) == 2
		})
		if got != want || (len(requests.MatchConditions) == 2) != want {
			t.Errorf("%s: %+v", choice, requests)
		}
	}
}

// What signers of others write for pods comes to the webhook if it is checked.
func TestAnswersForPodsComeToTheWebhook(t *testing.T) {
	for _, checked := range []bool{true, false} {
		all := objects(t, config(func(c *cluster.Config) { c.Policy.CheckIssued = checked }))
		isForPods := func(r admissionregistrationv1.RuleWithOperations) bool {
			return slices.Contains(r.Resources, "podcertificaterequests/status")
		}
		webhooks := find[*admissionregistrationv1.ValidatingWebhookConfiguration](all)[0].Webhooks
		approvals := webhooks[slices.IndexFunc(webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool { return w.Name == "approvals.certplane.dev" })]
		if slices.ContainsFunc(approvals.Rules, isForPods) != checked {
			t.Errorf("checked %v: %+v", checked, approvals.Rules)
		}
		if voting := find[*admissionregistrationv1.MutatingWebhookConfiguration](all)[0].Webhooks[0]; slices.ContainsFunc(voting.Rules, isForPods) {
			t.Errorf("nobody approves requests of pods: %+v", voting.Rules)
		}
	}
}

func mayListSigners(all []runtime.Object) bool {
	roles := find[*rbacv1.ClusterRole](all)
	i := slices.IndexFunc(roles, func(r *rbacv1.ClusterRole) bool { return strings.HasSuffix(r.Name, ":cert-manager-webhook") })
	return slices.ContainsFunc(roles[i].Rules, listsSigners)
}

func listsSigners(rule rbacv1.PolicyRule) bool {
	return slices.Equal(rule.APIGroups, []string{"certplane.dev"}) && slices.Equal(rule.Resources, []string{"signers"}) && slices.Equal(rule.Verbs, []string{"list"})
}

// Its service leads to the port that it listens on.
func TestWebhookService(t *testing.T) {
	all := objects(t, config(withCertManager))
	services := find[*corev1.Service](all)
	i := slices.IndexFunc(services, func(s *corev1.Service) bool { return s.Name == "certplane-webhook" })
	container := find[*appsv1.Deployment](all)[0].Spec.Template.Spec.Containers[0]
	j := slices.IndexFunc(container.Ports, func(p corev1.ContainerPort) bool { return p.Name == services[i].Spec.Ports[0].TargetPort.StrVal })
	if services[i].Spec.Ports[0].Port != 443 || container.Ports[j].ContainerPort != 10250 {
		t.Errorf("%+v leads to %+v", services[i].Spec, container.Ports)
	}
	if config := find[*corev1.ConfigMap](all)[0].Data["config.yaml"]; !strings.Contains(config, "webhook:\n  bindAddress: :10250\n") {
		t.Errorf("it listens elsewhere:\n%s", config)
	}
	if container.Lifecycle.PreStop.Sleep.Seconds <= 0 {
		t.Error("a pod that stops answers nobody who has not heard of it")
	}
}

// It may change its own Secrets, ConfigMap and configurations, and no others, in any
// namespace.
func TestWebhookRights(t *testing.T) {
	all := objects(t, config(func(c *cluster.Config) { withCertManager(c); c.Namespace = "pki" }))
	role := find[*rbacv1.Role](all)
	i := slices.IndexFunc(role, func(r *rbacv1.Role) bool { return r.Name == "cert-manager-webhook" })
	for _, rule := range role[i].Rules {
		if named := slices.Equal(rule.ResourceNames, []string{"certplane-webhook", "certplane-approval-seal"}) || slices.Equal(rule.ResourceNames, []string{"certplane-approval-keys"}); !named && !slices.Equal(rule.Verbs, []string{"create"}) {
			t.Errorf("%v of any of %v", rule.Verbs, rule.Resources)
		}
	}
	clusterRoles := find[*rbacv1.ClusterRole](all)
	i = slices.IndexFunc(clusterRoles, func(r *rbacv1.ClusterRole) bool { return r.Name == "pki:cert-manager-webhook" })
	for _, rule := range clusterRoles[i].Rules {
		review := slices.Equal(rule.Resources, []string{"subjectaccessreviews"}) && slices.Equal(rule.Verbs, []string{"create"})
		if !review && !listsSigners(rule) && !slices.Equal(rule.ResourceNames, []string{"certplane-webhook.pki"}) {
			t.Errorf("it may %v all of %v", rule.Verbs, rule.Resources)
		}
	}
}
