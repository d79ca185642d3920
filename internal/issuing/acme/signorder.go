package acme

import (
	"context"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/order"
	"github.com/certplane/certplane/internal/policy/request"
)

// requestOf returns the request for which an Order was made, by the name of the
// owner: the deletion of an Order of an earlier request wakes the one that has
// its name now.
func requestOf(o client.Object) []issuing.Reference {
	owner := metav1.GetControllerOf(o)
	if owner == nil {
		return nil
	}
	group, err := schema.ParseGroupVersion(owner.APIVersion)
	if err != nil {
		return nil
	}
	kind := schema.GroupKind{Group: group.Group, Kind: owner.Kind}
	name := types.NamespacedName{Name: owner.Name}
	if group.Group == certmanager.Group {
		name.Namespace = o.GetNamespace()
	}
	return []issuing.Reference{{Kind: kind, NamespacedName: name}}
}

// isNamesake reports whether an Order was made for a request of the same name.
func isNamesake(o *acmev1.Order, req issuing.Request) bool {
	owner := metav1.GetControllerOf(o)
	kind := order.OwnerKind(req.Kind)
	return owner != nil && owner.Kind == kind.Kind && owner.APIVersion == kind.GroupVersion().String() && owner.Name == req.Name
}

// read returns an Order; nil if it does not exist.
func (s *signing) read(ctx context.Context, key client.ObjectKey) (*acmev1.Order, error) {
	o := &acmev1.Order{}
	if err := s.Client.Get(ctx, key, o); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return o, nil
}

// earlier returns the name of any existing Order of a request; "" if there is none.
func (s *signing) earlier(ctx context.Context, namespace, requestUID string) (string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(acmev1.SchemeGroupVersion.WithKind(acmev1.OrderKind + "List"))
	if err := s.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return "", fmt.Errorf("listing the Orders in %s: %w", namespace, err)
	}
	for _, item := range list.Items {
		owner := metav1.GetControllerOf(&item)
		if owner != nil && string(owner.UID) == requestUID && item.DeletionTimestamp == nil {
			return item.Name, nil
		}
	}
	return "", nil
}

// renewed returns the CertID of the certificate that a request renews, or "" if it cannot
// be found. Without it, the CA cannot distinguish a renewal from a new certificate, but
// still issues the certificate.
func (s *signing) renewed(ctx context.Context, req request.Request) string {
	name := req.ObjectAnnotations[cmv1.CertificateNameKey]
	if name == "" {
		return ""
	}
	crt, secret := &cmv1.Certificate{}, &corev1.Secret{}
	if s.Client.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: name}, crt) != nil || crt.Spec.SecretName == "" {
		return ""
	}
	if s.Client.Get(ctx, types.NamespacedName{Namespace: req.Namespace, Name: crt.Spec.SecretName}, secret) != nil {
		return ""
	}
	by := cmmeta.IssuerReference{
		Name: secret.Annotations[cmv1.IssuerNameAnnotationKey], Kind: secret.Annotations[cmv1.IssuerKindAnnotationKey],
		Group: secret.Annotations[cmv1.IssuerGroupAnnotationKey],
	}
	if !certmanager.SameIssuer(by, req.Issuer.Reference()) {
		return ""
	}
	leaf, err := pki.ParseFirst(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return ""
	}
	return pki.CertID(leaf)
}
