package manifests

import (
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/trustmanager"
	"github.com/certplane/certplane/internal/frontend/admissionwebhook"
	"github.com/certplane/certplane/internal/run/cluster"
)

const (
	// webhookTimeout is how long API servers wait for an answer, in seconds.
	webhookTimeout = 10
	// signersTimeout is the timeout for Signers, which are stored when it is over.
	signersTimeout = 5
	// drainSeconds is how long a stopping pod still answers: API servers send
	// requests to it until they have learned that it stops.
	drainSeconds = 5
)

// webhookObjects are how API servers reach the webhook. They do not contain the
// CA: the webhook writes it, and applying the objects again must not remove it.
func webhookObjects(cfg cluster.Config) []runtime.Object {
	if !cfg.ServesWebhook() {
		return nil
	}
	objects := cfg.WebhookObjects()
	to := func(path string) admissionregistrationv1.WebhookClientConfig {
		return admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{
			Namespace: objects.Namespace, Name: objects.Service, Path: &path, Port: ptr.To(int32(443)),
		}}
	}
	made := []runtime.Object{&corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta(objects.Namespace, objects.Service),
		Spec: corev1.ServiceSpec{
			Selector: labels(),
			Ports:    []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString(webhookPort)}},
		},
	}}
	if len(cfg.Webhook.ClientCIDRs) > 0 {
		made = append(made, webhookNetwork(cfg))
	}
	var mutating []admissionregistrationv1.MutatingWebhook
	var validating []admissionregistrationv1.ValidatingWebhook
	if cfg.AdmitsCertManager() {
		mutating = append(mutating, mutatingWebhook(to(admissionwebhook.MutatePath)))
		validating = append(validating, validatingWebhook(to(admissionwebhook.ValidatePath)))
	}
	if cfg.AdmitsSigners() {
		validating = append(validating, signerWebhook(to(admissionwebhook.ValidatePath)), revocationWebhook(to(admissionwebhook.ValidatePath)))
		validating = append(validating, acmeWebhooks(to(admissionwebhook.ValidatePath))...)
	}
	if cfg.AdmitsBundles() {
		validating = append(validating, bundleWebhook(to(admissionwebhook.ValidatePath)))
	}
	if cfg.AdmitsTrustBundles() {
		validating = append(validating, trustBundleWebhook(to(admissionwebhook.ValidatePath)))
	}
	if cfg.AdmitsPolicies() {
		mutating = append(mutating, votingWebhook(to(admissionwebhook.MutateByPoliciesPath)), proposingWebhook(to(admissionwebhook.MutateByPoliciesPath)))
		validating = append(validating, policyWebhooks(to(admissionwebhook.ValidateByPoliciesPath), to(admissionwebhook.AnswerPath), cfg.Policy)...)
	}
	if len(mutating) > 0 {
		made = append(made, &admissionregistrationv1.MutatingWebhookConfiguration{
			TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "MutatingWebhookConfiguration"},
			ObjectMeta: meta("", objects.Configuration),
			Webhooks:   mutating,
		})
	}
	return append(made, &admissionregistrationv1.ValidatingWebhookConfiguration{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingWebhookConfiguration"},
		ObjectMeta: meta("", objects.Configuration),
		Webhooks:   validating,
	})
}

// webhookNetwork lets only API servers reach the webhook. The other ports stay
// open to all clients, as without the policy.
func webhookNetwork(cfg cluster.Config) *networkingv1.NetworkPolicy {
	var from []networkingv1.NetworkPolicyPeer
	for _, cidr := range cfg.Webhook.ClientCIDRs {
		from = append(from, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	at := func(address string) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromInt32(port(address)))}
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: meta(cfg.Namespace, cfg.WebhookObjects().Service),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: labels()},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{From: from, Ports: []networkingv1.NetworkPolicyPort{at(cfg.Webhook.BindAddress)}},
				{Ports: openPorts(cfg)},
			},
		},
	}
}

// openPorts are the ports that all clients may reach.
func openPorts(cfg cluster.Config) (open []networkingv1.NetworkPolicyPort) {
	addresses := []string{cfg.Metrics.BindAddress, cfg.Health.BindAddress}
	if cfg.Revocation.ServesLists() {
		addresses = append(addresses, cfg.Revocation.Listen)
	}
	for _, address := range addresses {
		open = append(open, networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromInt32(port(address)))})
	}
	return open
}

// mutatingWebhook records which user requests a certificate.
func mutatingWebhook(client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.MutatingWebhook {
	return changing(admissionwebhook.Name, client, admissionregistrationv1.Fail, rules(creating, "cert-manager.io", "v1", "certificaterequests"))
}

// validatingWebhook also checks the status, because requests are approved
// there.
func validatingWebhook(client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.ValidatingWebhook {
	return checking(admissionwebhook.Name, client, admissionregistrationv1.Fail, admissionregistrationv1.RuleWithOperations{
		Operations: writing,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{"cert-manager.io", "acme.cert-manager.io"}, APIVersions: []string{"v1"}, Resources: []string{"*/*"},
		},
	})
}

// bundleWebhook checks the specs of Bundles, as trust-manager's does.
func bundleWebhook(client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.ValidatingWebhook {
	return checking(admissionwebhook.BundleName, client, admissionregistrationv1.Fail, rules(writing, trustmanager.GroupName, trustmanager.GroupVersion.Version, trustmanager.Resource))
}

// trustBundleWebhook checks the authors of TrustBundles that write ClusterTrustBundles. Others are
// written while no pod answers.
func trustBundleWebhook(client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.ValidatingWebhook {
	hook := checking(admissionwebhook.TrustName, client, admissionregistrationv1.Fail, rules(writing, v1alpha1.GroupName, v1alpha1.GroupVersion.Version, "trustbundles"))
	hook.MatchConditions = []admissionregistrationv1.MatchCondition{{
		Name: "cluster-target", Expression: "has(object.spec.target) && has(object.spec.target.clusterTrustBundle)",
	}}
	return hook
}

// checking returns a webhook that refuses writes. failure is what its silence means.
func checking(name string, client admissionregistrationv1.WebhookClientConfig, failure admissionregistrationv1.FailurePolicyType, rules ...admissionregistrationv1.RuleWithOperations) admissionregistrationv1.ValidatingWebhook {
	return admissionregistrationv1.ValidatingWebhook{
		Name: name, ClientConfig: client, Rules: rules,
		FailurePolicy:           &failure,
		MatchPolicy:             ptr.To(admissionregistrationv1.Equivalent),
		SideEffects:             ptr.To(admissionregistrationv1.SideEffectClassNone),
		TimeoutSeconds:          ptr.To(int32(webhookTimeout)),
		AdmissionReviewVersions: []string{"v1"},
	}
}

// changing returns a webhook that changes what is written.
func changing(name string, client admissionregistrationv1.WebhookClientConfig, failure admissionregistrationv1.FailurePolicyType, rules ...admissionregistrationv1.RuleWithOperations) admissionregistrationv1.MutatingWebhook {
	like := checking(name, client, failure, rules...)
	return admissionregistrationv1.MutatingWebhook{
		Name: name, ClientConfig: client, Rules: rules, FailurePolicy: &failure, MatchPolicy: like.MatchPolicy, SideEffects: like.SideEffects,
		TimeoutSeconds: like.TimeoutSeconds, AdmissionReviewVersions: like.AdmissionReviewVersions,
	}
}

// signerWebhook checks the specs of Signers. Nothing depends on its answer: a
// Signer that it has not checked and that cannot work reports so in its status
// and signs nothing. So Signers can be written while no pod answers, also by
// controllers that have not started yet.
func signerWebhook(client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.ValidatingWebhook {
	signers := checking(admissionwebhook.SignerName, client, admissionregistrationv1.Ignore, rules(writing, v1alpha1.GroupName, v1alpha1.GroupVersion.Version, "signers"))
	signers.TimeoutSeconds = ptr.To(int32(signersTimeout))
	return signers
}

// revocationWebhook checks new Revocations, and refuses their deletion. An unchecked one could
// be of a user who may not revoke, so none is written while no pod answers.
func revocationWebhook(client admissionregistrationv1.WebhookClientConfig) admissionregistrationv1.ValidatingWebhook {
	return checking(admissionwebhook.RevocationName, client, admissionregistrationv1.Fail,
		rules([]admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update, admissionregistrationv1.Delete},
			v1alpha1.GroupName, v1alpha1.GroupVersion.Version, "revocations"))
}
