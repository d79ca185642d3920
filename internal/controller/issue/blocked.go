package issue

import (
	"context"
	"errors"
	"slices"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/issuance"
)

// reportBlocked says what an issuance waits for that a user has to do: as the
// message
// of the Issuing condition, whose reason stays, and as an Event when that is
// news. Without an issuance there is the Event alone.
func (t *pass) reportBlocked(ctx context.Context, who actor, why issuance.Finding) error {
	before := certmanager.CertificateCondition(t.Certificate, cmv1.CertificateConditionIssuing)
	if before == nil || before.Status != cmmeta.ConditionTrue {
		t.warn(who, t.Certificate, why)
		return nil
	}
	changed, err := t.setStatus(ctx, who, func(crt *cmv1.Certificate) {
		certmanager.SetCertificateCondition(crt, cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, before.Reason, why.Message, metav1.NewTime(t.now))
	})
	if changed {
		t.warn(who, t.Certificate, why)
	}
	return err
}

// refused tells of what the API does not let us do, and returns err, so that it
// is tried again. What goes away by itself, as conflicts do, it does not tell of.
func (t *pass) refused(ctx context.Context, who actor, reason string, err error) error {
	final := slices.Contains([]metav1.StatusReason{metav1.StatusReasonInvalid, metav1.StatusReasonForbidden, metav1.StatusReasonBadRequest}, apierrors.ReasonForError(err))
	if !final || apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return err
	}
	return errors.Join(err, t.reportBlocked(ctx, who, issuance.Finding{Reason: reason, Message: err.Error()}))
}
