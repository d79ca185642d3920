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
	// hostVerb lets a node register pods of a service account by itself, and
	// name ConfigMaps and Secrets in them. Whoever grants it for an account
	// makes the node a holder of that account: of its tokens, for any audience,
	// and of all certificates that signers have for it. It says nothing about
	// other accounts, of the same namespace or another.
	hostVerb = "host"
	// publicConfigMap is in every namespace, and no secret to anybody.
	publicConfigMap = "kube-root-ca.crt"
	// defaultAccount is that of a pod that names none.
	defaultAccount = "default"
)

// admitHosted lets a node register a pod that is no mirror: one that runs on
// its host without a kubelet, and needs an identity. By such a pod the node
// comes to read what the pod names, so it must have been granted each of it.
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

// mayHost asks for one object by its name: rules for a whole namespace say yes
// to it too, nothing says yes to an object of no name.
func (p *nodeRestriction) mayHost(ctx context.Context, a admission.Attributes, resource, name string) bool {
	decision, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: hostVerb, Namespace: a.GetNamespace(),
		APIVersion: "v1", Resource: resource, Name: name, ResourceRequest: true,
	})
	return err == nil && decision == authorizer.DecisionAllow
}
