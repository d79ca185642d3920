// Package tokenrequest serves serviceaccounts/token: creating a TokenRequest
// there returns a token of the service account.
package tokenrequest

import (
	"context"
	"fmt"
	"math"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/audit"
	accounts "k8s.io/apiserver/pkg/authentication/serviceaccount"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/warning"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"github.com/certplane/certplane/internal/api/reviews"
	"github.com/certplane/certplane/internal/apiserver/authn/serviceaccount"
)

// Options has the parts and settings of the storage.
type Options struct {
	// Issuer issues the tokens.
	Issuer serviceaccount.Issuer
	// Objects reads the service accounts and the objects that tokens are bound
	// to.
	Objects corev1client.CoreV1Interface
	// Audiences are the audiences of the API server, used for requests that name none.
	Audiences []string
	// MaxExpiration bounds the lifetime; 0 means no bound.
	MaxExpiration time.Duration
	// ExtendExpiration extends the tokens that kubelets request for pods to a
	// year.
	ExtendExpiration bool
	// Now returns the current time.
	Now func() time.Time
}

// Storage issues tokens. Nothing is stored.
type Storage struct {
	opts Options
}

var (
	_ rest.Storage                        = &Storage{}
	_ rest.Scoper                         = &Storage{}
	_ rest.NamedCreater                   = &Storage{}
	_ rest.GroupVersionKindProvider       = &Storage{}
	_ rest.SubresourceObjectMetaPreserver = &Storage{}
)

var kind = authenticationv1.SchemeGroupVersion.WithKind("TokenRequest")

// New returns the storage.
func New(opts Options) *Storage { return &Storage{opts: opts} }

// New returns the object into which a body is decoded.
func (*Storage) New() runtime.Object { return &authenticationv1.TokenRequest{} }

// Destroy has nothing to release.
func (*Storage) Destroy() {}

// NamespaceScoped reports that service accounts are namespaced.
func (*Storage) NamespaceScoped() bool { return true }

// GroupVersionKind returns the kind, which is not in the service account's
// group.
func (*Storage) GroupVersionKind(schema.GroupVersion) schema.GroupVersionKind { return kind }

// PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate keeps metadata.uid of the
// request, which tells the service account from former ones of the same name.
func (*Storage) PreserveRequestObjectMetaSystemFieldsOnSubresourceCreate() bool { return true }

// Create returns a token of the service account name. A dry run also gets one, because
// issuing a token changes nothing.
func (s *Storage) Create(ctx context.Context, name string, obj runtime.Object, admit rest.ValidateObjectFunc, _ *metav1.CreateOptions) (runtime.Object, error) {
	request, ok := obj.(*authenticationv1.TokenRequest)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("not a TokenRequest: %T", obj))
	}
	account, err := s.account(ctx, name, request.ObjectMeta)
	if err != nil {
		return nil, err
	}
	now := s.opts.Now()
	s.complete(request, account, now)
	if errs := reviews.ValidateTokenRequest(request); len(errs) > 0 {
		return nil, apierrors.NewInvalid(kind.GroupKind(), "", errs)
	}
	if admit != nil {
		if err := admit(ctx, request.DeepCopy()); err != nil {
			return nil, err
		}
	}
	binding, err := s.bind(ctx, account, request.Spec.BoundObjectRef)
	if err != nil {
		return nil, err
	}
	return s.issue(ctx, request, binding, now)
}

// account returns the service account of the URL and the request.
func (s *Storage) account(ctx context.Context, name string, meta metav1.ObjectMeta) (*corev1.ServiceAccount, error) {
	namespace, ok := genericapirequest.NamespaceFrom(ctx)
	if !ok {
		return nil, apierrors.NewBadRequest("namespace is required")
	}
	if meta.Name != "" && meta.Name != name {
		return nil, invalidMeta(name, "name", meta.Name, "must match the service account name if specified")
	}
	if meta.Namespace != "" && meta.Namespace != namespace {
		return nil, invalidMeta(name, "namespace", meta.Namespace, "must match the service account namespace if specified")
	}
	account, err := s.opts.Objects.ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	if meta.UID != "" && meta.UID != account.UID {
		return nil, apierrors.NewConflict(schema.GroupResource{Group: kind.Group, Resource: kind.Kind}, name,
			fmt.Errorf("the UID in the token request (%s) does not match the UID of the service account (%s)", meta.UID, account.UID))
	}
	return account, nil
}

func invalidMeta(name, fieldName, value, detail string) error {
	path := field.NewPath("metadata", fieldName)
	return apierrors.NewInvalid(kind.GroupKind(), name, field.ErrorList{field.Invalid(path, value, detail)})
}

// complete fills in fields that the request omits. The server sets the status.
func (s *Storage) complete(request *authenticationv1.TokenRequest, account *corev1.ServiceAccount, now time.Time) {
	request.Name, request.Namespace, request.UID = account.Name, account.Namespace, account.UID
	request.CreationTimestamp = metav1.NewTime(now)
	if len(request.Spec.Audiences) == 0 {
		request.Spec.Audiences = s.opts.Audiences
	}
	request.Status = authenticationv1.TokenRequestStatus{}
}

// issue answers request with a token.
func (s *Storage) issue(ctx context.Context, request *authenticationv1.TokenRequest, binding serviceaccount.Binding, now time.Time) (*authenticationv1.TokenRequest, error) {
	s.shorten(ctx, request)
	lifetime := seconds(*request.Spec.ExpirationSeconds)
	grant := serviceaccount.Grant{Binding: binding, Audiences: request.Spec.Audiences, Lifetime: lifetime}
	if s.extends(request, binding) {
		grant.Lifetime, grant.WarnAfter = s.extended(), lifetime
	}
	token, credentialID, err := s.opts.Issuer.Issue(grant, now)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	audit.AddAuditAnnotation(ctx, accounts.IssuedCredentialIDAuditAnnotationKey, credentialID)
	request.Status = authenticationv1.TokenRequestStatus{
		Token:               token,
		ExpirationTimestamp: metav1.NewTime(now.Add(lifetime)),
	}
	return request, nil
}

// shorten limits the lifetime to the maximum that the operator allows.
func (s *Storage) shorten(ctx context.Context, request *authenticationv1.TokenRequest) {
	longest := int64(s.opts.MaxExpiration / time.Second)
	asked := *request.Spec.ExpirationSeconds
	if longest == 0 || asked <= longest {
		return
	}
	warning.AddWarning(ctx, "", fmt.Sprintf("requested expiration of %d seconds shortened to %d seconds", asked, longest))
	*request.Spec.ExpirationSeconds = longest
}

// seconds converts n to a duration, limited to the maximum of 292 years.
func seconds(n int64) time.Duration {
	return time.Duration(min(n, math.MaxInt64/int64(time.Second))) * time.Second
}
