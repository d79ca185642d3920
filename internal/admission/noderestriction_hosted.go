package admission

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/internal/api/podrefs"
)

const (
	// hostVerb lets a node register its own pods of a service account, and name
	// ConfigMaps and Secrets in them. Granting it for an account gives the node
	// everything that the account has: its tokens, for any audience, and all
	// certificates that signers issue for it. It has no effect on other accounts, in
	// the same namespace or another.
	hostVerb = "host"
	// publicConfigMap exists in every namespace and is not secret.
	publicConfigMap = "kube-root-ca.crt"
	// defaultAccount is the service account of a pod that names none.
	defaultAccount = "default"
)

// admitHosted lets a node register a pod that is not a mirror pod: one that
// runs on its host without a kubelet and needs an identity. Such a pod lets the
// node read the objects that the pod names, so the node must have been granted
// each of them.
func (p *nodeRestriction) admitHosted(ctx context.Context, node string, pod *corev1.Pod, a admission.Attributes) error {
	account := cmp.Or(pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount, defaultAccount)
	if !p.mayHost(ctx, a, "serviceaccounts", account) {
		return forbidden(a, "pod does not have %q annotation, node %q can only create mirror pods, and pods of service accounts for which it has the verb %q: not %s/%s",
			corev1.MirrorPodAnnotationKey, node, hostVerb, a.GetNamespace(), account)
	}
	if err := p.admitOwnPod(node, pod, a); err != nil {
		return err
	}
	return p.admitHostedReferences(ctx, node, pod, a)
}

func (p *nodeRestriction) admitHostedReferences(ctx context.Context, node string, pod *corev1.Pod, a admission.Attributes) error {
	for name := range podrefs.Secrets(pod) {
		if !p.mayHost(ctx, a, "secrets", name) {
			return forbidden(a, "node %q needs the verb %q on secret %s/%s to create a pod that references it", node, hostVerb, a.GetNamespace(), name)
		}
	}
	for name := range podrefs.ConfigMaps(pod) {
		if name != publicConfigMap && !p.mayHost(ctx, a, "configmaps", name) {
			return forbidden(a, "node %q needs the verb %q on configmap %s/%s to create a pod that references it", node, hostVerb, a.GetNamespace(), name)
		}
	}
	if kind := claimed(pod); kind != "" {
		return forbidden(a, "node %q can not create pods that reference %s", node, kind)
	}
	return nil
}

// mayHost checks the right to one object by its name. A rule for a whole namespace
// allows it also, and no rule allows an object without a name.
func (p *nodeRestriction) mayHost(ctx context.Context, a admission.Attributes, resource, name string) bool {
	decision, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: hostVerb, Namespace: a.GetNamespace(),
		APIVersion: "v1", Resource: resource, Name: name, ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}
