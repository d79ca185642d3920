package requestkind

import (
	"slices"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/policy/requests"
)

// The reasons of conditions for decisions by policies.
const (
	// ReasonApproved is the reason of the condition Approved of a
	// CertificateSigningRequest.
	ReasonApproved = "PolicyApproved"
	// ReasonOfRequests is the reason of the conditions Approved and Denied of a
	// CertificateRequest: by convention, the name of the approver.
	ReasonOfRequests = "policy.certplane.dev"
)

type (
	csr = certificatesv1.CertificateSigningRequest
	cr  = cmv1.CertificateRequest
	pcr = certificatesv1beta1.PodCertificateRequest
)

// All are all kinds of requests.
var All = []*Kind{SigningRequests, CertificateRequests, PodRequests}

// SigningRequests are CertificateSigningRequests. The API server sets the times of their
// conditions.
var SigningRequests = &Kind{
	Name: v1alpha1.CertificateSigningRequests, Short: "csr", Resource: certificatesv1.Resource("certificatesigningrequests"),
	Version: "v1", Versions: []string{"v1"}, BySigner: true, Granted: Approved,
	New:         func() Object { return &csr{} },
	NewList:     func() List { return &certificatesv1.CertificateSigningRequestList{} },
	is:          is[*csr],
	Signer:      of(func(c *csr) string { return c.Spec.SignerName }),
	Certificate: of(func(c *csr) []byte { return c.Status.Certificate }),
	CA:          of(func(*csr) []byte { return nil }),
	Conditions: of(func(c *csr) []quorum.Condition {
		return conditionsOf(c.Status.Conditions, func(c *certificatesv1.CertificateSigningRequestCondition) quorum.Condition {
			return quorum.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		})
	}),
	GrantedAt: of(func(c *csr) time.Time {
		if granted := certificates.Condition(c, certificatesv1.CertificateApproved); granted != nil {
			return granted.LastUpdateTime.Time
		}
		return time.Time{}
	}),
	Refuses: func(c quorum.Condition) bool {
		return c.Type == Denied || c.Type == string(certificatesv1.CertificateFailed)
	},
	Content: func(object Object, who request.Requester) Object {
		c := object.(*csr)
		c = &csr{ObjectMeta: metadata(c.ObjectMeta), Spec: c.Spec}
		c.SetGroupVersionKind(certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"))
		c.Spec.Username, c.Spec.UID, c.Spec.Groups, c.Spec.Extra = who.Username, who.UID, who.Groups, extra[certificatesv1.ExtraValue](who)
		return c
	},
	Decision: &Decision{
		Subresource: "approval", ByPolicy: []string{ReasonApproved}, Undecided: of(approval.Undecided),
		Set: func(object Object, set quorum.Condition, _ time.Time) {
			c, kind := object.(*csr), certificatesv1.RequestConditionType(set.Type)
			c.Status.Conditions = append(slices.DeleteFunc(c.Status.Conditions, func(has certificatesv1.CertificateSigningRequestCondition) bool {
				return has.Type == kind
			}), certificatesv1.CertificateSigningRequestCondition{
				Type: kind, Status: corev1.ConditionStatus(set.Status), Reason: set.Reason, Message: set.Message,
			})
		},
	},
}

// CertificateRequests are the requests to issuers of cert-manager.io.
var CertificateRequests = &Kind{
	Name: v1alpha1.CertificateRequests, Short: "cr", Resource: cmv1.Resource("certificaterequests"),
	Version: "v1", Versions: []string{"v1"}, Namespaced: true, Custom: true, Granted: Approved,
	New:         func() Object { return &cr{} },
	NewList:     func() List { return &cmv1.CertificateRequestList{} },
	is:          is[*cr],
	Signer:      of(certmanager.SignerText),
	Certificate: of(func(c *cr) []byte { return c.Status.Certificate }),
	CA:          of(func(c *cr) []byte { return c.Status.CA }),
	Conditions: of(func(c *cr) []quorum.Condition {
		return conditionsOf(c.Status.Conditions, func(c *cmv1.CertificateRequestCondition) quorum.Condition {
			return quorum.Condition{Type: string(c.Type), Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		})
	}),
	GrantedAt: of(func(c *cr) time.Time {
		if granted := certmanager.RequestCondition(c, cmv1.CertificateRequestConditionApproved); granted != nil && granted.LastTransitionTime != nil {
			return granted.LastTransitionTime.Time
		}
		return time.Time{}
	}),
	Refuses: func(c quorum.Condition) bool {
		if c.Type == string(cmv1.CertificateRequestConditionReady) {
			return c.Reason == cmv1.CertificateRequestReasonFailed
		}
		return c.Status == string(cmmeta.ConditionTrue) && (c.Type == Denied || c.Type == string(cmv1.CertificateRequestConditionInvalidRequest))
	},
	Content: func(object Object, who request.Requester) Object {
		c := object.(*cr)
		c = &cr{ObjectMeta: metadata(c.ObjectMeta), Spec: c.Spec}
		c.SetGroupVersionKind(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind))
		c.Spec.Username, c.Spec.UID, c.Spec.Groups, c.Spec.Extra = who.Username, who.UID, who.Groups, extra[[]string](who)
		return c
	},
	Decision: &Decision{
		Subresource: "status", ByDecider: true, ByPolicy: []string{ReasonOfRequests, crp.Reason}, Undecided: of(requests.Undecided),
		Set: func(object Object, set quorum.Condition, now time.Time) {
			certmanager.SetRequestCondition(object.(*cr), cmv1.CertificateRequestConditionType(set.Type), cmmeta.ConditionStatus(set.Status), set.Reason, set.Message, metav1.NewTime(now))
		},
	},
}

// PodRequests are PodCertificateRequests, in the version that has the fields of all
// versions.
var PodRequests = &Kind{
	Name: v1alpha1.PodCertificateRequests, Short: "pcr", Resource: certificatesv1.Resource("podcertificaterequests"),
	Version: "v1beta1", Versions: []string{"v1", "v1beta1"}, Namespaced: true, BySigner: true, Granted: certificatesv1beta1.PodCertificateRequestConditionTypeIssued,
	New:         func() Object { return &pcr{} },
	NewList:     func() List { return &certificatesv1beta1.PodCertificateRequestList{} },
	is:          is[*pcr],
	Signer:      of(func(c *pcr) string { return c.Spec.SignerName }),
	Certificate: of(func(c *pcr) []byte { return []byte(c.Status.CertificateChain) }),
	CA:          of(func(*pcr) []byte { return nil }),
	Conditions: of(func(c *pcr) []quorum.Condition {
		return conditionsOf(c.Status.Conditions, func(c *metav1.Condition) quorum.Condition {
			return quorum.Condition{Type: c.Type, Status: string(c.Status), Reason: c.Reason, Message: c.Message}
		})
	}),
	GrantedAt: of(func(c *pcr) time.Time {
		if granted := meta.FindStatusCondition(c.Status.Conditions, certificatesv1beta1.PodCertificateRequestConditionTypeIssued); granted != nil {
			return granted.LastTransitionTime.Time
		}
		return time.Time{}
	}),
	Refuses: func(c quorum.Condition) bool {
		return c.Type == certificatesv1beta1.PodCertificateRequestConditionTypeDenied || c.Type == certificatesv1beta1.PodCertificateRequestConditionTypeFailed
	},
	Content: func(object Object, _ request.Requester) Object {
		c := object.(*pcr)
		c = &pcr{ObjectMeta: metadata(c.ObjectMeta), Spec: c.Spec}
		c.SetGroupVersionKind(certificatesv1beta1.SchemeGroupVersion.WithKind("PodCertificateRequest"))
		return c
	},
}

// of adapts f to objects of any type. It must be called with objects of type T.
func of[T Object, R any](f func(T) R) func(Object) R {
	return func(object Object) R { return f(object.(T)) }
}

func is[T any](object any) bool {
	_, ok := object.(T)
	return ok
}

func conditionsOf[C any](conditions []C, view func(*C) quorum.Condition) []quorum.Condition {
	var all []quorum.Condition
	for i := range conditions {
		all = append(all, view(&conditions[i]))
	}
	return all
}

func metadata(object metav1.ObjectMeta) metav1.ObjectMeta {
	object.ManagedFields = nil
	return object
}

func extra[V ~[]string](who request.Requester) map[string]V {
	var all map[string]V
	for key, values := range who.Extra {
		if all == nil {
			all = map[string]V{}
		}
		all[key] = values
	}
	return all
}
