package facts

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// Source finds the facts for decisions. What cannot be found is not known:
// conditions that read it are open.
type Source interface {
	// Of returns the facts that a decision about a request needs. It completes
	// the request of a pod, whose spec is pod, with the objects that it is about.
	Of(ctx context.Context, r *request.Request, pod *certificatesv1beta1.PodCertificateRequestSpec, needs certpolicy.Needs) certpolicy.Facts
	// Prospective returns what the signer of a pod's request would issue, nil if
	// that is not known: the request itself has little more than a key. own
	// reports whether a Signer declares the signer.
	Prospective(ctx context.Context, r *request.Request, now time.Time) (cert *x509.Certificate, own bool)
	// Votes returns the approvals of people in the conditions of a request whose
	// seals verify. known is false if it has some, and the keys are not known.
	Votes(ctx context.Context, r *request.Request, conditions []quorum.Condition) (votes []quorum.Vote, known bool)
	// Quotas returns how much of quotas is used now, for the request with a UID.
	Quotas(ctx context.Context, quotas []certpolicy.Quota, uid string, now time.Time) map[certpolicy.Quota]certpolicy.QuotaUse
}

// Finder finds facts among objects. It is safe for concurrent use if its fields
// are.
type Finder struct {
	Objects client.Reader
	Access  AccessFunc
	// Controllers are the users whose requests can be for Certificates.
	Controllers []string
	// SealKeys returns the public keys that verify approvals.
	SealKeys func(context.Context) ([]ed25519.PublicKey, error)
	// Ledger has how much of quotas is used; nil if nothing says that.
	Ledger *policies.LedgerReader
	// RequestsUnknown: nothing says which requests are stored.
	RequestsUnknown bool
	// Failed, if not nil, is called with each error but that of an object which
	// does not exist.
	Failed func(error)

	keys  keys
	seals seals
}

// Controller is the user that makes requests for Certificates in "certplane serve".
func Controller() request.Requester {
	return request.ServiceAccount(rights.ServeNamespace, rights.IssueCertificates.Account)
}

// Controllers are the users that make requests for Certificates, in "certplane
// serve", in "certplane controllers" and in cert-manager.
func Controllers() []string {
	cluster := request.ServiceAccount(rights.ClusterNamespace, rights.IssueCertificates.Account)
	return []string{Controller().Username, cluster.Username, "system:serviceaccount:cert-manager:cert-manager"}
}

var _ Source = (*Finder)(nil)

// Of implements Source.
func (f *Finder) Of(ctx context.Context, r *request.Request, pod *certificatesv1beta1.PodCertificateRequestSpec, needs certpolicy.Needs) certpolicy.Facts {
	if pod != nil {
		f.complete(ctx, r, pod, needs.Services || f.signerNeedsServices(ctx, r.SignerName))
	}
	var facts certpolicy.Facts
	if needs.Origin || needs.Owner {
		facts.SetOrigin(f.origin(ctx, r))
	}
	if name := certpolicy.NamespaceOf(r); needs.Namespace && name != "" && r.NamespaceObject == nil {
		facts.Namespace = f.metadata(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: name})
	}
	if name := certpolicy.NodeOf(r); needs.Node && name != "" {
		facts.Node = find(ctx, f, client.ObjectKey{Name: name}, &corev1.Node{})
	}
	if needs.Keys && !f.RequestsUnknown {
		facts.Keys = f.storedKeys(ctx, r)
	}
	if needs.Earlier && !f.RequestsUnknown {
		facts.Earlier = f.earlier(ctx, r)
	}
	for _, what := range needs.Access {
		allowed, err := f.Access(ctx, r.Who(), what)
		if err != nil {
			f.failed(err)
			continue
		}
		if facts.Access == nil {
			facts.Access = map[certpolicy.Access]bool{}
		}
		facts.Access[what] = allowed
	}
	return facts
}

func (f *Finder) failed(err error) {
	if f.Failed != nil && !apierrors.IsNotFound(err) && err != ErrNotKnown {
		f.Failed(err)
	}
}

// origin returns how a request came to be. It is for a Certificate if a
// controller of Certificates made it, and its owner is a Certificate with the
// UID that it names; of an ACME client if an order proves it. Labels and annotations
// do not matter: anybody can set them.
func (f *Finder) origin(ctx context.Context, r *request.Request) certpolicy.Facts {
	origin, owner := f.ofCertificate(ctx, r)
	if !origin.Known || *origin.Value == v1alpha1.OriginCertificate {
		return certpolicy.Facts{Origin: origin, Owner: owner}
	}
	order, err := policies.NewOrders(f.Objects, time.Now).Of(ctx, r)
	switch {
	case err != nil:
		f.failed(err)
		return certpolicy.Facts{Owner: owner}
	case order != nil:
		origin = certpolicy.Known(new(v1alpha1.OriginACME))
	}
	return certpolicy.Facts{Origin: origin, Owner: owner, Order: order}
}

// ofCertificate returns whether a request is for a Certificate.
func (f *Finder) ofCertificate(ctx context.Context, r *request.Request) (certpolicy.Fact[v1alpha1.RequestOrigin], certpolicy.Fact[metav1.ObjectMeta]) {
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

// complete adds the objects that a pod's request is about, if all are there and
// are those that it says.
func (f *Finder) complete(ctx context.Context, r *request.Request, spec *certificatesv1beta1.PodCertificateRequestSpec, services bool) {
	pod := find(ctx, f, client.ObjectKey{Namespace: r.Namespace, Name: spec.PodName}, &corev1.Pod{})
	if !pod.Known || !f.is(r, profile.CheckPod(spec, pod.Value)) {
		return
	}
	core := corev1.SchemeGroupVersion
	account := f.metadata(ctx, core.WithKind("ServiceAccount"), client.ObjectKey{Namespace: r.Namespace, Name: spec.ServiceAccountName})
	node := f.metadata(ctx, core.WithKind("Node"), client.ObjectKey{Name: string(spec.NodeName)})
	namespace := f.metadata(ctx, core.WithKind("Namespace"), client.ObjectKey{Name: r.Namespace})
	for _, one := range []struct {
		kind  string
		found certpolicy.Fact[metav1.ObjectMeta]
		uid   types.UID
	}{{"ServiceAccount", account, spec.ServiceAccountUID}, {"Node", node, spec.NodeUID}, {"Namespace", namespace, ""}} {
		if !one.found.Known || !f.is(r, profile.CheckUID(one.kind, one.found.Value, one.uid)) {
			return
		}
	}
	r.Pod, r.ServiceAccount, r.Node, r.NamespaceObject = pod.Value, account.Value, node.Value, namespace.Value
	if !services {
		return
	}
	if claimed, known := f.services(ctx, r); known {
		r.Services = claimed
	} else {
		r.Pod = nil
	}
}

// is reports whether an object is the one that a request is about.
func (f *Finder) is(r *request.Request, refusal *profile.Refusal) bool {
	if refusal != nil {
		f.failed(fmt.Errorf("the request %s: %w", r.Name, refusal))
	}
	return refusal == nil
}

// services returns the Services that select a pod and that its service account
// may claim, if both are known.
func (f *Finder) services(ctx context.Context, r *request.Request) (claimed []request.ServiceName, known bool) {
	list := &corev1.ServiceList{}
	if err := f.Objects.List(ctx, list, client.InNamespace(r.Namespace)); err != nil {
		f.failed(fmt.Errorf("listing services: %w", err))
		return nil, false
	}
	for i := range list.Items {
		service := &list.Items[i]
		if !profile.Selects(service, r.Pod) {
			continue
		}
		claim := profile.Claim(r.Who(), service).ResourceAttributes
		allowed, err := f.Access(ctx, r.Who(), certpolicy.Access{Verb: claim.Verb, Resource: claim.Resource, Name: claim.Name, Namespace: claim.Namespace})
		if err != nil {
			f.failed(fmt.Errorf("whether %s may claim the service %s: %v", r.Who().Username, service.Name, err))
			return nil, false
		}
		if allowed {
			claimed = append(claimed, request.ServiceName{Name: service.Name, Namespace: service.Namespace})
		}
	}
	slices.SortFunc(claimed, func(a, b request.ServiceName) int { return cmp.Compare(a.Name, b.Name) })
	return claimed, true
}

func (f *Finder) metadata(ctx context.Context, kind schema.GroupVersionKind, key client.ObjectKey) certpolicy.Fact[metav1.ObjectMeta] {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	found := find(ctx, f, key, object)
	if !found.Known {
		return certpolicy.Fact[metav1.ObjectMeta]{}
	}
	return certpolicy.Known(&found.Value.ObjectMeta)
}

// find reads an object. One that is not there may be on its way.
func find[T any, O interface {
	*T
	client.Object
}](ctx context.Context, f *Finder, key client.ObjectKey, object O) certpolicy.Fact[T] {
	if err := f.Objects.Get(ctx, key, object); err != nil {
		f.failed(err)
		return certpolicy.Fact[T]{}
	}
	return certpolicy.Known((*T)(object))
}
