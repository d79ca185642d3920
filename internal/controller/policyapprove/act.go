package policyapprove

import (
	"context"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/note"
	"github.com/certplane/certplane/internal/policies"
)

// act does what the policies say about a request.
func (r *reconciler) act(ctx context.Context, c *csr, action policies.Action) (reconcile.Result, error) {
	later := reconcile.Result{RequeueAfter: action.After}
	condition, due := conditionFor(action)
	if !due || shows(c, condition) {
		r.later(ctx, c, action)
		return later, nil
	}
	err := r.Client.SubResource("approval").Update(ctx, withCondition(c, condition))
	switch {
	case apierrors.IsConflict(err):
		return reconcile.Result{RequeueAfter: time.Second}, nil
	case client.IgnoreNotFound(err) != nil:
		return reconcile.Result{}, fmt.Errorf("writing what the certificate policies have decided: %w", err)
	case err == nil:
		r.decided(ctx, c, action)
	}
	return later, nil
}

// conditionFor returns the condition that an action sets. due is false if it
// sets none.
func conditionFor(action policies.Action) (condition certificatesv1.CertificateSigningRequestCondition, due bool) {
	condition = certificatesv1.CertificateSigningRequestCondition{
		Status: corev1.ConditionTrue, Reason: action.Reason, Message: note.Fit(action.Message),
	}
	switch action.Step {
	case policies.StepApprove:
		condition.Type = certificatesv1.CertificateApproved
	case policies.StepDeny:
		condition.Type = certificatesv1.CertificateDenied
	case policies.StepAwait:
		awaiting := action.Awaiting()
		condition.Type, condition.Reason, condition.Message = certificatesv1.RequestConditionType(awaiting.Type), awaiting.Reason, awaiting.Message
	default:
		return condition, false
	}
	return condition, true
}

func shows(c *csr, condition certificatesv1.CertificateSigningRequestCondition) bool {
	return slices.ContainsFunc(c.Status.Conditions, func(has certificatesv1.CertificateSigningRequestCondition) bool {
		return has.Type == condition.Type && has.Message == condition.Message
	})
}

// withCondition returns a copy of c with the condition. The API server sets its
// times.
func withCondition(c *csr, condition certificatesv1.CertificateSigningRequestCondition) *csr {
	c = c.DeepCopy()
	c.Status.Conditions = append(slices.DeleteFunc(c.Status.Conditions, func(has certificatesv1.CertificateSigningRequestCondition) bool {
		return has.Type == condition.Type
	}), condition)
	return c
}
