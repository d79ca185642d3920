package policies

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// RequestPolicies are the CertificateRequestPolicies of approver-policy that are
// in force. Nil means that they are not enforced.
type RequestPolicies []*crp.Policy

// requestPolicy is a compiled policy, with the UID and generation of its source.
type requestPolicy struct {
	uid        types.UID
	generation int64
	compiled   *crp.Policy
}

// RequestPolicyFrom returns a policy that is stored without a Go type.
func RequestPolicyFrom(loose *unstructured.Unstructured) (*approverpolicy.CertificateRequestPolicy, error) {
	p := &approverpolicy.CertificateRequestPolicy{}
	return p, from(loose, p)
}

// putRequestPolicy keeps a policy. A policy that cannot be read neither approves nor
// denies.
func (s *source) putRequestPolicy(loose *unstructured.Unstructured) error {
	p, err := RequestPolicyFrom(loose)
	if err != nil {
		delete(s.requestPolicies, loose.GetName())
		return err
	}
	known := s.requestPolicies[p.Name]
	if known.compiled != nil && known.uid == p.UID && known.generation == p.Generation {
		known.compiled = known.compiled.WithStatus(&p.Status)
	} else {
		known = requestPolicy{uid: p.UID, generation: p.Generation}
		known.compiled, _ = crp.Compile(p) // one that would be refused today is evaluated
	}
	s.requestPolicies[p.Name] = known
	return nil
}

// compiledRequestPolicies has mu locked.
func (s *source) compiledRequestPolicies() RequestPolicies {
	if s.requestPolicies == nil {
		return nil
	}
	policies := RequestPolicies{}
	for _, name := range slices.Sorted(maps.Keys(s.requestPolicies)) {
		policies = append(policies, s.requestPolicies[name].compiled)
	}
	return policies
}

// sameStatus reports whether neither the spec nor the status has changed.
func sameStatus(old, object any) bool {
	before, ok := old.(*unstructured.Unstructured)
	after, ok2 := object.(*unstructured.Unstructured)
	return ok && ok2 && sameSpec(old, object) && reflect.DeepEqual(before.Object["status"], after.Object["status"])
}

// RequestPolicies returns the CertificateRequestPolicies in force; none while they are
// not known.
func (p *Policies) RequestPolicies() RequestPolicies {
	if current := p.source.current.Load(); current != nil {
		return current.requestPolicies
	}
	return nil
}

// Named returns the policy with a name, or nil.
func (p RequestPolicies) Named(name string) *crp.Policy {
	i := slices.IndexFunc(p, func(p *crp.Policy) bool { return p.Name() == name })
	if i < 0 {
		return nil
	}
	return p[i]
}

// Governs reports whether an enforced policy can apply to a request. The error is
// ErrUnknown.
func (p *Policies) Governs(r *request.Request) (bool, error) {
	current := p.source.current.Load()
	if current == nil {
		return false, ErrUnknown
	}
	return current.requestPolicies.concern(r.Kind) || current.set.Governs(r.Kind, certpolicy.SignerName(*r)), nil
}

// People returns the requirements of all policies. Records of votes contain the groups
// that these name.
func (p *Policies) People() []quorum.Requirement {
	set, err := p.Set()
	if err != nil {
		return nil
	}
	return set.People()
}

func (p RequestPolicies) concern(kind v1alpha1.RequestKind) bool {
	return p != nil && kind == v1alpha1.CertificateRequests
}

// errNamespaceUnknown: the labels of the request's Namespace are not known.
var errNamespaceUnknown = errors.New("the Namespace is not known yet")

// Ask returns the decision of CertificateRequestPolicies about a request; nil if they do
// not apply to requests of its kind.
func (f *Facts) Ask(ctx context.Context, r *request.Request, policies RequestPolicies) *crp.Decision {
	if !policies.concern(r.Kind) {
		return nil
	}
	cr, ok := asWritten(r)
	if !ok {
		return nil
	}
	d, err := crp.Decide(policies, cr, crp.Facts{
		NamespaceLabels: func() (map[string]string, error) {
			found := f.metadata(ctx, corev1.SchemeGroupVersion.WithKind("Namespace"), client.ObjectKey{Name: r.Namespace})
			if !found.Known {
				return nil, errNamespaceUnknown
			}
			return found.Value.Labels, nil
		},
		MayUse: func(name string) (bool, error) {
			return f.Access(ctx, r.Who(), UseOf(cr, name))
		},
	})
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "Cannot evaluate the CertificateRequestPolicies for a request; it is tried again", "namespace", r.Namespace, "name", r.Name)
	}
	d.Err = err
	return &d
}

// RequestPoliciesFact returns the part of a decision of CertificateRequestPolicies that
// decisions read; nil for nil.
func RequestPoliciesFact(d *crp.Decision) *v1alpha1.RequestPoliciesRuling {
	switch {
	case d == nil:
		return nil
	case d.Err != nil:
		return &v1alpha1.RequestPoliciesRuling{
			Outcome: v1alpha1.OutcomeWait, Reason: certpolicy.ReasonUnavailable, Message: "the CertificateRequestPolicies could not be evaluated",
		}
	}
	switch d.Outcome {
	case v1alpha1.OutcomeApprove:
		return &v1alpha1.RequestPoliciesRuling{Outcome: d.Outcome, Policy: d.Policy}
	case v1alpha1.OutcomeDeny:
		return &v1alpha1.RequestPoliciesRuling{Outcome: d.Outcome, Reason: crp.Reason, Message: d.Message}
	case v1alpha1.OutcomeWait:
		return &v1alpha1.RequestPoliciesRuling{
			Outcome: d.Outcome, Reason: certpolicy.ReasonFactMissing,
			Message: "CertificateRequestPolicy " + d.Nearest.Policy + ": " + d.Nearest.Miss.Message,
		}
	}
	return &v1alpha1.RequestPoliciesRuling{Outcome: v1alpha1.OutcomeLeave}
}

// byRequestPolicies reports whether the CertificateRequestPolicies make the decision.
func (d *Decision) byRequestPolicies() bool {
	switch {
	case d.requestPolicies == nil || d.requestPolicies.Err != nil:
		return false
	case d.Outcome == v1alpha1.OutcomeApprove:
		return d.Policy != nil && strings.HasPrefix(d.Policy.Name, certpolicy.RequestPolicyPrefix)
	}
	return d.Outcome == v1alpha1.OutcomeDeny && d.Reason == crp.Reason
}

// UseOf returns the right that the requester of a CertificateRequest needs for a policy
// to apply.
func UseOf(cr *cmv1.CertificateRequest, policy string) certpolicy.Access {
	use := crp.AccessReview(cr, policy).ResourceAttributes
	return certpolicy.Access{Verb: use.Verb, Group: use.Group, Resource: use.Resource, Name: use.Name, Namespace: use.Namespace}
}

// asWritten returns the object that a request was made from. At creation, its requester
// is the creating user.
func asWritten(r *request.Request) (*cmv1.CertificateRequest, bool) {
	written, ok := r.Object.(*cmv1.CertificateRequest)
	if !ok {
		return nil, false
	}
	cr := &cmv1.CertificateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name, UID: types.UID(r.UID)},
		Spec:       written.Spec,
	}
	who := r.Who()
	cr.Spec.Username, cr.Spec.UID, cr.Spec.Groups, cr.Spec.Extra = who.Username, who.UID, who.Groups, who.Extra
	return cr, true
}
