package admission

import (
	"context"
	"fmt"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
)

type podRequest = certificatesv1beta1.PodCertificateRequest

// podObjects finds the objects to which PodCertificateRequests refer.
type podObjects struct {
	pods     corelisters.PodLister
	nodes    corelisters.NodeLister
	accounts corelisters.ServiceAccountLister
	live     kubernetes.Interface
}

func (o *podObjects) follow(shared informers.SharedInformerFactory) {
	core := shared.Core().V1()
	o.pods, o.nodes, o.accounts = core.Pods().Lister(), core.Nodes().Lister(), core.ServiceAccounts().Lister()
}

func (o *podObjects) ready() bool {
	return o.pods != nil && o.nodes != nil && o.accounts != nil && o.live != nil
}

// getters find objects by their names.
type getters struct {
	node    func(name string) (*corev1.Node, error)
	pod     func(namespace, name string) (*corev1.Pod, error)
	account func(namespace, name string) (*corev1.ServiceAccount, error)
}

// check compares a request with the objects to which it refers. If the
// informers do not confirm it, they may be behind, so the store decides.
func (o *podObjects) check(ctx context.Context, request *podRequest, a admission.Attributes) error {
	if o.cachedObjects().check(request, a) == nil {
		return nil
	}
	return o.storedObjects(ctx).check(request, a)
}

func (o *podObjects) cachedObjects() getters {
	return getters{
		node: o.nodes.Get,
		pod:  func(namespace, name string) (*corev1.Pod, error) { return o.pods.Pods(namespace).Get(name) },
		account: func(namespace, name string) (*corev1.ServiceAccount, error) {
			return o.accounts.ServiceAccounts(namespace).Get(name)
		},
	}
}

func (o *podObjects) storedObjects(ctx context.Context) getters {
	core := o.live.CoreV1()
	return getters{
		node: func(name string) (*corev1.Node, error) { return core.Nodes().Get(ctx, name, metav1.GetOptions{}) },
		pod: func(namespace, name string) (*corev1.Pod, error) {
			return core.Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		},
		account: func(namespace, name string) (*corev1.ServiceAccount, error) {
			return core.ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
		},
	}
}

// check verifies the facts: the node, the pod on it, and the pod's account must
// each be the object that exists now. A request that cannot become true is
// forbidden. If a later request can make it true, it is a conflict, after which
// clients try again.
func (g getters) check(request *podRequest, a admission.Attributes) error {
	spec, namespace := &request.Spec, a.GetNamespace()
	node, err := g.node(string(spec.NodeName))
	if err != nil {
		return missing(a, err)
	}
	if spec.NodeUID != node.UID {
		return stale(a, "spec.nodeUID is %q, but node %s has the UID %q", spec.NodeUID, node.Name, node.UID)
	}
	pod, err := g.pod(namespace, spec.PodName)
	if err != nil {
		return missing(a, err)
	}
	if spec.PodUID != pod.UID {
		return stale(a, "spec.podUID is %q, but pod %s has the UID %q", spec.PodUID, pod.Name, pod.UID)
	}
	if err := checkPod(request, pod, a); err != nil {
		return err
	}
	account, err := g.account(namespace, spec.ServiceAccountName)
	if err != nil {
		return missing(a, err)
	}
	if spec.ServiceAccountUID != account.UID {
		return stale(a, "spec.serviceAccountUID is %q, but service account %s has the UID %q", spec.ServiceAccountUID, account.Name, account.UID)
	}
	return nil
}

// checkPod compares the request with the pod that it names.
func checkPod(request *podRequest, pod *corev1.Pod, a admission.Attributes) error {
	spec := &request.Spec
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	switch {
	case pod.Spec.NodeName != string(spec.NodeName):
		return forbidden(a, "pod %s is not bound to node %q", pod.Name, spec.NodeName)
	case mirror:
		return forbidden(a, "pod %s is a mirror pod, which cannot have certificates", pod.Name)
	case pod.Spec.ServiceAccountName != spec.ServiceAccountName:
		return forbidden(a, "pod %s does not run as service account %q", pod.Name, spec.ServiceAccountName)
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		return forbidden(a, "pod %s has terminated and needs no certificate", pod.Name)
	case !declares(pod, spec):
		return forbidden(a, "pod %s declares no podCertificate source with this signerName, keyType and userAnnotations that lasts as long", pod.Name)
	}
	return nil
}

// missing explains why an object does not exist.
func missing(a admission.Attributes, err error) error {
	if apierrors.IsNotFound(err) {
		return stale(a, "%w", err)
	}
	return fmt.Errorf("checking the objects that a PodCertificateRequest names: %w", err)
}

// stale does not return a 403, after which nodes would give up.
func stale(a admission.Attributes, format string, args ...any) error {
	return apierrors.NewConflict(a.GetResource().GroupResource(), a.GetName(), fmt.Errorf(format, args...))
}
