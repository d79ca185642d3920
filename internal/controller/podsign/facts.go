package podsign

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/declared"
)

// The reasons of requests that are denied before any profile sees them.
const (
	// reasonIdentity: what the request says of its pod is not so. API servers
	// see to that only for requests of nodes.
	reasonIdentity = "IdentityMismatch"
	// reasonEnded: nobody can use the certificate any more.
	reasonEnded = "PodEnded"
)

// noFacts are for signers that do not look at any.
var noFacts profile.Facts

// facts are all that a profile may look at. What the request says of its pod
// is compared with the pod.
func (r *reconciler) facts(ctx context.Context, req *request, signer *declared.Signer) (profile.Facts, error) {
	facts, err := factsIn(req)
	if err != nil {
		return facts, err
	}
	facts.Pod, err = r.pod(ctx, req)
	if err != nil {
		return facts, err
	}
	for _, about := range []struct {
		kind, name string
		namespaced bool
		uid        types.UID // empty: any
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
	facts.Requester = requesterOf(req)
	if signer.Profile.NeedsServices() {
		facts.Services, err = r.services(ctx, facts)
	}
	return facts, err
}

// factsIn are those in the request itself.
func factsIn(req *request) (profile.Facts, error) {
	facts := profile.Facts{
		Kind: v1alpha1.PodCertificateRequests, Name: req.Name, Namespace: req.Namespace, UID: string(req.UID),
		Annotations: req.Spec.UnverifiedUserAnnotations,
	}
	if seconds := req.Spec.MaxExpirationSeconds; seconds != nil {
		duration := time.Duration(*seconds) * time.Second
		facts.Duration = &duration
	}
	var err error
	facts.Request, facts.Key, err = keyOf(req)
	if err != nil {
		return facts, signer.Permanent(signer.ReasonInvalidRequest, err)
	}
	return facts, nil
}

// keyOf returns the key of a request and what proves its possession. Of the
// form that has the bare key the API server has seen the proof.
func keyOf(req *request) (*x509.CertificateRequest, crypto.PublicKey, error) {
	if len(req.Spec.StubPKCS10Request) == 0 {
		key, err := x509.ParsePKIXPublicKey(req.Spec.PKIXPublicKey)
		if err != nil {
			return nil, nil, fmt.Errorf("parsing spec.pkixPublicKey: %w", err)
		}
		return nil, key, nil
	}
	stub, err := x509.ParseCertificateRequest(req.Spec.StubPKCS10Request)
	if err != nil {
		return nil, nil, fmt.Errorf("parsing spec.stubPKCS10Request: %w", err)
	}
	return stub, stub.PublicKey, nil
}

// requesterOf is the pod's service account, as API servers know it.
func requesterOf(req *request) profile.Requester {
	return profile.Requester{
		Username: "system:serviceaccount:" + req.Namespace + ":" + req.Spec.ServiceAccountName,
		UID:      string(req.Spec.ServiceAccountUID),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + req.Namespace, "system:authenticated"},
	}
}

// pod returns the pod that a request is about.
func (r *reconciler) pod(ctx context.Context, req *request) (*corev1.Pod, error) {
	key := client.ObjectKey{Namespace: req.Namespace, Name: req.Spec.PodName}
	return find(ctx, r, key, func() *corev1.Pod { return &corev1.Pod{} },
		func(pod *corev1.Pod) *profile.Refusal { return checkPod(pod, req) })
}

// checkPod compares a request with its pod.
func checkPod(pod *corev1.Pod, req *request) *profile.Refusal {
	switch spec := req.Spec; {
	case pod.UID != spec.PodUID:
		return mismatch("podUID", "the pod %s has the UID %s", pod.Name, pod.UID)
	case pod.Spec.NodeName != string(spec.NodeName):
		return mismatch("nodeName", "the pod %s runs on the node %q", pod.Name, pod.Spec.NodeName)
	case pod.Spec.ServiceAccountName != spec.ServiceAccountName:
		return mismatch("serviceAccountName", "the pod %s runs as the service account %q", pod.Name, pod.Spec.ServiceAccountName)
	case pod.Status.Phase == corev1.PodSucceeded, pod.Status.Phase == corev1.PodFailed:
		return &profile.Refusal{Reason: reasonEnded, Field: "spec.podName", Message: fmt.Sprintf("the pod %s has ended", pod.Name)}
	}
	return nil
}

func mismatch(field, format string, args ...any) *profile.Refusal {
	return &profile.Refusal{
		Reason: reasonIdentity, Field: "spec." + field,
		Message: fmt.Sprintf("spec.%s is not true: ", field) + fmt.Sprintf(format, args...),
	}
}

// metadata returns that of an object that a request is about.
func (r *reconciler) metadata(ctx context.Context, kind string, key client.ObjectKey, uid types.UID) (*metav1.ObjectMeta, error) {
	empty := func() *metav1.PartialObjectMetadata {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
		return object
	}
	object, err := find(ctx, r, key, empty, func(object *metav1.PartialObjectMetadata) *profile.Refusal {
		if uid != "" && object.UID != uid {
			return &profile.Refusal{Reason: reasonIdentity, Message: fmt.Sprintf("the %s %s has the UID %s, not %s", kind, key.Name, object.UID, uid)}
		}
		return nil
	})
	return &object.ObjectMeta, err
}

// find reads an object that has to pass check. The cache can be behind the
// request: what does not pass there is read from the API before anybody is
// refused. The object must not be modified.
func find[T client.Object](ctx context.Context, r *reconciler, key client.ObjectKey, empty func() T, check func(T) *profile.Refusal) (T, error) {
	cached := empty()
	if err := r.objects.Get(ctx, key, cached, client.UnsafeDisableDeepCopy); err == nil && check(cached) == nil {
		return cached, nil
	}
	latest := empty()
	err := r.Client.Get(ctx, key, latest)
	switch {
	case apierrors.IsNotFound(err):
		return latest, &profile.Refusal{Reason: reasonIdentity, Message: err.Error()}
	case err != nil:
		return latest, fmt.Errorf("looking at what the request is about: %w", err)
	}
	if refusal := check(latest); refusal != nil {
		return latest, refusal
	}
	return latest, nil
}
