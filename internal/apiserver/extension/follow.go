package extension

import (
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	listers "k8s.io/apiextensions-apiserver/pkg/client/listers/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/cache"
)

// publishFunc publishes what follows from a changed definition and all that exist.
type publishFunc func(changed *apiextensionsv1.CustomResourceDefinition, all []*apiextensionsv1.CustomResourceDefinition)

// followDefinitions calls publish for each change of a definition, one call after the other.
func (s *Server) followDefinitions(publish publishFunc) (cache.ResourceEventHandlerRegistration, error) {
	definitions := s.crds.Informers.Apiextensions().V1().CustomResourceDefinitions()
	registration, err := definitions.Informer().AddEventHandler(onChange(definitions.Lister(), publish))
	if err != nil {
		return nil, fmt.Errorf("watching CustomResourceDefinitions: %w", err)
	}
	return registration, nil
}

// onChange calls publish with a changed definition as it was, and as it is.
func onChange(definitions listers.CustomResourceDefinitionLister, publish publishFunc) cache.ResourceEventHandler {
	changed := func(obj any) {
		definition, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			return
		}
		all, err := definitions.List(labels.Everything())
		if err != nil {
			utilruntime.HandleError(fmt.Errorf("listing CustomResourceDefinitions: %w", err))
			return
		}
		publish(definition, all)
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc: changed,
		UpdateFunc: func(old, obj any) {
			if old.(*apiextensionsv1.CustomResourceDefinition).ResourceVersion != obj.(*apiextensionsv1.CustomResourceDefinition).ResourceVersion {
				changed(old) // it may have had more versions
				changed(obj)
			}
		},
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			changed(obj)
		},
	}
}
