package requestsign

import (
	"context"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// write writes cr's status, whose Ready condition has changed. A decision must
// come back to the letter, and one whose time has fractions of a second does
// not survive the types of Go; then all but the change is taken as it is stored.
func (r *reconciler) write(ctx context.Context, cr *cmv1.CertificateRequest, by client.FieldOwner) error {
	err := r.Client.Status().Update(ctx, cr.DeepCopy(), by)
	if !apierrors.IsForbidden(err) {
		return err
	}
	exact, problem := r.verbatim(ctx, cr)
	if problem != nil {
		return fmt.Errorf("%w (%v)", err, problem)
	}
	return r.Client.Status().Update(ctx, exact, by)
}

// verbatim returns cr with the conditions that are stored, but for Ready. It has
// cr's resource version: if it is not the stored one, it cannot be written.
func (r *reconciler) verbatim(ctx context.Context, cr *cmv1.CertificateRequest) (*unstructured.Unstructured, error) {
	stored := &unstructured.Unstructured{}
	stored.SetGroupVersionKind(cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind))
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(cr), stored); err != nil {
		return nil, err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(cr)
	if err != nil {
		return nil, err
	}
	exact := &unstructured.Unstructured{Object: content}
	exact.SetGroupVersionKind(stored.GroupVersionKind())
	conditions, _, err := unstructured.NestedSlice(exact.Object, "status", "conditions")
	if err != nil {
		return nil, err
	}
	for i, condition := range conditions {
		if as := find(stored, condition); as != nil {
			conditions[i] = as
		}
	}
	return exact, unstructured.SetNestedSlice(exact.Object, conditions, "status", "conditions")
}

// find returns the condition of the same type that is stored; nil if there is
// none, or it is the one that changes.
func find(stored *unstructured.Unstructured, condition any) any {
	kind := typeOf(condition)
	if kind == string(cmv1.CertificateRequestConditionReady) {
		return nil
	}
	conditions, _, _ := unstructured.NestedSlice(stored.Object, "status", "conditions")
	for _, candidate := range conditions {
		if typeOf(candidate) == kind {
			return candidate
		}
	}
	return nil
}

func typeOf(condition any) string {
	fields, _ := condition.(map[string]any)
	kind, _ := fields["type"].(string)
	return kind
}
