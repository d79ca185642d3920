package manifests

import (
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/frontend/admissionwebhook"
	"github.com/certplane/certplane/internal/run/cluster"
)

const (
	// acmeService is the name of the Service of the ACME server, acmePort that of its
	// port in containers, rootsPort that of its roots.
	acmeService = "certplane-acme"
	acmePort    = "acme"
	rootsPort   = "acme-roots"
	// acmeSecret has the files of the ACME server's certificate. The administrator
	// creates it, or a Certificate.
	acmeSecret = "certplane-acme-tls"
	// affinitySeconds is for how long the requests of a client reach the same pod, which
	// redeems the nonces that it has given out without asking another one.
	affinitySeconds = 3600
)

// acmeObjects are how clients reach the ACME server: within the cluster, where an
// Ingress or a Service of the administrator passes connections on without ending TLS.
func acmeObjects(cfg cluster.Config) []runtime.Object {
	if !cfg.ServesACME() {
		return nil
	}
	ports := []corev1.ServicePort{{Name: "https", Port: 443, TargetPort: intstr.FromString(acmePort)}}
	if cfg.ACMEServer.ServesRoots() {
		ports = append(ports, corev1.ServicePort{Name: "roots", Port: 80, TargetPort: intstr.FromString(rootsPort)})
	}
	objects := []runtime.Object{&corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta(cfg.Namespace, acmeService),
		Spec: corev1.ServiceSpec{
			Selector:              labels(),
			Ports:                 ports,
			SessionAffinity:       corev1.ServiceAffinityClientIP,
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: ptr.To(int32(affinitySeconds))}},
		},
	}}
	if len(cfg.ACMEServer.ClientAddresses)+len(cfg.Webhook.ClientCIDRs) > 0 {
		objects = append(objects, acmeNetwork(cfg))
	}
	return objects
}

// acmeNetwork lets only clients, proxies and its own pods reach the ACME server. It allows
// the other ports explicitly, because a policy for a pod closes all ports that it does not
// allow.
func acmeNetwork(cfg cluster.Config) *networkingv1.NetworkPolicy {
	var from []networkingv1.NetworkPolicyPeer
	if len(cfg.ACMEServer.ClientAddresses) > 0 {
		for _, cidr := range slices.Concat(cfg.ACMEServer.ClientAddresses, cfg.ACMEServer.TrustedProxies) {
			from = append(from, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
		}
		// The pods redeem each other's nonces.
		from = append(from, networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: labels()}})
	}
	at := func(address string) networkingv1.NetworkPolicyPort {
		return networkingv1.NetworkPolicyPort{Port: ptr.To(intstr.FromInt32(port(address)))}
	}
	served := []networkingv1.NetworkPolicyPort{at(cfg.ACMEServer.Listen)}
	if cfg.ACMEServer.ServesRoots() {
		served = append(served, at(cfg.ACMEServer.RootsListen))
	}
	others := openPorts(cfg)
	if cfg.ServesWebhook() && len(cfg.Webhook.ClientCIDRs) == 0 {
		others = append(others, at(cfg.Webhook.BindAddress))
	}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: meta(cfg.Namespace, acmeService),
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: labels()},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{From: from, Ports: served},
				{Ports: others},
			},
		},
	}
}

// writesAsServer is false for writes of the ACME server's objects by users with the verb
// serve: the API server checks that right, so that the server's own writes need no webhook.
// Decisions about accounts need another right. Requests for objects themselves lack
// subResource; it is not an empty string.
const writesAsServer = "!(request.resource.resource in ['acmeaccountkeys', 'acmeorders'] || request.resource.resource == 'acmeaccounts' && has(request.subResource) && request.subResource == 'status') || " +
	"!authorizer.group('" + v1alpha1.GroupName + "').resource('acmeendpoints').name((oldObject == null ? object : oldObject).spec.endpoint).check('serve').allowed()"

// acmeWebhooks refuse what would give users certificates that they have no right to:
// without an answer, nothing is stored. Deletions only have a warning.
func acmeWebhooks(client admissionregistrationv1.WebhookClientConfig) []admissionregistrationv1.ValidatingWebhook {
	version := v1alpha1.GroupVersion.Version
	written := checking(admissionwebhook.ACMEName, client, admissionregistrationv1.Fail, rules(writing, v1alpha1.GroupName, version,
		"acmeaccountkeys", "acmeaccounts", "acmeaccounts/status", "acmeendpoints", "acmeexternalkeys", "acmeorders", "acmeorders/status"))
	written.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "not-by-the-acme-server", Expression: writesAsServer}}
	return []admissionregistrationv1.ValidatingWebhook{
		written,
		checking("deletions."+admissionwebhook.ACMEName, client, admissionregistrationv1.Ignore, rules(deleting, v1alpha1.GroupName, version, "acmeaccounts")),
	}
}
