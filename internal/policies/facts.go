package policies

import (
	"context"
	"errors"
	"fmt"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// AccessFunc reports whether a user may do something. With an error, that is not known.
// The error is ErrNotKnown if there is no API to ask.
type AccessFunc func(ctx context.Context, who request.Requester, what certpolicy.Access) (bool, error)

// ErrNotKnown means that no API can answer whether a user may do something.
var ErrNotKnown = errors.New("is not known")

// Facts looks up facts for decisions. It is safe for concurrent use.
type Facts struct {
	// Objects reads Namespaces, Nodes and Certificates; it may lag behind the API.
	Objects client.Reader
	// Orders are the orders of ACME clients; nil if there are none.
	Orders *Orders
	// Access answers the questions of match.access of policies.
	Access AccessFunc
	// Controllers are the users whose requests can be for Certificates.
	Controllers []string
	// BuiltIn are the names of the built-in signers that sign here.
	BuiltIn []string
	// Kubelets is the built-in policy for the requests of kubelets.
	Kubelets approval.Policy
	// Failed, if not nil, is called with the error of each fact that cannot be read,
	// and nothing is logged.
	Failed func(error)
}

// Of returns the facts that a decision about a request needs. A fact that cannot be
// found is not known: conditions that read it are open.
func (f *Facts) Of(ctx context.Context, r *request.Request, needs certpolicy.Needs) certpolicy.Facts {
	var found certpolicy.Facts
	if needs.Origin || needs.Owner {
		found.SetOrigin(f.origin(ctx, r))
	}
	if name := certpolicy.NamespaceOf(r); needs.Namespace && name != "" && r.NamespaceObject == nil {
		found.Namespace = f.metadata(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: name})
	}
	if name := certpolicy.NodeOf(r); needs.Node && name != "" {
		found.Node = find(ctx, f, client.ObjectKey{Name: name}, &corev1.Node{})
	}
	if needs.Signer {
		found.Signer = f.signer(ctx, r)
	}
	if needs.BuiltIn {
		found.BuiltIn = f.builtIn(ctx, r)
	}
	for _, what := range needs.Access {
		allowed, known := f.may(ctx, r.Who(), what)
		if !known {
			continue
		}
		if found.Access == nil {
			found.Access = map[certpolicy.Access]bool{}
		}
		found.Access[what] = allowed
	}
	return found
}

// complete is Of for a request whose origin may be given.
func (f *Facts) complete(ctx context.Context, r *request.Request, given certpolicy.Facts, needs certpolicy.Needs) certpolicy.Facts {
	if !given.Origin.Known {
		return f.Of(ctx, r, needs)
	}
	needs.Origin, needs.Owner = false, false
	found := f.Of(ctx, r, needs)
	found.SetOrigin(given)
	return found
}

// origin returns how a request came to be. It is for a Certificate if a controller of
// Certificates made it, and its owner is a Certificate with the UID that it names; of
// an ACME client if an order proves it. Labels and annotations do not matter: any user
// can set them.
func (f *Facts) origin(ctx context.Context, r *request.Request) certpolicy.Facts {
	if origin, owner := f.ofCertificate(ctx, r); !origin.Known || *origin.Value == v1alpha1.OriginCertificate {
		return certpolicy.Facts{Origin: origin, Owner: owner}
	}
	return f.ofOrder(ctx, r)
}

// ofCertificate returns whether a request is for a Certificate.
func (f *Facts) ofCertificate(ctx context.Context, r *request.Request) (certpolicy.Fact[v1alpha1.RequestOrigin], certpolicy.Fact[metav1.ObjectMeta]) {
	direct, nobody := certpolicy.Known(new(v1alpha1.OriginDirect)), certpolicy.Known[metav1.ObjectMeta](nil)
	if r.Kind != v1alpha1.CertificateRequests || r.Owner == nil || !slices.Contains(f.Controllers, r.Requester.Username) {
		return direct, nobody
	}
	gv, err := schema.ParseGroupVersion(r.Owner.APIVersion)
	if err != nil || gv.Group != cmv1.SchemeGroupVersion.Group || r.Owner.Kind != cmv1.CertificateKind {
		return direct, nobody
	}
	owner := f.metadata(ctx, cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind), client.ObjectKey{Namespace: r.Namespace, Name: r.Owner.Name})
	switch {
	case !owner.Known:
		return certpolicy.Fact[v1alpha1.RequestOrigin]{}, owner
	case owner.Value.UID != r.Owner.UID:
		return direct, nobody
	}
	return certpolicy.Known(new(v1alpha1.OriginCertificate)), owner
}

// signer returns whether the signer of a request is of this program: a built-in
// one, a Signer, or an issuer whose CA is at hand.
func (f *Facts) signer(ctx context.Context, r *request.Request) certpolicy.Fact[certpolicy.Signer] {
	ours := func(is bool) certpolicy.Fact[certpolicy.Signer] {
		return certpolicy.Known(&certpolicy.Signer{Ours: is})
	}
	switch {
	case slices.Contains(f.BuiltIn, r.SignerName):
		return ours(true)
	case r.Issuer != nil && r.Issuer.Group != certmanager.Group:
		return ours(false)
	case r.Issuer != nil:
		return f.issuer(ctx, r.Issuer.Signer)
	}
	var declared v1alpha1.SignerList
	if err := f.Objects.List(ctx, &declared, client.UnsafeDisableDeepCopy); err != nil {
		return certpolicy.Fact[certpolicy.Signer]{}
	}
	return ours(slices.ContainsFunc(declared.Items, func(s v1alpha1.Signer) bool { return s.Spec.SignerName == r.SignerName }))
}

func (f *Facts) issuer(ctx context.Context, who certmanager.Signer) certpolicy.Fact[certpolicy.Signer] {
	issuer, err := certmanager.NewIssuer(who.Kind)
	if err == nil {
		err = f.Objects.Get(ctx, client.ObjectKey{Namespace: who.Namespace, Name: who.Name}, issuer, client.UnsafeDisableDeepCopy)
	}
	if err != nil {
		return certpolicy.Fact[certpolicy.Signer]{}
	}
	spec := issuer.GetSpec()
	return certpolicy.Known(&certpolicy.Signer{Ours: spec.CA != nil || spec.SelfSigned != nil})
}

// builtIn returns the name of the built-in policy that allows a request of a
// kubelet.
func (f *Facts) builtIn(ctx context.Context, r *request.Request) certpolicy.Fact[string] {
	none := certpolicy.Known[string](nil)
	if r.Kind != v1alpha1.CertificateSigningRequests || r.SignerName != approval.SignerName {
		return none
	}
	csr := &certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: r.SignerName, Request: r.PEM, Username: r.Requester.Username,
	}}
	for _, usage := range r.Usages {
		csr.Spec.Usages = append(csr.Spec.Usages, certificatesv1.KeyUsage(usage))
	}
	recognised, err := f.Kubelets.Recognise(csr)
	if err != nil {
		return none
	}
	for _, recogniser := range recognised {
		allowed, known := f.may(ctx, r.Requester, certpolicy.Access{
			Verb: "create", Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Subresource: recogniser.Name,
		})
		switch {
		case !known:
			return certpolicy.Fact[string]{}
		case allowed:
			return certpolicy.Known(new(certpolicy.BuiltInPrefix + recogniser.Name))
		}
	}
	return none
}

// may reports whether a user may do something, if that is known.
func (f *Facts) may(ctx context.Context, who request.Requester, what certpolicy.Access) (allowed, known bool) {
	allowed, err := f.Access(ctx, who, what)
	switch {
	case err == nil:
		return allowed, true
	case errors.Is(err, ErrNotKnown):
	case f.Failed != nil:
		f.Failed(err)
	default:
		klog.FromContext(ctx).V(2).Info("Cannot ask whether a requester may do what a policy asks for", "user", who.Username, "access", what.String(), "err", err)
	}
	return false, false
}

func (f *Facts) metadata(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) certpolicy.Fact[metav1.ObjectMeta] {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	found := find(ctx, f, key, object)
	if !found.Known {
		return certpolicy.Fact[metav1.ObjectMeta]{}
	}
	return certpolicy.Known(&found.Value.ObjectMeta)
}

// find reads an object. An object that does not exist yet may be created later.
func find[T any, O interface {
	*T
	client.Object
}](ctx context.Context, f *Facts, key client.ObjectKey, object O) certpolicy.Fact[T] {
	err := f.Objects.Get(ctx, key, object, client.UnsafeDisableDeepCopy)
	if err != nil {
		if !apierrors.IsNotFound(err) {
			f.failed(ctx, err, "Cannot read what a certificate policy asks for", "object", fmt.Sprintf("%T %s", object, key))
		}
		return certpolicy.Fact[T]{}
	}
	return certpolicy.Known((*T)(object))
}

// failed reports a fact that cannot be read. It does not log kinds that the API lacks.
func (f *Facts) failed(ctx context.Context, err error, text string, about ...any) {
	switch {
	case f.Failed != nil:
		f.Failed(err)
	case !meta.IsNoMatchError(err) && ctx.Err() == nil:
		klog.FromContext(ctx).Error(err, text, about...)
	}
}

// Reviews returns an AccessFunc that asks the API with SubjectAccessReviews.
func Reviews(api client.Writer) AccessFunc {
	return func(ctx context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: AccessReview(who, what)}
		if err := api.Create(ctx, review); err != nil {
			return false, fmt.Errorf("asking whether %s may %s: %w", who.Username, what, err)
		}
		return review.Status.Allowed && !review.Status.Denied, nil
	}
}

// AccessReview returns the question whether a user may do something.
func AccessReview(who request.Requester, what certpolicy.Access) authorizationv1.SubjectAccessReviewSpec {
	asked := authorizationv1.SubjectAccessReviewSpec{
		User: who.Username, UID: who.UID, Groups: who.Groups,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: what.Verb, Group: what.Group, Resource: what.Resource, Subresource: what.Subresource, Name: what.Name, Namespace: what.Namespace,
		},
	}
	for key, values := range who.Extra {
		if asked.Extra == nil {
			asked.Extra = map[string]authorizationv1.ExtraValue{}
		}
		asked.Extra[key] = values
	}
	return asked
}
