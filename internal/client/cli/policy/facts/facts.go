package facts

import (
	"cmp"
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/profile"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// Source finds the facts for decisions. Facts that cannot be found are unknown:
// conditions that read them are open.
type Source interface {
	// Of returns the facts that a decision on a request needs. It completes the request
	// of a pod, whose spec is pod, with the pod and its related objects.
	Of(ctx context.Context, r *request.Request, pod *certificatesv1beta1.PodCertificateRequestSpec, needs certpolicy.Needs) certpolicy.Facts
	// Prospective returns the certificate that the signer of a pod's request would issue,
	// or nil if unknown: the request itself contains little more than a key. own reports
	// whether a Signer declares the signer.
	Prospective(ctx context.Context, r *request.Request, now time.Time) (cert *x509.Certificate, own bool)
	// Votes returns the approvals of people in the conditions of a request whose seals
	// verify, and those of an earlier order if a decision needs them. known is false if
	// the request has approvals, but the keys are unknown.
	Votes(ctx context.Context, r *request.Request, conditions []quorum.Condition, needs certpolicy.Needs) (votes []quorum.Vote, known bool)
	// Quotas returns the used part of quotas, for the request with a UID.
	Quotas(ctx context.Context, quotas []certpolicy.Quota, uid string, now time.Time) map[certpolicy.Quota]certpolicy.QuotaUse
}

// Finder finds facts like policies.Published, and the objects of pods' requests.
type Finder policies.Published

func (f *Finder) published() *policies.Published { return (*policies.Published)(f) }

// Controller is the user that creates requests for Certificates in "certplane serve".
func Controller() request.Requester {
	return request.ServiceAccount(rights.ServeNamespace, rights.IssueCertificates.Account)
}

// Controllers are the users that create requests for Certificates, in "certplane serve",
// in "certplane controllers" and in cert-manager.
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
	found, err := f.published().Of(ctx, r, needs)
	f.failed(err)
	return found
}

// Votes implements Source.
func (f *Finder) Votes(ctx context.Context, r *request.Request, conditions []quorum.Condition, needs certpolicy.Needs) ([]quorum.Vote, bool) {
	votes, err := f.published().Votes(ctx, r, conditions)
	f.failed(err)
	carried, unread := f.published().Carried(ctx, r, needs)
	f.failed(unread)
	return append(votes, carried...), err == nil && unread == nil
}

// Quotas implements Source.
func (f *Finder) Quotas(ctx context.Context, quotas []certpolicy.Quota, uid string, now time.Time) map[certpolicy.Quota]certpolicy.QuotaUse {
	if f.Ledger == nil || len(quotas) == 0 {
		return nil
	}
	uses, err := f.Ledger.Use(ctx, quotas, uid, now)
	f.failed(err)
	return uses
}

func (f *Finder) failed(err error) {
	if err != nil && f.Failed != nil && !apierrors.IsNotFound(err) {
		f.Failed(err)
	}
}

// complete adds the objects of a pod's request, if all exist and match the request.
func (f *Finder) complete(ctx context.Context, r *request.Request, spec *certificatesv1beta1.PodCertificateRequestSpec, services bool) {
	pod := &corev1.Pod{}
	if err := f.Objects.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: spec.PodName}, pod); err != nil {
		f.failed(err)
		return
	}
	if !f.is(r, profile.CheckPod(spec, pod)) {
		return
	}
	var found []*metav1.ObjectMeta
	for _, one := range []struct {
		kind, namespace, name string
		uid                   types.UID
	}{
		{"ServiceAccount", r.Namespace, spec.ServiceAccountName, spec.ServiceAccountUID},
		{"Node", "", string(spec.NodeName), spec.NodeUID}, {"Namespace", "", r.Namespace, ""},
	} {
		object := &metav1.PartialObjectMetadata{}
		object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(one.kind))
		if err := f.Objects.Get(ctx, client.ObjectKey{Namespace: one.namespace, Name: one.name}, object); err != nil {
			f.failed(err)
			return
		}
		if !f.is(r, profile.CheckUID(one.kind, &object.ObjectMeta, one.uid)) {
			return
		}
		found = append(found, &object.ObjectMeta)
	}
	r.Pod, r.ServiceAccount, r.Node, r.NamespaceObject = pod, found[0], found[1], found[2]
	if !services {
		return
	}
	if claimed, known := f.services(ctx, r); known {
		r.Services = claimed
	} else {
		r.Pod = nil
	}
}

// is reports whether an object is the one that a request refers to.
func (f *Finder) is(r *request.Request, refusal *profile.Refusal) bool {
	if refusal != nil {
		f.failed(fmt.Errorf("the request %s: %w", r.Name, refusal))
	}
	return refusal == nil
}

// services returns the Services that select a pod and that its service account may claim,
// if both are known.
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
