package issue

import (
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/process/worker"
)

// reportBlocked reports that an issuance waits for a user's action. It sets the
// message of the Issuing condition, whose reason stays, and records an Event if
// the message is new. Without an issuance, it only records the Event.
func (t *pass) reportBlocked(who actor, why issuance.Finding) {
	before := certmanager.CertificateCondition(t.Certificate, cmv1.CertificateConditionIssuing)
	if before == nil || before.Status != cmmeta.ConditionTrue {
		t.tellWarning(who, why)
		return
	}
	reason := before.Reason
	changed := t.setStatus(who, func(crt *cmv1.Certificate) {
		certmanager.SetCertificateCondition(crt, cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, reason, why.Message, metav1.NewTime(t.now))
	})
	if changed {
		t.tellWarning(who, why)
	}
}

// refused reports a write that the API refuses, and returns err, so that it is
// tried again. It does not report errors that go away by themselves, such as
// conflicts.
func (t *pass) refused(who actor, reason string, err error) error {
	if worker.IsRefused(err) {
		t.reportBlocked(who, issuance.Finding{Reason: reason, Message: err.Error()})
	}
	return err
}
