package core

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Every pair of types in one volume is refused.
func TestOneTypeEachVolume(t *testing.T) {
	path := field.NewPath("spec", "volumes").Index(0)
	n := reflect.TypeFor[corev1.VolumeSource]().NumField()
	with := func(fields ...int) *corev1.VolumeSource {
		source := &corev1.VolumeSource{}
		for _, i := range fields {
			f := reflect.ValueOf(source).Elem().Field(i)
			f.Set(reflect.New(f.Type().Elem()))
		}
		return source
	}
	if errs := validateVolumeType(with(), path); len(errs) != 1 || errs[0].Type != field.ErrorTypeRequired {
		t.Errorf("no type: %v", errs)
	}
	for i := range n {
		if errs := validateVolumeType(with(i), path); len(errs) > 0 {
			t.Errorf("type %d alone: %v", i, errs)
		}
		for j := i + 1; j < n; j++ {
			errs := validateVolumeType(with(i, j), path)
			if len(errs) != 1 || errs[0].Type != field.ErrorTypeForbidden || errs[0].Field != path.Child(volumeTypes(with(j))[0]).String() {
				t.Errorf("types %v: %v", volumeTypes(with(i, j)), errs)
			}
		}
	}
}
