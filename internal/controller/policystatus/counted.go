package policystatus

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/note"
)

// reasonSignerNotOurs is that of the condition ApprovalsCounted.
const reasonSignerNotOurs = "SignerNotOurs"

// counted sets the condition that says that signers of others do not count the
// approvals of people.
func (c Config) counted(ctx context.Context, p *v1alpha1.CertificatePolicy) {
	text := c.Policies.NotCounted(ctx, &p.Spec)
	if text == "" {
		meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.PolicyApprovalsCounted)
		return
	}
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: v1alpha1.PolicyApprovalsCounted, Status: metav1.ConditionFalse, Reason: reasonSignerNotOurs, ObservedGeneration: p.Generation, Message: note.Fit(text),
	})
}
