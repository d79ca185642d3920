package request

import (
	"context"
	"fmt"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/client/cli/exit"
)

// approvalReason is the reason that distinguishes an approval by this program
// from others.
const approvalReason = "CertplaneApprove"

// approve approves the run's own request, which needs the same permissions as approving
// any other request. It does not change a request that is already approved or denied.
func (r *run) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (*certificatesv1.CertificateSigningRequest, error) {
	name, uid := csr.Name, csr.UID
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := r.server.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if current.UID != uid {
			return replacedError(name)
		}
		if csr = current; certificates.Judge(current).State != certificates.Pending {
			return nil
		}
		current.Status.Conditions = append(current.Status.Conditions, approval())
		csr, err = r.server.UpdateApproval(ctx, name, current, metav1.UpdateOptions{FieldManager: fieldManager})
		return err
	})
	if err != nil {
		return nil, exit.WithNext(exit.Advise("approving "+name, r.unanswered(ctx, err)),
			"The request is stored. A user who may approve it runs:", "  "+approveCommand(name),
			"To fetch the certificate after that, without --approve:", "  "+r.again(name))
	}
	if certificates.Judge(csr).State == certificates.Approved {
		r.say("certificatesigningrequest %s approved", name)
	}
	return csr, nil
}

func approval() certificatesv1.CertificateSigningRequestCondition {
	return certificatesv1.CertificateSigningRequestCondition{
		Type:    certificatesv1.CertificateApproved,
		Status:  corev1.ConditionTrue,
		Reason:  approvalReason,
		Message: "Approved by its requester with certplane request --approve.",
	}
}

func replacedError(name string) error {
	return fmt.Errorf("the request %s was deleted, and another one now has its name", name)
}
