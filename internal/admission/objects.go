package admission

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
)

// readObjects returns the custom resources of a, for plugins that change nothing;
// nil if there is none. They may have no managed fields.
func readObjects(a admission.Attributes) (object, old *unstructured.Unstructured) {
	if cheaper, ok := a.(interface {
		ReadObjects() (object, old *unstructured.Unstructured)
	}); ok {
		return cheaper.ReadObjects()
	}
	object, _ = a.GetObject().(*unstructured.Unstructured)
	old, _ = a.GetOldObject().(*unstructured.Unstructured)
	return object, old
}

// readAnyObjects is readObjects for objects of all kinds.
func readAnyObjects(a admission.Attributes) (object, old runtime.Object) {
	switch object, old := readObjects(a); {
	case object == nil:
		return a.GetObject(), a.GetOldObject()
	case old == nil:
		return object, nil
	default:
		return object, old
	}
}
