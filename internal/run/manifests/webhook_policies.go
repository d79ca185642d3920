package manifests

import (
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policies"
)

// rules returns the rule for an operation on resources of one version.
func rules(operations []admissionregistrationv1.OperationType, group, version string, resources ...string) admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources},
	}
}

var (
	creating = []admissionregistrationv1.OperationType{admissionregistrationv1.Create}
	updating = []admissionregistrationv1.OperationType{admissionregistrationv1.Update}
	deleting = []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
	writing  = []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update}

	// approvals are the writes that approve requests. Writes of the status can also add the
	// certificate.
	approvals = []admissionregistrationv1.RuleWithOperations{
		rules(updating, certificatesv1.GroupName, "v1", "certificatesigningrequests/approval", "certificatesigningrequests/status"),
		rules(updating, cmv1.SchemeGroupVersion.Group, "v1", "certificaterequests/status"),
	}
)

// votingWebhook turns approvals that need more people into votes. It is called for all signers.
// If it does not answer, approvals are written as they are sent. GovernedWebhook, which decides
// nothing and fails closed, then refuses approvals of requests that policies select, and other
// approvals are decided again before the request is signed.
func votingWebhook(client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.MutatingWebhook {
	return changing(policies.ApprovalsWebhook, client, admissionregistrationv1.Ignore, approvals...)
}

// proposingWebhook turns changes of policies that need more people into proposals. The
// webhook that checks policies refuses changes that proposingWebhook has not seen.
func proposingWebhook(client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.MutatingWebhook {
	return changing(policies.PoliciesWebhook, client, admissionregistrationv1.Fail, ofPolicies(writing))
}

// ofPolicies returns the rule for an operation on policies and exceptions.
func ofPolicies(operations []admissionregistrationv1.OperationType) admissionregistrationv1.RuleWithOperations {
	return rules(operations, v1alpha1.GroupName, v1alpha1.GroupVersion.Version, "certificatepolicies", "certificatepolicyexceptions")
}

// policyWebhooks refuse writes that policies forbid, and policies that cannot be evaluated
// or that grant more than their author may. They include the policies of approver-policy if
// these are enforced.
func policyWebhooks(client, answer admissionregistrationv1.WebhookClientConfig, settings policies.Settings) []admissionregistrationv1.ValidatingWebhook {
	requests := checking(policies.RequestsWebhook, client, admissionregistrationv1.Ignore,
		rules(creating, certificatesv1.GroupName, "v1", "certificatesigningrequests"),
		rules(creating, cmv1.SchemeGroupVersion.Group, "v1", "certificaterequests"))
	requests.MatchConditions = []admissionregistrationv1.MatchCondition{{
		Name: "not-of-kubelets",
		Expression: "!has(object.spec.signerName) || !(object.spec.signerName in ['" +
			certificatesv1.KubeletServingSignerName + "', '" + certificatesv1.KubeAPIServerClientKubeletSignerName + "'])",
	}}
	// An unchecked annotation could turn an approval into one that overrides policies.
	overrides := checking(policies.OverridesWebhook, client, admissionregistrationv1.Fail,
		rules(writing, certificatesv1.GroupName, "v1", "certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"),
		rules(writing, cmv1.SchemeGroupVersion.Group, "v1", "certificaterequests"))
	overrides.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "sets-override", Expression: setsOverride}}
	if settings.Certificates != policies.CertificatesOff {
		requests.Rules = append(requests.Rules, rules(writing, cmv1.SchemeGroupVersion.Group, "v1", "certificates"))
		requests.MatchConditions = append(requests.MatchConditions, admissionregistrationv1.MatchCondition{
			Name: "new-or-another-spec", Expression: "request.operation != 'UPDATE' || object.spec != oldObject.spec",
		})
	}
	// Policies that are not protected can be deleted while no webhook answers.
	written := checking(policies.PoliciesWebhook, client, admissionregistrationv1.Fail, ofPolicies(writing), ofPolicies(deleting))
	written.MatchConditions = []admissionregistrationv1.MatchCondition{{
		Name:       "not-the-deletion-of-what-is-not-protected",
		Expression: "request.operation != 'DELETE' || request.resource.resource != 'certificatepolicies' || has(oldObject.spec) && has(oldObject.spec.protection)",
	}}
	if settings.CertificateRequestPolicies {
		written.Rules = append(written.Rules, rules(writing, approverpolicy.GroupName, approverpolicy.GroupVersion.Version, approverpolicy.Resource))
	}
	answers := slices.Clone(approvals)
	if settings.CheckIssued {
		for _, version := range []string{"v1", "v1beta1"} {
			answers = append(answers, rules(updating, certificatesv1.GroupName, version, "podcertificaterequests/status"))
		}
	}
	approved := checking(policies.ApprovalsWebhook, client, admissionregistrationv1.Ignore, answers...)
	approved.SideEffects = ptr.To(admissionregistrationv1.SideEffectClassNoneOnDryRun) // quotas are counted
	// The webhook itself writes its rules, from the existing policies.
	governed := checking(policies.GovernedWebhook, client, admissionregistrationv1.Fail)
	governed.ClientConfig = answer
	return []admissionregistrationv1.ValidatingWebhook{
		written,
		approved,
		governed,
		requests,
		overrides,
	}
}

// setsOverride is true for writes that add or change the annotation with the reason for
// overriding policies.
const setsOverride = "has(object.metadata.annotations) && '" + v1alpha1.AnnotationOverride + "' in object.metadata.annotations && " +
	"(oldObject == null || !has(oldObject.metadata.annotations) || !('" + v1alpha1.AnnotationOverride + "' in oldObject.metadata.annotations) || " +
	"oldObject.metadata.annotations['" + v1alpha1.AnnotationOverride + "'] != object.metadata.annotations['" + v1alpha1.AnnotationOverride + "'])"
