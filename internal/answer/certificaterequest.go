package answer

import (
	"context"
	"encoding/base64"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// MessageIssued is what a CertificateRequest says of its certificate.
const MessageIssued = "Certificate fetched from issuer successfully"

// CertificateRequests answers CertificateRequests by api, which must read past
// caches, as owner. waits reports whether a request still waits for an outcome.
//
// The status is applied: the decision of an approver, whose time can have
// fractions of a second that Go's types lose, stays to the letter.
func CertificateRequests(api client.Client, owner string, clk clock.PassiveClock, waits func(*cmv1.CertificateRequest, Outcome) bool) Kind[*cmv1.CertificateRequest] {
	return Kind[*cmv1.CertificateRequest]{
		Read: func(ctx context.Context, key client.ObjectKey) (*cmv1.CertificateRequest, error) {
			cr := &cmv1.CertificateRequest{}
			return cr, api.Get(ctx, key, cr)
		},
		Write: func(ctx context.Context, cr *cmv1.CertificateRequest, o Outcome) error {
			status, err := statusOf(cr, o, clk.Now())
			if err != nil {
				return err
			}
			fields := &unstructured.Unstructured{Object: map[string]any{"status": status}}
			fields.SetGroupVersionKind(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind))
			fields.SetNamespace(cr.Namespace)
			fields.SetName(cr.Name)
			fields.SetUID(cr.UID)
			fields.SetResourceVersion(cr.ResourceVersion)
			return api.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(fields), client.FieldOwner(owner), client.ForceOwnership)
		},
		Shows: ShownOn,
		Waits: waits,
	}
}

// readyOf returns the status of the condition Ready.
func readyOf(o Outcome) cmmeta.ConditionStatus {
	if o.State == Issued {
		return cmmeta.ConditionTrue
	}
	return cmmeta.ConditionFalse
}

// ShownOn reports whether a CertificateRequest has an outcome already.
func ShownOn(cr *cmv1.CertificateRequest, o Outcome) bool {
	ready := certmanager.RequestCondition(cr, cmv1.CertificateRequestConditionReady)
	if ready == nil || ready.Status != readyOf(o) || ready.Reason != o.State.String() || ready.Message != o.Message {
		return false
	}
	if o.Issued != nil {
		return string(cr.Status.Certificate) == string(o.Issued.PEM)
	}
	return !o.Refused() || cr.Status.FailureTime != nil
}

// statusOf returns all that the signer has to say in the status: what is not said
// again, is taken back. Nothing in it belongs to others. The first failure counts.
func statusOf(cr *cmv1.CertificateRequest, o Outcome, now time.Time) (map[string]any, error) {
	next, at := cr.DeepCopy(), metav1.NewTime(now)
	certmanager.SetRequestCondition(next, cmv1.CertificateRequestConditionReady, readyOf(o), o.State.String(), o.Message, at)
	if o.Invalid {
		certmanager.SetRequestCondition(next, cmv1.CertificateRequestConditionInvalidRequest, cmmeta.ConditionTrue, o.Reason, o.Message, at)
	}
	conditions, err := entries(next, cmv1.CertificateRequestConditionReady, cmv1.CertificateRequestConditionInvalidRequest)
	if err != nil {
		return nil, err
	}
	status := map[string]any{"conditions": conditions}
	if o.Refused() && next.Status.FailureTime == nil {
		next.Status.FailureTime = &at
	}
	if next.Status.FailureTime != nil {
		status["failureTime"] = next.Status.FailureTime.UTC().Format(time.RFC3339)
	}
	if o.Issued != nil {
		status["certificate"] = base64.StdEncoding.EncodeToString(o.Issued.PEM)
		if len(o.Issued.CA) > 0 {
			status["ca"] = base64.StdEncoding.EncodeToString(o.Issued.CA)
		}
	}
	return status, nil
}

// entries are the conditions of these types that a request has.
func entries(cr *cmv1.CertificateRequest, types ...cmv1.CertificateRequestConditionType) ([]any, error) {
	var entries []any
	for _, kind := range types {
		condition := certmanager.RequestCondition(cr, kind)
		if condition == nil {
			continue
		}
		entry, err := runtime.DefaultUnstructuredConverter.ToUnstructured(condition)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}
