package metadata

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestValidateSize(t *testing.T) {
	const limit = 100
	text := func(n int) string { return strings.Repeat("x", n) }
	large := &metav1.ObjectMeta{Annotations: map[string]string{"k": text(150)}}
	tests := []struct {
		reason   string
		metadata metav1.ObjectMeta
		old      *metav1.ObjectMeta
		want     bool
	}{
		{"nothing", metav1.ObjectMeta{}, nil, true},
		{"as much as there may be", metav1.ObjectMeta{Labels: map[string]string{"k": text(49)}, Annotations: map[string]string{"k": text(49)}}, nil, true},
		{"labels", metav1.ObjectMeta{Labels: map[string]string{"k": text(100)}}, nil, false},
		{"keys", metav1.ObjectMeta{Annotations: map[string]string{text(101): ""}}, nil, false},
		{"finalizers", metav1.ObjectMeta{Finalizers: []string{text(60), text(60)}}, nil, false},
		{"owners", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{APIVersion: text(30), Kind: text(30), Name: text(30), UID: "uid-of-the-owner"}}}, nil, false},
		{"the sum", metav1.ObjectMeta{Labels: map[string]string{"k": text(60)}, Finalizers: []string{text(60)}}, nil, false},
		{"stored with more", metav1.ObjectMeta{Annotations: map[string]string{"k": text(150)}}, large, true},
		{"stored with more, growing", metav1.ObjectMeta{Annotations: map[string]string{"k": text(151)}}, large, false},
		{"growing", metav1.ObjectMeta{Annotations: map[string]string{"k": text(150)}}, &metav1.ObjectMeta{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			errs := ValidateSize(&tt.metadata, tt.old, limit, field.NewPath("metadata"))
			const problem = "metadata: Too long: labels, annotations, finalizers and ownerReferences may not be more than 100 bytes together"
			if tt.want != (len(errs) == 0) || len(errs) > 0 && errs.ToAggregate().Error() != problem {
				t.Errorf("errors %v, want none: %v", errs, tt.want)
			}
		})
	}
}
