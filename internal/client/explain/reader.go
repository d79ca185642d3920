package explain

import (
	"context"
	"fmt"
	"sync"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/inprocess"
)

// Reader is the part of an API that explanations need. Errors are the API's errors:
// Forbidden for an object that the caller may not read, NotFound for an object that does
// not exist, also if its kind is not served. It is safe for concurrent use.
type Reader interface {
	// Reader reads objects of their Go types, issuers of other groups as
	// unstructured ones, and the metadata of Secrets. Lists are selected by the
	// fields spec.signerName and regarding.uid, which a cache has to index.
	client.Reader
	// Resource returns the resource of a kind, or certmanager.ErrNoResource.
	Resource(ctx context.Context, kind schema.GroupKind) (certmanager.Resource, error)
	// May reports whether a user has an access.
	May(ctx context.Context, user authorizationv1.SubjectAccessReviewSpec) (bool, error)
	// MayI reports whether the caller has an access.
	MayI(ctx context.Context, access authorizationv1.ResourceAttributes) (bool, error)
}

// API is a Reader with a client and a source of the kinds that exist. The
// caller is the client's user.
type API struct {
	client.Client
	Discovery certmanager.Discovery
}

var _ Reader = API{}

// Resource implements Reader.
func (a API) Resource(ctx context.Context, kind schema.GroupKind) (certmanager.Resource, error) {
	resource, _, err := certmanager.FindResource(ctx, a.Discovery, kind)
	return resource, err
}

// May implements Reader.
func (a API) May(ctx context.Context, user authorizationv1.SubjectAccessReviewSpec) (bool, error) {
	review := &authorizationv1.SubjectAccessReview{Spec: user}
	err := a.Create(ctx, review)
	return review.Status.Allowed, err
}

// MayI implements Reader.
func (a API) MayI(ctx context.Context, access authorizationv1.ResourceAttributes) (bool, error) {
	review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &access}}
	err := a.Create(ctx, review)
	return review.Status.Allowed, err
}

// WhoAmI returns the caller's identity at the API.
func (a API) WhoAmI(ctx context.Context) (authenticationv1.UserInfo, error) {
	review := &authenticationv1.SelfSubjectReview{}
	err := a.Create(ctx, review)
	return review.Status.UserInfo, err
}

// Connect returns the API of a server, which each read calls. Connect itself
// does not call the server. In the process of the server, objects are passed.
func Connect(cfg *rest.Config) (API, error) {
	kinds, err := kindsOnce()
	if err != nil {
		return API{}, fmt.Errorf("making the scheme: %w", err)
	}
	transport, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return API{}, fmt.Errorf("connecting to the server: %w", err)
	}
	served, err := apiutil.NewDynamicRESTMapper(cfg, transport)
	if err != nil {
		return API{}, fmt.Errorf("connecting to the server: %w", err)
	}
	known := meta.FirstHitRESTMapper{MultiRESTMapper: meta.MultiRESTMapper{resourcesOnce(), served}}
	connected, err := inprocess.NewClient(cfg, client.Options{HTTPClient: transport, Scheme: kinds, Mapper: known})
	if err != nil {
		return API{}, fmt.Errorf("connecting to the server: %w", err)
	}
	found, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, transport)
	if err != nil {
		return API{}, fmt.Errorf("connecting to the server: %w", err)
	}
	return API{connected, discovery.ToDiscoveryInterfaceWithContext(found)}, nil
}

// The kinds and their resources are the same for all connections; a console opens one
// connection for each page.
var (
	kindsOnce = sync.OnceValues(func() (*runtime.Scheme, error) {
		kinds := runtime.NewScheme()
		for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, certmanager.AddToScheme, v1alpha1.AddToScheme, inventoryv1alpha1.AddToScheme, recordsv1alpha1.AddToScheme, approverpolicy.AddToScheme} {
			if err := add(kinds); err != nil {
				return nil, err
			}
		}
		return kinds, nil
	})
	resourcesOnce = sync.OnceValue(resources)
)

// resources returns the resources of kinds that need no discovery. If a server lacks a
// kind, it answers that the object does not exist.
func resources() meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, served := range []struct {
		version schema.GroupVersion
		scope   meta.RESTScope
		kinds   []string
	}{
		{authenticationv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"SelfSubjectReview"}},
		{authorizationv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"SubjectAccessReview", "SelfSubjectAccessReview"}},
		{certificatesv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"CertificateSigningRequest"}},
		{certificatesv1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{"PodCertificateRequest"}},
		{certificatesv1beta1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{"PodCertificateRequest"}},
		{cmv1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{cmv1.CertificateKind, cmv1.CertificateRequestKind, cmv1.IssuerKind}},
		{cmv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{cmv1.ClusterIssuerKind}},
		{acmev1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{acmev1.OrderKind, acmev1.ChallengeKind}},
		{corev1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{"Secret", "ConfigMap", "Pod", "Service", "ServiceAccount"}},
		{admissionregistrationv1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}},
		{appsv1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{"Deployment"}},
		{corev1.SchemeGroupVersion, meta.RESTScopeRoot, []string{"Node", "Namespace"}},
		{eventsv1.SchemeGroupVersion, meta.RESTScopeNamespace, []string{"Event"}},
		{v1alpha1.GroupVersion, meta.RESTScopeRoot, []string{"AcmeAccount", "AcmeEndpoint", "CertificatePolicy", "CertificatePolicyException", "Revocation", "Signer"}},
		{v1alpha1.GroupVersion, meta.RESTScopeNamespace, []string{"AcmeOrder"}},
		{inventoryv1alpha1.GroupVersion, meta.RESTScopeRoot, []string{"IssuedCertificate", "CertificateDecision"}},
		{recordsv1alpha1.GroupVersion, meta.RESTScopeNamespace, []string{"CertificatePack"}},
		{approverpolicy.GroupVersion, meta.RESTScopeRoot, []string{approverpolicy.Kind}},
	} {
		for _, kind := range served.kinds {
			mapper.Add(served.version.WithKind(kind), served.scope)
		}
	}
	// Its plural is irregular.
	mapper.AddSpecific(v1alpha1.GroupVersion.WithKind("AcmeExternalKey"), v1alpha1.GroupVersion.WithResource("acmeexternalkeys"), v1alpha1.GroupVersion.WithResource("acmeexternalkey"), meta.RESTScopeNamespace)
	return mapper
}

// Result is the result of a check.
type Result string

// The results. Open means not decided yet, Unknown that the caller cannot determine the
// answer.
const (
	Yes     Result = "Yes"
	No      Result = "No"
	Open    Result = "Open"
	Unknown Result = "Unknown"
)

// result returns the result of a check of a user's access. The caller may lack the right
// to check.
func result(allowed bool, err error) (Result, error) {
	switch {
	case apierrors.IsForbidden(err):
		return Unknown, nil
	case err != nil:
		return Unknown, err
	case allowed:
		return Yes, nil
	}
	return No, nil
}

// exists reads an object, which may not exist or may be forbidden.
func exists(ctx context.Context, api Reader, key client.ObjectKey, into client.Object) (Result, error) {
	return readResult(api.Get(ctx, key, into))
}

// list reads objects, whose kind may not exist or may be forbidden.
func list(ctx context.Context, api Reader, into client.ObjectList, options ...client.ListOption) (Result, error) {
	return readResult(api.List(ctx, into, options...))
}

func readResult(err error) (Result, error) {
	if apierrors.IsNotFound(err) {
		return No, nil
	}
	return result(err == nil, err)
}

// ListAnyVersion lists the objects of a kind in the version that the server prefers.
// It returns certmanager.ErrNoResource if the kind is not served.
func ListAnyVersion(ctx context.Context, api Reader, kind schema.GroupKind, options ...client.ListOption) ([]unstructured.Unstructured, error) {
	resource, err := api.Resource(ctx, kind)
	if err != nil {
		return nil, err
	}
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(schema.GroupVersionKind{Group: kind.Group, Version: resource.Version, Kind: kind.Kind + "List"})
	if err := api.List(ctx, found, options...); err != nil {
		return nil, err
	}
	return found.Items, nil
}
