package admission

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// newNamespaceLifecycle returns the library's plugin: it reads its informer
// first, and the store before it refuses.
func newNamespaceLifecycle(authorizer.UnconditionalAuthorizer) admission.Interface {
	immortal := sets.New(metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic)
	plugin, err := lifecycle.NewLifecycle(immortal)
	utilruntime.Must(err) // it cannot fail
	return plugin
}
