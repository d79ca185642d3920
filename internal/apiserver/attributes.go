package apiserver

import (
	"hash/maphash"
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
)

// rememberedAttributes is for how many objects of a kind recentAttributes remembers
// their fields.
const rememberedAttributes = 256

// recentAttributes returns the same map of fields for versions of an object that follow each
// other closely and have equal fields. Selectors compare with these fields, and a watch
// cache keeps them for each version. It is safe for concurrent use; callers must not write
// to the maps that it returns.
type recentAttributes struct {
	of storage.AttrFunc

	mu     sync.Mutex
	recent [rememberedAttributes]fields.Set
}

var attributesSeed = maphash.MakeSeed()

func (r *recentAttributes) get(object runtime.Object) (labels.Set, fields.Set, error) {
	label, field, err := r.of(object)
	if err != nil {
		return label, field, err
	}
	accessor, err := meta.Accessor(object)
	if err != nil {
		return label, field, nil
	}
	place := maphash.String(attributesSeed, accessor.GetName()) % rememberedAttributes
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.recent[place]; maps.Equal(before, field) {
		return label, before, nil
	}
	r.recent[place] = field
	return label, field, nil
}
