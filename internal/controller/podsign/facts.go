package podsign

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/request"
)

// noFacts are for signers that do not use any facts.
var noFacts request.Request

// facts returns everything that a profile may use. The fields of the request about its pod
// are compared with the pod.
func (r *reconciler) facts(ctx context.Context, req *podRequest, by *declared.Signer) (request.Request, error) {
	facts := request.FromPodRequest(req)
	if facts.Unreadable != nil {
		return facts, signer.Permanent(signer.ReasonInvalidRequest, facts.Unreadable)
	}
	var err error
	if facts.Pod, err = r.pod(ctx, req); err != nil {
		return facts, err
	}
	for _, about := range []struct {
		kind, name string
		namespaced bool
		uid        types.UID // empty: any UID
		to         **metav1.ObjectMeta
	}{
		{"ServiceAccount", req.Spec.ServiceAccountName, true, req.Spec.ServiceAccountUID, &facts.ServiceAccount},
		{"Node", string(req.Spec.NodeName), false, req.Spec.NodeUID, &facts.Node},
		{"Namespace", req.Namespace, false, "", &facts.NamespaceObject},
	} {
		key := client.ObjectKey{Name: about.name}
		if about.namespaced {
			key.Namespace = req.Namespace
		}
		if *about.to, err = r.metadata(ctx, about.kind, key, about.uid); err != nil {
			return facts, err
		}
	}
	if by.Profile.NeedsServices() {
		facts.Services, err = r.services(ctx, facts)
	}
	return facts, err
}

// pod returns the pod of a request.
func (r *reconciler) pod(ctx context.Context, req *podRequest) (*corev1.Pod, error) {
	key := client.ObjectKey{Namespace: req.Namespace, Name: req.Spec.PodName}
	return find(ctx, r, key, func() *corev1.Pod { return &corev1.Pod{} },
		func(pod *corev1.Pod) *profile.Refusal { return profile.CheckPod(&req.Spec, pod) })
}

// metadata returns the metadata of an object to which a request refers.
func (r *reconciler) metadata(ctx context.Context, kind string, key client.ObjectKey, uid types.UID) (*metav1.ObjectMeta, error) {
	empty := func() *metav1.PartialObjectMetadata {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		return object
	}
	object, err := find(ctx, r, key, empty, func(object *metav1.PartialObjectMetadata) *profile.Refusal {
		return profile.CheckUID(kind, &object.ObjectMeta, uid)
	})
	return &object.ObjectMeta, err
}

// find reads an object that has to pass check. The cache can be behind the
// request: if the cached object does not pass, it is read from the API before
// the request is refused. The object must not be modified.
func find[T client.Object](ctx context.Context, r *reconciler, key client.ObjectKey, empty func() T, check func(T) *profile.Refusal) (T, error) {
	cached := empty()
	if err := r.objects.Get(ctx, key, cached, client.UnsafeDisableDeepCopy); err == nil && check(cached) == nil {
		return cached, nil
	}
	latest := empty()
	err := r.Client.Get(ctx, key, latest)
	switch {
	case apierrors.IsNotFound(err):
		return latest, &profile.Refusal{Reason: profile.ReasonIdentity, Message: err.Error()}
	case err != nil:
		return latest, fmt.Errorf("reading the objects that the request refers to: %w", err)
	}
	if refusal := check(latest); refusal != nil {
		return latest, refusal
	}
	return latest, nil
}
