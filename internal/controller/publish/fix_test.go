package publish

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMend(t *testing.T) {
	config := func(annotations, data map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: annotations, Labels: map[string]string{"l": "1"}}, Data: data}
	}
	described, right := map[string]string{descriptionAnnotation: "other words"}, map[string]string{key: "bundle"}
	for _, tt := range []struct {
		reason, former string
		stored         *corev1.ConfigMap
		want           bool
	}{
		{"as it should be, in other words", "", config(described, right), false},
		{"no description", "", config(nil, right), true},
		{"no data", "", config(described, nil), true},
		{"more data", "", config(described, map[string]string{key: "bundle", "more": ""}), true},
		{"former roots", "a=b", config(described, right), true},
		{"no former roots any more", "", config(map[string]string{descriptionAnnotation: description, formerAnnotation: "a=b"}, right), true},
	} {
		fixed, changed := fix(tt.stored, "bundle", tt.former)
		if changed != tt.want {
			t.Errorf("%s: changed = %v", tt.reason, changed)
		}
		if !changed {
			continue
		}
		want := config(map[string]string{descriptionAnnotation: description}, right)
		if tt.former != "" {
			want.Annotations[formerAnnotation] = tt.former
		}
		if diff := cmp.Diff(want, fixed); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.reason, diff)
		}
	}
}
