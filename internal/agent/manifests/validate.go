package manifests

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/api/core"
)

// validate returns an error for each value that the API would refuse or that an
// agent cannot handle, with the path of its field.
func validate(pod *corev1.Pod) field.ErrorList {
	var errs field.ErrorList
	meta, spec := field.NewPath("metadata"), field.NewPath("spec")
	if pod.Name == "" {
		return append(errs, field.Required(meta.Child("name"), ""))
	}
	for _, given := range []struct {
		path *field.Path
		set  bool
	}{
		{meta.Child("ownerReferences"), len(pod.OwnerReferences) > 0},
		{meta.Child("finalizers"), len(pod.Finalizers) > 0},
		{meta.Child("uid"), pod.UID != ""},
		{meta.Child("resourceVersion"), pod.ResourceVersion != ""},
		{spec.Child("nodeName"), pod.Spec.NodeName != ""},
		{spec.Child("ephemeralContainers"), len(pod.Spec.EphemeralContainers) > 0},
	} {
		if given.set {
			errs = append(errs, field.Forbidden(given.path, "the agent or the server sets it"))
		}
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		errs = append(errs, field.Forbidden(meta.Child("annotations").Key(corev1.MirrorPodAnnotationKey), "a mirror pod cannot have certificates"))
	}
	errs = append(errs, validateAsServer(pod)...)
	for i := range pod.Spec.Volumes {
		errs = append(errs, validateVolume(&pod.Spec.Volumes[i], spec.Child("volumes").Index(i))...)
	}
	return dedupe(errs)
}

// validateAsServer returns the errors that the API would return.
func validateAsServer(pod *corev1.Pod) field.ErrorList {
	defaulted := pod.DeepCopy()
	defaulter.Default(defaulted)
	return core.ValidatePod(defaulted)
}

// defaulter sets the defaults of pods.
var defaulter = newDefaulter()

func newDefaulter() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := core.AddToScheme(scheme); err != nil {
		panic(err) // two of our own kinds conflict
	}
	return scheme
}

// dedupe keeps the first error of a field for which two rules return one.
func dedupe(errs field.ErrorList) field.ErrorList {
	var kept field.ErrorList
	seen := map[string]bool{}
	for _, err := range errs {
		key := string(err.Type) + err.Field
		if !seen[key] {
			kept = append(kept, err)
		}
		seen[key] = true
	}
	return kept
}
