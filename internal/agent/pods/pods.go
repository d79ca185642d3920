// Package pods registers a host's manifests as Pods.
package pods

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/agent/objects"
	"github.com/certplane/certplane/internal/api/agenthost"
)

// Registry is the Pods of one node.
type Registry struct {
	client kubernetes.Interface
	node   string
	bound  *objects.Follower[corev1.Pod]
}

// Config is the configuration of a Registry.
type Config struct {
	// Node is the name of the node.
	Node      string
	Client    kubernetes.Interface
	Discovery discovery.DiscoveryInterface
	Dynamic   dynamic.Interface
	// Changed is called with each Pod of the node that changes.
	Changed func(types.NamespacedName)
}

// New returns a registry. Its watch ends with ctx.
func New(ctx context.Context, cfg Config) *Registry {
	return &Registry{client: cfg.Client, node: cfg.Node, bound: objects.New(ctx, objects.Kind[corev1.Pod]{
		Resource: "pods", Versions: []schema.GroupVersion{corev1.SchemeGroupVersion},
		FieldSelector: "spec.nodeName=" + cfg.Node,
		Changed:       func(p *corev1.Pod) { cfg.Changed(types.NamespacedName{Namespace: p.Namespace, Name: p.Name}) },
	}, cfg.Discovery, cfg.Dynamic)}
}

// Name returns the name of a manifest's Pod in the API. As in the names of
// static pods, the node is part of it, because many hosts may have the same
// manifest.
func (r *Registry) Name(manifest string) string { return manifest + "-" + r.node }

// Register returns the Pod of a manifest, and creates it if it does not exist.
// A Pod cannot be changed: the Pod of an older manifest, or of a former Node,
// is replaced.
func (r *Registry) Register(ctx context.Context, manifest manifests.Pod, node *corev1.Node) (*corev1.Pod, error) {
	wanted := r.object(manifest, node)
	found, err := r.bound.Get(ctx, wanted.Namespace, wanted.Name)
	if err != nil {
		return nil, err
	}
	if found != nil && same(found, wanted) {
		return found, nil
	}
	// The local copy of the API's objects can be out of date.
	if found, err = r.bound.Find(ctx, wanted.Namespace, wanted.Name); err != nil {
		return nil, fmt.Errorf("looking for pod %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	switch {
	case found == nil:
		return r.create(ctx, wanted)
	case same(found, wanted):
		return found, nil
	case found.Annotations[agenthost.ManifestAnnotation] == "":
		return nil, fmt.Errorf("pod %s/%s exists on this node already and was not created by this agent", found.Namespace, found.Name)
	}
	if err := r.Remove(ctx, found); err != nil {
		return nil, err
	}
	return r.create(ctx, wanted)
}

func (r *Registry) create(ctx context.Context, wanted *corev1.Pod) (*corev1.Pod, error) {
	created, err := r.client.CoreV1().Pods(wanted.Namespace).Create(ctx, wanted, metav1.CreateOptions{})
	if apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("registering pod %s/%s: %w (to let this host have the service account, bind a role with the verb \"host\" on it to user system:node:%s)",
			wanted.Namespace, wanted.Name, err, r.node)
	}
	if err != nil {
		return nil, fmt.Errorf("registering pod %s/%s: %w", wanted.Namespace, wanted.Name, err)
	}
	return created, nil
}

// same reports whether a Pod is the wanted one: of this manifest, of this Node,
// and not being deleted.
func same(found, wanted *corev1.Pod) bool {
	return found.DeletionTimestamp == nil &&
		found.Annotations[agenthost.ManifestAnnotation] == wanted.Annotations[agenthost.ManifestAnnotation] &&
		len(found.OwnerReferences) == 1 && found.OwnerReferences[0].UID == wanted.OwnerReferences[0].UID
}

// Remove deletes a Pod. It is not an error if the Pod does not exist.
func (r *Registry) Remove(ctx context.Context, pod *corev1.Pod) error {
	options := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	err := r.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("removing pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}

// All returns the Pods of this node that agents have created.
func (r *Registry) All(ctx context.Context) ([]*corev1.Pod, error) {
	bound, err := r.bound.All(ctx)
	if err != nil {
		return nil, err
	}
	var ours []*corev1.Pod
	for _, pod := range bound {
		if pod.Annotations[agenthost.ManifestAnnotation] != "" {
			ours = append(ours, pod)
		}
	}
	return ours, nil
}

func (r *Registry) object(manifest manifests.Pod, node *corev1.Node) *corev1.Pod {
	spec := manifest.Spec.DeepCopy()
	spec.NodeName = r.node
	// No container gets the token, so the Pod needs none.
	spec.AutomountServiceAccountToken = ptr.To(false)
	annotations := maps.Clone(manifest.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[agenthost.ManifestAnnotation] = manifest.Hash
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: manifest.Namespace, Name: r.Name(manifest.Name), Labels: manifest.Labels, Annotations: annotations,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, Controller: ptr.To(true)}},
		},
		Spec: *spec,
	}
}

// State is the content of the status of a Pod.
type State struct {
	// Missing is the text that names the missing files, with the reason; empty if all files
	// of the Pod exist.
	Missing string
	// Certificates are the certificates of the Pod.
	Certificates []agenthost.Certificate
	// Lists are the files of the Pod with revocation lists.
	Lists []agenthost.RevocationLists
}

// Report sets the Pod's status: it runs, and is ready if all of its files
// exist.
func (r *Registry) Report(ctx context.Context, pod *corev1.Pod, state State, now metav1.Time) error {
	status, changed := statusOf(pod, state, now)
	if !changed {
		return nil
	}
	updated := pod.DeepCopy()
	updated.Status = status
	_, err := r.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, updated, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the local copy of the Pod is out of date: the next sync reports again
	}
	return err
}

// statusOf returns the status and reports whether it has changed. Containers
// are as ready as their pod: the agent does not manage what runs in them.
func statusOf(pod *corev1.Pod, state State, now metav1.Time) (corev1.PodStatus, bool) {
	status, ready := *pod.Status.DeepCopy(), state.Missing == ""
	status.Phase = corev1.PodRunning
	if status.StartTime == nil {
		status.StartTime = &now
	}
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue}
	if !ready {
		condition.Status, condition.Reason, condition.Message = corev1.ConditionFalse, "FilesMissing", state.Missing
	}
	conditions := []corev1.PodCondition{condition}
	if len(state.Certificates) > 0 {
		conditions = append(conditions, agenthost.ConditionOf(state.Certificates))
	}
	if len(state.Lists) > 0 {
		conditions = append(conditions, agenthost.ListsConditionOf(state.Lists))
	}
	status.Conditions = since(conditions, status.Conditions, now)
	status.ContainerStatuses = nil
	for _, container := range pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, Ready: ready,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: *status.StartTime}},
		})
	}
	return status, !equality.Semantic.DeepEqual(status, pod.Status)
}

// since returns conditions with the time of the last transition of each.
func since(conditions, former []corev1.PodCondition, now metav1.Time) []corev1.PodCondition {
	for i := range conditions {
		conditions[i].LastTransitionTime = now
		for _, known := range former {
			if known.Type == conditions[i].Type && known.Status == conditions[i].Status {
				conditions[i].LastTransitionTime = known.LastTransitionTime
			}
		}
	}
	return conditions
}
