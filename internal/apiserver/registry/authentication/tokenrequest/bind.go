package tokenrequest

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
)

// bind returns the objects that a token is to be bound to: the service account
// and, if wanted is not nil, another object, which must exist now.
func (s *Storage) bind(ctx context.Context, account *corev1.ServiceAccount, wanted *authenticationv1.BoundObjectReference) (serviceaccount.Binding, error) {
	binding := serviceaccount.Binding{Namespace: account.Namespace, Account: ref(account)}
	if wanted == nil {
		return binding, nil
	}
	kind := schema.FromAPIVersionAndKind(wanted.APIVersion, wanted.Kind)
	var err error
	switch kind.GroupKind() {
	case schema.GroupKind{Kind: "Pod"}:
		err = s.bindPod(ctx, &binding, wanted.Name)
	case schema.GroupKind{Kind: "Secret"}:
		err = s.bindSecret(ctx, &binding, wanted.Name)
	case schema.GroupKind{Kind: "Node"}:
		binding.Node, err = s.node(ctx, wanted.Name)
	default:
		err = apierrors.NewBadRequest(fmt.Sprintf("cannot bind token to object of type %s", kind))
	}
	if err != nil {
		return binding, err
	}
	return binding, checkUID(kind, wanted, binding)
}

func (s *Storage) bindPod(ctx context.Context, binding *serviceaccount.Binding, name string) error {
	pod, err := s.opts.Objects.Pods(binding.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if pod.Spec.ServiceAccountName != binding.Account.Name {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"cannot bind token for serviceaccount %q to pod running with different serviceaccount name.", binding.Account.Name))
	}
	bound := ref(pod)
	binding.Pod = &bound
	if pod.Spec.NodeName == "" {
		return nil
	}
	binding.Node, err = s.node(ctx, pod.Spec.NodeName)
	if apierrors.IsNotFound(err) {
		// The name alone still shows where the pod is meant to run.
		binding.Node, err = &serviceaccount.Ref{Name: pod.Spec.NodeName}, nil
	}
	return err
}

func (s *Storage) bindSecret(ctx context.Context, binding *serviceaccount.Binding, name string) error {
	secret, err := s.opts.Objects.Secrets(binding.Namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	bound := ref(secret)
	binding.Secret = &bound
	return nil
}

func (s *Storage) node(ctx context.Context, name string) (*serviceaccount.Ref, error) {
	node, err := s.opts.Objects.Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	bound := ref(node)
	return &bound, nil
}

func ref(object metav1.Object) serviceaccount.Ref {
	return serviceaccount.Ref{Name: object.GetName(), UID: object.GetUID()}
}

// checkUID refuses an object with another UID than the one in the request.
func checkUID(kind schema.GroupVersionKind, wanted *authenticationv1.BoundObjectReference, binding serviceaccount.Binding) error {
	bound := boundRef(binding)
	if wanted.UID == "" || wanted.UID == bound.UID {
		return nil
	}
	return apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, wanted.Name, fmt.Errorf(
		"the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", wanted.UID))
}

// boundRef returns the object that a token is bound to in addition to the service account.
// The node of a pod is not returned.
func boundRef(binding serviceaccount.Binding) serviceaccount.Ref {
	switch {
	case binding.Pod != nil:
		return *binding.Pod
	case binding.Secret != nil:
		return *binding.Secret
	}
	return *binding.Node
}
