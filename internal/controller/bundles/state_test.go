package bundles

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The cache transforms the objects of a streamed list twice, which must not lose the keys of a
// target: it would be written at each start.
func TestStateTwice(t *testing.T) {
	stored := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "roots", Annotations: map[string]string{"trust.cert-manager.io/hash": "abc"},
		ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: string(fieldManager), Operation: metav1.ManagedFieldsOperationApply,
			FieldsV1: metav1.NewFieldsV1(`{"f:data":{"f:ca.crt":{}},"f:binaryData":{"f:trust.p12":{}}}`),
		}},
	}}
	once, err := onlyState(stored.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	first := once.(*metav1.PartialObjectMetadata).DeepCopy()
	if keys := first.Annotations[keysAnnotation]; keys != "ca.crt,trust.p12" {
		t.Errorf("the keys are %q", keys)
	}
	twice, err := onlyState(once)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, twice); diff != "" {
		t.Errorf("the second time differs:\n%s", diff)
	}
}
