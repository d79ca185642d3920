package issuance

import (
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// SetDecision approves or denies a request in its status: kind is Approved or
// Denied; why has the approver and the reason. A request is decided once:
// SetDecision fails, and changes nothing, if it has been decided already.
func SetDecision(cr *cmv1.CertificateRequest, kind cmv1.CertificateRequestConditionType, why Finding, now time.Time) error {
	for _, decided := range []cmv1.CertificateRequestConditionType{cmv1.CertificateRequestConditionApproved, cmv1.CertificateRequestConditionDenied} {
		if before := certmanager.RequestCondition(cr, decided); before != nil {
			return fmt.Errorf("CertificateRequest %q is %s already, with reason %q: a decision cannot be changed", cr.Name, decided, before.Reason)
		}
	}
	certmanager.SetRequestCondition(cr, kind, cmmeta.ConditionTrue, why.Reason, why.Message, metav1.NewTime(now))
	return nil
}
