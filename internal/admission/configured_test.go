package admission

import (
	"testing"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
)

// A plugin that is asked only if it is used mutates or validates as before: the library counts
// each plugin that can mutate in the metrics of mutation, and so with validation.
func TestDecoratedPlugins(t *testing.T) {
	for _, p := range plugins() {
		c := &configured{plugins: []string{p.name}}
		c.SetExternalKubeInformerFactory(informers.NewSharedInformerFactory(fake.NewClientset(), 0))
		plugin := p.make(nil)
		decorated := c.Decorate(plugin, p.name)
		_, mutates := plugin.(admission.MutationInterface)
		_, validates := plugin.(admission.ValidationInterface)
		_, alsoMutates := decorated.(admission.MutationInterface)
		_, alsoValidates := decorated.(admission.ValidationInterface)
		if mutates != alsoMutates || validates != alsoValidates {
			t.Errorf("%s: mutates %t, decorated %t; validates %t, decorated %t", p.name, mutates, alsoMutates, validates, alsoValidates)
		}
	}
}
