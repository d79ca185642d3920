package policystatus

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/process/eventtext"
)

// reasonSignerNotOurs is the reason of the condition ApprovalsCounted if signers are other
// programs.
const reasonSignerNotOurs = "SignerNotOurs"

// counted sets the condition ApprovalsCounted, which warns that signers of other programs
// do not count approvals by people.
func (c Config) counted(ctx context.Context, p *v1alpha1.CertificatePolicy) {
	text := c.Policies.Advice().NotCounted(ctx, &p.Spec)
	if text == "" {
		meta.RemoveStatusCondition(&p.Status.Conditions, v1alpha1.PolicyApprovalsCounted)
		return
	}
	meta.SetStatusCondition(&p.Status.Conditions, metav1.Condition{
		Type: v1alpha1.PolicyApprovalsCounted, Status: metav1.ConditionFalse, Reason: reasonSignerNotOurs, ObservedGeneration: p.Generation, Message: eventtext.Fit(text),
	})
}
