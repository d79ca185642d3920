package garbage

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
)

// kind is a kind of objects that can own or be owned.
type kind struct {
	resource   schema.GroupVersionResource
	name       string
	namespaced bool
	// watched kinds can be deleted, listed and watched.
	watched bool
}

func (k *kind) group() schema.GroupKind {
	return schema.GroupKind{Group: k.resource.Group, Kind: k.name}
}

// same reports whether a later discovery found k unchanged.
func (k *kind) same(other *kind) bool { return other != nil && *k == *other }

// kinds are all served kinds.
type kinds map[schema.GroupKind]*kind

// discover returns all kinds in their preferred versions. If some groups cannot
// be discovered, err names them, and the result has the other groups.
func discover(ctx context.Context, client discovery.DiscoveryInterfaceWithContext) (kinds, error) {
	lists, err := discovery.ServerPreferredResourcesWithContext(ctx, client)
	if len(lists) == 0 && err != nil {
		return nil, fmt.Errorf("discovering the served kinds: %w", err)
	}
	found := kinds{}
	for _, list := range lists {
		version, parseErr := schema.ParseGroupVersion(list.GroupVersion)
		if parseErr != nil {
			continue
		}
		for _, resource := range list.APIResources {
			if k := kindOf(version, resource); k != nil {
				found[k.group()] = k
			}
		}
	}
	return found, err
}

// many are kinds with many objects that expire on their own. They are not watched.
var many = map[string]bool{"Event": true, "IssuedCertificate": true, "CertificateDecision": true}

// kindOf returns nil for resources that are not a kind of stored objects.
func kindOf(version schema.GroupVersion, resource metav1.APIResource) *kind {
	verbs := sets.New(resource.Verbs...)
	if strings.Contains(resource.Name, "/") || !verbs.Has("get") {
		return nil
	}
	return &kind{
		resource:   version.WithResource(resource.Name),
		name:       resource.Kind,
		namespaced: resource.Namespaced,
		watched:    verbs.HasAll("delete", "list", "watch") && !many[resource.Kind],
	}
}

// ownerPlace returns the kind and the namespace of an owner. An owner in a
// namespace cannot own an object without a namespace.
func (all kinds) ownerPlace(ref metav1.OwnerReference, namespace string) (*kind, string, bool) {
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, "", false
	}
	k, ok := all[schema.GroupKind{Group: version.Group, Kind: ref.Kind}]
	switch {
	case !ok || k.namespaced && namespace == "":
		return nil, "", false
	case !k.namespaced:
		namespace = ""
	}
	return k, namespace, true
}
