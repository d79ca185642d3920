package admission

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/internal/api/podrefs"
)

func (p *nodeRestriction) admitPods(ctx context.Context, node string, a admission.Attributes) error {
	switch a.GetSubresource() {
	case "":
		return p.admitPod(ctx, node, a)
	case "status":
		return admitPodStatus(node, a)
	case "eviction":
		return p.requireBound(node, a, "evict")
	}
	return forbidden(a, "unexpected pod subresource %q, only 'status' and 'eviction' are allowed", a.GetSubresource())
}

func (p *nodeRestriction) admitPod(ctx context.Context, node string, a admission.Attributes) error {
	switch a.GetOperation() {
	case admission.Create:
		return p.admitNewPod(ctx, node, a)
	case admission.Delete:
		return p.requireBound(node, a, "delete")
	}
	return forbidden(a, "unexpected operation %q, node %q can only create and delete mirror pods", a.GetOperation(), node)
}

// requireBound lets a node access only pods that are bound to it.
func (p *nodeRestriction) requireBound(node string, a admission.Attributes, verb string) error {
	pod, err := p.pods.Pods(a.GetNamespace()).Get(a.GetName())
	if apierrors.IsNotFound(err) {
		return err // perhaps not seen yet: the node tries again
	}
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if pod.Spec.NodeName != node {
		return forbidden(a, "node %q can only %s pods with spec.nodeName set to itself", node, verb)
	}
	return nil
}

func (p *nodeRestriction) admitNewPod(ctx context.Context, node string, a admission.Attributes) error {
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return unexpected(a)
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return p.admitMirror(node, pod, a)
	}
	return p.admitHosted(ctx, node, pod, a)
}

// admitOwnPod requires that the pod is bound to the node and owned by it.
func (p *nodeRestriction) admitOwnPod(node string, pod *corev1.Pod, a admission.Attributes) error {
	if pod.Spec.NodeName != node {
		return forbidden(a, "node %q can only create pods with spec.nodeName set to itself", node)
	}
	return p.admitPodOwner(node, pod, a)
}

// admitMirror lets a node create mirrors of its static pods. The node owns them, and
// they refer to no object that the node could read because of them.
func (p *nodeRestriction) admitMirror(node string, pod *corev1.Pod, a admission.Attributes) error {
	if err := p.admitOwnPod(node, pod, a); err != nil {
		return err
	}
	if kind := referenced(pod); kind != "" {
		return forbidden(a, "node %q can not create pods that reference %s", node, kind)
	}
	return nil
}

// admitPodOwner requires that the node, and no other object, owns the pod, so
// that the pod is deleted with the node.
func (p *nodeRestriction) admitPodOwner(node string, pod *corev1.Pod, a admission.Attributes) error {
	if len(pod.OwnerReferences) > 1 {
		return forbidden(a, "node %q can only create pods with a single owner reference set to itself", node)
	}
	if len(pod.OwnerReferences) == 0 {
		return forbidden(a, "node %q can only create pods with an owner reference set to itself", node)
	}
	owner := pod.OwnerReferences[0]
	if owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node {
		return forbidden(a, "node %q can only create pods with an owner reference set to itself", node)
	}
	if owner.Controller == nil || !*owner.Controller {
		return forbidden(a, "node %q can only create pods with a controller owner reference set to itself", node)
	}
	if owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
		return forbidden(a, "node %q must not set blockOwnerDeletion on an owner reference", node)
	}
	known, err := p.nodes.Get(node)
	if apierrors.IsNotFound(err) {
		return err // perhaps not seen yet: the node tries again
	}
	if err != nil {
		return forbidden(a, "error looking up node %q to verify uid: %w", node, err)
	}
	if owner.UID != known.UID {
		return forbidden(a, "node %s UID mismatch: expected %s got %s", node, owner.UID, known.UID)
	}
	return nil
}

// referenced returns the first kind of object that a pod refers to.
func referenced(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName != "" {
		return "serviceaccounts"
	}
	for range podrefs.Secrets(pod) {
		return "secrets"
	}
	for range podrefs.ConfigMaps(pod) {
		return "configmaps"
	}
	if kind := claimed(pod); kind != "" {
		return kind
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		if kind := referencedByProjection(volume.Projected.Sources); kind != "" {
			return kind
		}
	}
	return ""
}

// claimed returns the first kind of object that a pod claims for itself.
func claimed(pod *corev1.Pod) string {
	if len(pod.Spec.ResourceClaims) > 0 {
		return "resourceclaims"
	}
	for _, volume := range pod.Spec.Volumes {
		if volume.PersistentVolumeClaim != nil || volume.Ephemeral != nil {
			return "persistentvolumeclaims"
		}
	}
	return ""
}

func referencedByProjection(sources []corev1.VolumeProjection) string {
	for _, source := range sources {
		switch {
		case source.ServiceAccountToken != nil:
			return "serviceaccounts"
		case source.ClusterTrustBundle != nil:
			return "clustertrustbundles"
		case source.PodCertificate != nil:
			return "podcertificates"
		}
	}
	return ""
}

func admitPodStatus(node string, a admission.Attributes) error {
	if a.GetOperation() != admission.Update {
		return forbidden(a, "unexpected operation %q", a.GetOperation())
	}
	stored, ok := a.GetOldObject().(*corev1.Pod)
	if !ok {
		return unexpected(a)
	}
	pod, ok := a.GetObject().(*corev1.Pod)
	if !ok {
		return unexpected(a)
	}
	switch {
	case stored.Spec.NodeName != node:
		return forbidden(a, "node %q can only update pod status for pods with spec.nodeName set to itself", node)
	case !labels.Equals(stored.Labels, pod.Labels):
		return forbidden(a, "node %q cannot update labels through pod status", node)
	case !equality.Semantic.DeepEqual(stored.Status.ResourceClaimStatuses, pod.Status.ResourceClaimStatuses):
		return forbidden(a, "node %q cannot update resource claim statuses", node)
	}
	return nil
}

// audienceVerb lets an account get tokens for an audience that no pod names.
const audienceVerb = "request-serviceaccounts-token-audience"

// admitToken lets a node get tokens for the pods that are bound to it. The
// tokens end with the pod and are for the audiences that the pod names.
func (p *nodeRestriction) admitToken(ctx context.Context, node string, a admission.Attributes) error {
	if a.GetSubresource() != "token" || a.GetOperation() != admission.Create {
		return nil
	}
	request, ok := a.GetObject().(*authenticationv1.TokenRequest)
	if !ok {
		return unexpected(a)
	}
	ref := request.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return forbidden(a, "node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return forbidden(a, "node requested token with a pod binding without a uid")
	}
	pod, err := p.pods.Pods(a.GetNamespace()).Get(ref.Name)
	if apierrors.IsNotFound(err) {
		return err // perhaps not seen yet: the node tries again
	}
	if err != nil {
		return admission.NewForbidden(a, err)
	}
	if ref.UID != pod.UID {
		return forbidden(a, "the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	}
	if pod.Spec.NodeName != node {
		return forbidden(a, "node requested token bound to a pod scheduled on a different node")
	}
	return p.admitAudience(ctx, request.Spec.Audiences, pod, a)
}

func (p *nodeRestriction) admitAudience(ctx context.Context, audiences []string, pod *corev1.Pod, a admission.Attributes) error {
	if len(audiences) > 1 {
		return forbidden(a, "node may only request 0 or 1 audiences")
	}
	audience := "" // the audience of the server itself
	if len(audiences) == 1 {
		audience = audiences[0]
	}
	if namesAudience(pod, audience) {
		return nil
	}
	decision, _, err := p.authz.Authorize(ctx, authorizer.AttributesRecord{
		User: a.GetUserInfo(), Verb: audienceVerb, Namespace: a.GetNamespace(),
		APIVersion: "v1", Resource: audience, Name: a.GetName(), ResourceRequest: true,
	})
	if err != nil || decision != authorizer.DecisionAllow {
		return forbidden(a, "audience %q not found in pod spec volume, %s is not authorized to request tokens for this audience", audience, a.GetUserInfo().GetName())
	}
	return nil
}

func namesAudience(pod *corev1.Pod, audience string) bool {
	for _, volume := range pod.Spec.Volumes {
		if volume.Projected == nil {
			continue
		}
		for _, source := range volume.Projected.Sources {
			if source.ServiceAccountToken != nil && source.ServiceAccountToken.Audience == audience {
				return true
			}
		}
	}
	return false
}
