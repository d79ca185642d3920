package core

import (
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateVolumes(spec *corev1.PodSpec, fldPath *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, volume := range spec.Volumes {
		path := fldPath.Index(i)
		errs = append(errs, validateName(volume.Name, names, path.Child("name"))...)
		errs = append(errs, validateVolumeType(&volume.VolumeSource, path)...)
		if volume.Projected != nil {
			errs = append(errs, validateProjected(volume.Projected, spec.ServiceAccountName, path.Child("projected"))...)
		}
	}
	return errs
}

// validateVolumeType requires exactly one type. Otherwise a reference could be
// hidden behind the type that a reader checks first.
func validateVolumeType(source *corev1.VolumeSource, fldPath *field.Path) field.ErrorList {
	types := volumeTypes(source)
	if len(types) == 0 {
		return field.ErrorList{field.Required(fldPath, "must specify a volume type")}
	}
	var errs field.ErrorList
	for _, name := range types[1:] {
		errs = append(errs, field.Forbidden(fldPath.Child(name), "may not specify more than 1 volume type"))
	}
	return errs
}

// volumeTypes returns the names of the types that are set. It reads them from
// the Go type, so that types that Kubernetes adds later are counted too.
func volumeTypes(source *corev1.VolumeSource) []string {
	var names []string
	value := reflect.ValueOf(source).Elem()
	for i := range value.NumField() {
		if !value.Field(i).IsZero() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}
