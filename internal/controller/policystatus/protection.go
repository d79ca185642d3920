package policystatus

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/protection"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// Reasons of the conditions Protected and Proposed.
const (
	reasonPeopleRequired = "PeopleRequired"
	reasonApprovals      = "ApprovalsMissing"

	eventProposed = "ChangeProposed"
)

// protected sets the condition Protected, which reports the people required for a change of
// the policy.
func protected(p *v1alpha1.CertificatePolicy) {
	if p.Spec.Protection == nil {
		meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.PolicyProtected)
		return
	}
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: v1alpha1.PolicyProtected, Status: metav1.ConditionTrue, Reason: reasonPeopleRequired, ObservedGeneration: p.Generation,
		Message: eventtext.Fit("Changes need " + protection.Policy{Name: p.Name, People: p.Spec.Protection.People}.Demand()),
	})
}

// proposed sets the condition Proposed, which reports open proposals for an object, and
// returns the proposals.
func (c Config) proposed(ctx context.Context, kind protection.Kind, object client.Object, set *certpolicy.Set, conditions *[]metav1.Condition) (string, error) {
	text := ""
	if object.GetAnnotations()[v1alpha1.AnnotationProposals] != "" {
		stored := &unstructured.Unstructured{} // as it is hashed
		stored.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(string(kind)))
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(object), stored); err != nil {
			return "", err
		}
		text = protection.Standing(kind, protection.ObjectFrom(stored), policies.ProtectedIn(set), c.Policies.Seals().OpenProposal, c.Clock.Now())
	}
	if text == "" {
		meta.RemoveStatusCondition(conditions, v1alpha1.PolicyProposed)
		return "", nil
	}
	changed := meta.SetStatusCondition(conditions, metav1.Condition{
		Type: v1alpha1.PolicyProposed, Status: metav1.ConditionTrue, Reason: reasonApprovals, ObservedGeneration: object.GetGeneration(), Message: eventtext.Fit(text),
	})
	if changed && c.Events != nil {
		c.Events.Eventf(object, nil, corev1.EventTypeNormal, eventProposed, "Propose", "The change is %s", eventtext.Fit(text))
	}
	return text, nil
}
