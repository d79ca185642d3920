package bootstrap

import (
	certificatesv1 "k8s.io/api/certificates/v1"
	rbacv1 "k8s.io/api/rbac/v1"
)

// legacyUnknown is the signer of requests from before signers had names. No
// new request can ask for it.
const legacyUnknown = "kubernetes.io/legacy-unknown"

// apiServerServing is the signer of the API server's own certificate. It takes
// no requests: it only has roots.
const apiServerServing = "kubernetes.io/kube-apiserver-serving"

// certificateRoles are for those who ask for certificates and those who
// approve them. An approver needs another role too, to read requests and to
// update their approval.
func certificateRoles() []role {
	roles := []role{
		{name: "system:node-bootstrapper", rules: []rbacv1.PolicyRule{
			allow("create "+read, certificates, "certificatesigningrequests"),
		}},
		// The automatic approver asks whether the requester may create these:
		// there is nothing else behind the two subresources.
		{name: "system:certificates.k8s.io:certificatesigningrequests:nodeclient", rules: []rbacv1.PolicyRule{
			allow("create", certificates, "certificatesigningrequests/nodeclient"),
		}},
		{name: "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient", rules: []rbacv1.PolicyRule{
			allow("create", certificates, "certificatesigningrequests/selfnodeclient"),
		}},
	}
	for _, approver := range []struct{ name, signer string }{
		{"legacy-unknown-approver", legacyUnknown},
		{"kubelet-serving-approver", certificatesv1.KubeletServingSignerName},
		{"kube-apiserver-client-approver", certificatesv1.KubeAPIServerClientSignerName},
		{"kube-apiserver-client-kubelet-approver", certificatesv1.KubeAPIServerClientKubeletSignerName},
	} {
		roles = append(roles, role{name: "system:certificates.k8s.io:" + approver.name, rules: []rbacv1.PolicyRule{
			allowOn("approve", certificates, "signers", approver.signer),
		}})
	}
	return roles
}
