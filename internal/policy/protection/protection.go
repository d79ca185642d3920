// Package protection decides about writes of protected policies, of exceptions from
// them, and of Allow policies for their signers.
//
// A write by one person becomes a proposal: a sealed record, in an annotation of the
// object, of the user, the specification wanted, and the specification it replaces. The
// write that makes the proposals enough is stored unchanged. Everything here follows
// from its arguments: the keys, the clock and the policies come from the callers.
package protection

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/names"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// Kind is the kind of an object that is written.
type Kind string

// The kinds.
const (
	Policies   Kind = "CertificatePolicy"
	Exceptions Kind = "CertificatePolicyException"
)

// noun is what messages call an object of the kind.
func (k Kind) noun() string {
	if k == Exceptions {
		return "exception"
	}
	return "policy"
}

// Object is a policy or an exception.
type Object struct {
	// UID is empty, and Generation and Created are zero, before the object is
	// created.
	Name, UID  string
	Generation int64
	Created    time.Time
	// Deleting: the object is gone as soon as it has no finalizers.
	Deleting bool
	// Spec is the specification as decoded from JSON.
	Spec map[string]any
	// Proposals and Agreed are the values of the annotations AnnotationProposals and
	// AnnotationAgreed.
	Proposals, Agreed string
}

// ObjectFrom returns the object; nil for nil. It must be as the API has sent it: an
// object that was converted to a Go type and back can have another digest.
func ObjectFrom(o *unstructured.Unstructured) *Object {
	if o == nil {
		return nil
	}
	spec, _ := o.Object["spec"].(map[string]any)
	return &Object{
		Name: o.GetName(), UID: string(o.GetUID()), Generation: o.GetGeneration(), Created: o.GetCreationTimestamp().Time,
		Deleting: o.GetDeletionTimestamp() != nil, Spec: spec,
		Proposals: o.GetAnnotations()[v1alpha1.AnnotationProposals], Agreed: o.GetAnnotations()[v1alpha1.AnnotationAgreed],
	}
}

// Policy is a protected policy that is stored.
type Policy struct {
	Name, Digest string
	People       v1alpha1.ProtectingPeople
	// Signers are the patterns of its match.
	Signers []string
}

// requirement returns the people that the policy demands: at least two, even if a
// smaller number was stored without validation.
func (p Policy) requirement() quorum.Requirement {
	people := p.People.Requirement()
	people.Count = max(people.Count, 2)
	return quorum.Requirement{Policy: p.Name, Digest: p.Digest, People: people}
}

// overlaps reports whether the policy and one for other signers can be about the
// same one. A pattern that cannot be read can be about any.
func (p Policy) overlaps(signers []string) bool {
	return slices.ContainsFunc(p.Signers, func(a string) bool {
		return slices.ContainsFunc(signers, func(b string) bool {
			one, err := names.ParseSigner(a)
			other, err2 := names.ParseSigner(b)
			return err != nil || err2 != nil || one.Overlaps(other)
		})
	})
}

// Write is a write of an object, apart from its status.
type Write struct {
	Kind Kind
	// Old is the stored object; nil at creation. New is the object that was sent.
	Old, New *Object
	// Protected are all protected policies that are stored. The stored version of the
	// object itself is read from Old.
	Protected []Policy
	User      quorum.Voter
	Now       time.Time
	// Open and Seal use the keys of the server.
	Open OpenFunc
	Seal SealFunc
}

// ChangesSpec reports whether the write changes the specification in its stored form,
// in which a number such as 2.0 is 2.
func (w *Write) ChangesSpec() bool {
	return w.Old == nil || digest(w.Old.Spec) != digest(w.New.Spec)
}

// Required returns the people that the write needs; none if one person is enough. The
// error names the part of the new object that cannot be read.
func (w *Write) Required() ([]quorum.Requirement, error) {
	if !w.ChangesSpec() {
		return nil, nil
	}
	if w.Kind == Exceptions {
		return w.requiredForException()
	}
	spec, err := policySpec(w.New.Spec)
	if err != nil {
		return nil, err
	}
	own, err := ownPolicy(w.Old)
	if err != nil {
		return nil, err
	}
	var reqs []quorum.Requirement
	if own != nil {
		reqs = append(reqs, own.requirement())
	}
	if AllowsMore(spec, w.oldPolicySpec()) {
		for _, p := range w.Protected {
			if p.Name != w.New.Name && p.overlaps(spec.Match.Signers) {
				reqs = append(reqs, p.requirement())
			}
		}
	}
	if w.Old == nil && len(reqs) > 0 && spec.Protection != nil {
		// A person who agrees later changes a policy that is protected by then.
		reqs = append(reqs, Policy{Name: w.New.Name, People: spec.Protection.People}.requirement())
	}
	return reqs, nil
}

// oldPolicySpec returns the stored specification; nil without one, or if it cannot be
// read and therefore has allowed nothing.
func (w *Write) oldPolicySpec() *v1alpha1.CertificatePolicySpec {
	if w.Old == nil {
		return nil
	}
	spec, err := policySpec(w.Old.Spec)
	if err != nil {
		return nil
	}
	return spec
}

// requiredForException is Required for exceptions: the people of all policies that the
// exception names or has named, unless it has ended both before and after the write.
func (w *Write) requiredForException() ([]quorum.Requirement, error) {
	spec, err := exceptionSpec(w.New.Spec)
	if err != nil {
		return nil, err
	}
	named, inForce := spec.Policies, !hasEnded(spec, w.Now.Add(-quorum.ClockSkew))
	if w.Old != nil {
		old, err := exceptionSpec(w.Old.Spec)
		if err != nil {
			old = &v1alpha1.CertificatePolicyExceptionSpec{} // it has never been in force
		} else {
			inForce = inForce || !hasEnded(old, w.Now.Add(-quorum.ClockSkew))
		}
		named = slices.Concat(named, old.Policies)
	}
	if !inForce {
		return nil, nil
	}
	return w.requiredBy(named), nil
}

// requiredBy returns the requirements of the protected policies among policies.
func (w *Write) requiredBy(policies []string) []quorum.Requirement {
	var reqs []quorum.Requirement
	for _, p := range w.Protected {
		if slices.Contains(policies, p.Name) {
			reqs = append(reqs, p.requirement())
		}
	}
	return reqs
}

// ReasonProtected is the reason for refusing to delete a protected object.
const ReasonProtected = "Protected"

// MayDelete returns a refusal unless one person may delete Old: a protected policy
// in the mode Off, an exception from one after its end.
func (w *Write) MayDelete() *quorum.Refusal {
	if w.Kind == Exceptions {
		return w.mayDeleteException()
	}
	own, err := ownPolicy(w.Old)
	switch {
	case err != nil:
		return &quorum.Refusal{Reason: ReasonProtected, Message: err.Error()}
	case own == nil, w.Old.Spec["mode"] == string(v1alpha1.PolicyOff):
		return nil
	default:
		return &quorum.Refusal{Reason: ReasonProtected, Message: fmt.Sprintf(
			"certificate policy %s is protected and can be deleted only in the mode Off: change spec.mode first", w.Old.Name)}
	}
}

func (w *Write) mayDeleteException() *quorum.Refusal {
	spec, err := exceptionSpec(w.Old.Spec)
	if err != nil || hasEnded(spec, w.Now) {
		return nil
	}
	for _, req := range w.requiredBy(spec.Policies) {
		return &quorum.Refusal{Reason: ReasonProtected, Message: fmt.Sprintf(
			"certificate policy %s is protected, and exceptions from it can be deleted only after their end: change spec.notAfter first", req.Policy)}
	}
	return nil
}

// ownPolicy returns a stored policy if it is protected. Its protection is read
// apart from the rest, which may be of another version.
func ownPolicy(o *Object) (*Policy, error) {
	if o == nil {
		return nil, nil
	}
	value, isSet := o.Spec["protection"]
	if !isSet || value == nil {
		return nil, nil
	}
	fields, ok := value.(map[string]any)
	protection := v1alpha1.PolicyProtection{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &protection); err != nil || !ok {
		return nil, fmt.Errorf("the stored spec.protection of the policy %s cannot be read, so the policy cannot be changed", o.Name)
	}
	return &Policy{Name: o.Name, Digest: digest(o.Spec), People: protection.People}, nil
}

func policySpec(fields map[string]any) (*v1alpha1.CertificatePolicySpec, error) {
	return specOf[v1alpha1.CertificatePolicySpec](fields)
}

func exceptionSpec(fields map[string]any) (*v1alpha1.CertificatePolicyExceptionSpec, error) {
	return specOf[v1alpha1.CertificatePolicyExceptionSpec](fields)
}

func specOf[T any](fields map[string]any) (*T, error) {
	spec := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, spec); err != nil {
		return nil, fmt.Errorf("reading spec: %w", err)
	}
	return spec, nil
}

func hasEnded(x *v1alpha1.CertificatePolicyExceptionSpec, now time.Time) bool {
	return !now.Before(x.NotAfter.Time)
}
