package outcome

import (
	"context"
	"encoding/base64"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/api/certmanager"
)

// MessageIssued is the message of the Ready condition of a CertificateRequest
// with its certificate.
const MessageIssued = "Certificate fetched from issuer successfully"

// WriteRequest writes the status of a CertificateRequest. It fails with a conflict
// if the request has changed since it was read.
type WriteRequest func(ctx context.Context, next *cmv1.CertificateRequest) error

// CertificateRequests returns the Kind that answers CertificateRequests. api
// must read past caches. waits reports whether a request still waits for an
// outcome.
func CertificateRequests(api client.Reader, write WriteRequest, clk clock.PassiveClock, waits func(*cmv1.CertificateRequest) bool) Kind[*cmv1.CertificateRequest] {
	return Kind[*cmv1.CertificateRequest]{
		Read: func(ctx context.Context, key client.ObjectKey) (*cmv1.CertificateRequest, error) {
			cr := &cmv1.CertificateRequest{}
			return cr, api.Get(ctx, key, cr)
		},
		Write: func(ctx context.Context, cr *cmv1.CertificateRequest, o Outcome) error {
			return write(ctx, requestWith(cr, o, metav1.NewTime(clk.Now())))
		},
		Shows: ShownOn,
		Waits: waits,
	}
}

// ApplyRequest applies the signer's fields of the status, as owner, which needs
// patch on the status. Fields that other clients have written stay unchanged.
func ApplyRequest(api client.Client, owner string) WriteRequest {
	return func(ctx context.Context, next *cmv1.CertificateRequest) error {
		status, err := signersPart(next)
		if err != nil {
			return err
		}
		_, err = ApplyStatus(ctx, api, owner, next, cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind), status)
		return err
	}
}

// UpdateRequest updates the whole status, as owner, which needs update and
// patch on it. An update costs the API server less than an apply. The API
// server refuses it if an approver has written the time of its decision with
// fractions of a second, which Go's types lose: then the status is applied.
func UpdateRequest(api client.Client, owner string) WriteRequest {
	apply := ApplyRequest(api, owner)
	return func(ctx context.Context, next *cmv1.CertificateRequest) error {
		err := api.Status().Update(ctx, next, client.FieldOwner(owner))
		if apierrors.IsForbidden(err) {
			return apply(ctx, next)
		}
		return err
	}
}

// ApplyStatus applies the given fields of an object's status, and no others, as owner. It
// fails with a conflict if the object was replaced since it was read, and returns the
// written object.
func ApplyStatus(
	ctx context.Context, api client.Client, owner string, object client.Object, kind schema.GroupVersionKind, status map[string]any,
) (*unstructured.Unstructured, error) {
	fields := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	fields.SetGroupVersionKind(kind)
	fields.SetNamespace(object.GetNamespace())
	fields.SetName(object.GetName())
	fields.SetUID(object.GetUID())
	fields.SetResourceVersion(object.GetResourceVersion())
	err := api.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(fields), client.FieldOwner(owner), client.ForceOwnership)
	return fields, err
}

// readyOf returns the status of the condition Ready.
func readyOf(o Outcome) cmmeta.ConditionStatus {
	if o.State == Issued {
		return cmmeta.ConditionTrue
	}
	return cmmeta.ConditionFalse
}

// ShownOn reports whether a CertificateRequest shows an outcome already.
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

// requestWith returns a copy of cr with an outcome. Its failureTime is the time of the
// first failure.
func requestWith(cr *cmv1.CertificateRequest, o Outcome, now metav1.Time) *cmv1.CertificateRequest {
	next := cr.DeepCopy()
	certmanager.SetRequestCondition(next, cmv1.CertificateRequestConditionReady, readyOf(o), o.State.String(), o.Message, now)
	if o.Invalid {
		certmanager.SetRequestCondition(next, cmv1.CertificateRequestConditionInvalidRequest, cmmeta.ConditionTrue, o.Reason, o.Message, now)
	}
	if o.Refused() && next.Status.FailureTime == nil {
		next.Status.FailureTime = &now
	}
	if o.Issued != nil {
		next.Status.Certificate, next.Status.CA = o.Issued.PEM, o.Issued.CA
	}
	return next
}

// signersPart returns the fields of a status that belong to the signer: approvers'
// conditions are not among them.
func signersPart(cr *cmv1.CertificateRequest) (map[string]any, error) {
	var conditions []any
	for _, kind := range []cmv1.CertificateRequestConditionType{cmv1.CertificateRequestConditionReady, cmv1.CertificateRequestConditionInvalidRequest} {
		condition := certmanager.RequestCondition(cr, kind)
		if condition == nil {
			continue
		}
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(condition)
		if err != nil {
			return nil, err
		}
		conditions = append(conditions, fields)
	}
	part := map[string]any{"conditions": conditions}
	if at := cr.Status.FailureTime; at != nil {
		part["failureTime"] = at.UTC().Format(time.RFC3339)
	}
	if len(cr.Status.Certificate) > 0 {
		part["certificate"] = base64.StdEncoding.EncodeToString(cr.Status.Certificate)
	}
	if len(cr.Status.CA) > 0 {
		part["ca"] = base64.StdEncoding.EncodeToString(cr.Status.CA)
	}
	return part, nil
}
