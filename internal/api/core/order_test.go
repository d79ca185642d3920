package core

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The errors of several keys are always in the same order.
func TestErrorsAreInOrder(t *testing.T) {
	text, data, amounts := map[string]string{}, map[string][]byte{}, corev1.ResourceList{}
	for _, key := range []string{"h/", "c/", "a/", "f/", "b/", "e/", "g/", "d/"} {
		text[key], data[key] = "", nil
		amounts[corev1.ResourceName(key)] = resource.MustParse("1")
	}
	meta := metav1.ObjectMeta{Namespace: "default", Name: "a"}
	for of, errs := range map[string]field.ErrorList{
		"a ConfigMap's data":       ValidateConfigMap(&corev1.ConfigMap{ObjectMeta: meta, Data: text}),
		"a ConfigMap's binaryData": ValidateConfigMap(&corev1.ConfigMap{ObjectMeta: meta, BinaryData: data}),
		"a Secret":                 ValidateSecret(&corev1.Secret{ObjectMeta: meta, Type: corev1.SecretTypeOpaque, Data: data}),
		"a Pod's resources":        validateQuantities(amounts, field.NewPath("limits")),
	} {
		var said []string
		for _, err := range errs {
			said = append(said, err.Error())
		}
		if len(said) < len(text) || !slices.IsSorted(said) {
			t.Errorf("%s: %q", of, said)
		}
	}
}
