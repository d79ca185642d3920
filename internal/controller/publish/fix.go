package publish

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// fix returns config as it should be, and whether that is a change. The bundle
// must be all of its data; any description is kept.
func fix(config *corev1.ConfigMap, bundle string) (*corev1.ConfigMap, bool) {
	data := map[string]string{key: bundle}
	if maps.Equal(config.Data, data) && config.Annotations[descriptionAnnotation] != "" {
		return config, false
	}
	fixed := config.DeepCopy()
	fixed.Data = data
	if fixed.Annotations == nil {
		fixed.Annotations = map[string]string{}
	}
	fixed.Annotations[descriptionAnnotation] = description
	return fixed, true
}

// ignoreLate drops the errors of a write that came too late: another client has
// written the config map, which causes a watch event, or has deleted the
// namespace.
func ignoreLate(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err) ||
		apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	return err
}
