package issue

import (
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
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
	final := slices.Contains([]metav1.StatusReason{metav1.StatusReasonInvalid, metav1.StatusReasonForbidden, metav1.StatusReasonBadRequest}, apierrors.ReasonForError(err))
	if !final || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err
	}
	t.reportBlocked(who, issuance.Finding{Reason: reason, Message: err.Error()})
	return err
}
