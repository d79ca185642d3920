package certpolicy

import (
	"context"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/protection"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// MutateObject returns the object to store instead of the policy or exception that was
// sent; nil if that one stays. A change that needs several people becomes a proposal
// until enough people have written it.
func (c *Checks) MutateObject(ctx context.Context, w ObjectWrite) (*unstructured.Unstructured, Outcome) {
	if !w.canBeProtected() || !writes(w.Operation) || w.Object == nil {
		return nil, Outcome{}
	}
	write, err := c.protected(w)
	if err != nil {
		return nil, Outcome{Refusal: unavailable(err)}
	}
	reqs, err := write.Required()
	if err != nil {
		return nil, Outcome{} // what cannot be read is refused by the schema, or by ValidateObject
	}
	m, err := write.Mutate()
	if err != nil {
		return nil, Outcome{Refusal: unavailable(err)}
	}
	var checked Outcome
	if len(reqs) > 0 && !m.Stores() {
		// A proposal is refused for the same errors as its specification.
		if checked = c.validateSpec(ctx, w); checked.Refusal != nil {
			return nil, checked
		}
	}
	if m.Refusal != nil {
		return nil, Outcome{Refusal: w.refused(m.Refusal)}
	}
	outcome := Outcome{Warnings: m.Warnings}
	if m.Recorded != nil {
		outcome.Warnings = append(outcome.Warnings, checked.Warnings...)
		outcome.Audit = map[string]string{"proposal": m.Recorded.Wanted}
	}
	return w.result(m, write.Kind), outcome
}

// result returns the object to store for an outcome.
func (w ObjectWrite) result(m protection.Outcome, kind protection.Kind) *unstructured.Unstructured {
	stored := w.Object.DeepCopy()
	if m.Restore {
		stored = w.Old.DeepCopy()
		stored.SetResourceVersion(w.Object.GetResourceVersion()) // a stale write stays one
	}
	if m.Spec != nil {
		stored.Object["spec"] = m.Spec
		if managed := stored.GetManagedFields(); len(managed) > 0 {
			// No user wrote that value. An apply by the next person must not conflict.
			stored.SetManagedFields(disownFields(managed, fieldpath.NewSet(fieldpath.MakePathOrDie("spec", kind.InertField()))))
		}
	}
	annotate(stored, v1alpha1.AnnotationProposals, m.Proposals)
	annotate(stored, v1alpha1.AnnotationAgreed, m.Agreed)
	return stored
}

// annotate sets an annotation, or removes it if the value is empty.
func annotate(o *unstructured.Unstructured, key, value string) {
	annotations := o.GetAnnotations()
	if annotations[key] == value {
		return
	}
	if delete(annotations, key); value != "" {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	o.SetAnnotations(annotations)
}

// checkProtection returns the refusal of check for a write of a policy or an exception;
// nil for other writes.
func (c *Checks) checkProtection(w ObjectWrite, check func(*protection.Write) *quorum.Refusal) *apierrors.StatusError {
	if !w.canBeProtected() {
		return nil
	}
	write, err := c.protected(w)
	if err != nil {
		return unavailable(err)
	}
	return w.refused(check(write))
}

// canBeProtected reports whether the write is of a policy or an exception, and not only
// of its status.
func (w ObjectWrite) canBeProtected() bool {
	return w.Subresource == "" && (w.Resource == policies.PoliciesResource.GroupResource() || w.Resource == policies.ExceptionsResource.GroupResource())
}

// protected returns the write in the form for package protection. It returns an error
// if the policies are needed and not known.
func (c *Checks) protected(w ObjectWrite) (*protection.Write, error) {
	seals := c.policies.Seals()
	write := &protection.Write{
		Kind: protection.Policies, User: quorum.Voter{Person: Person(w.User), Impersonator: w.Impersonator}, Now: c.policies.Now(),
		Old: protection.ObjectFrom(w.Old), New: protection.ObjectFrom(w.Object), Open: seals.OpenProposal, Seal: seals.SealProposal,
	}
	if w.Resource == policies.ExceptionsResource.GroupResource() {
		write.Kind = protection.Exceptions
	}
	needed := write.Kind == protection.Exceptions
	if w.Operation != admissionv1.Delete {
		needed = write.ChangesSpec()
	}
	if !needed {
		return write, nil
	}
	var err error
	write.Protected, err = c.policies.Protected()
	return write, err
}

// refused returns the refusal 403 for r, nil if there is none.
func (w ObjectWrite) refused(r *quorum.Refusal) *apierrors.StatusError {
	if r == nil {
		return nil
	}
	return forbidden(w.Resource, w.name(), r.Message, metav1.StatusCause{Type: metav1.CauseType(r.Reason), Field: "spec", Message: r.Message})
}

func (w ObjectWrite) name() string {
	if w.Object != nil {
		return w.Object.GetName()
	}
	return w.Old.GetName()
}
