package extension

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/endpoints/discovery"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/client-go/tools/cache"
)

// Built-in groups come before defined ones (of priority 1000), so that a name
// that exists in both refers to the built-in kind. Versions stay in the order
// of their names.
const (
	builtinGroupPriority = 17000
	versionPriority      = 15
)

// PublishGroups makes front, whose own groups are installed, also list the
// defined groups at /apis. Aggregated discovery (KEP-3352) gets them from the
// manager that both servers share; this is for clients that do not request it.
func (s *Server) PublishGroups(front *genericapiserver.GenericAPIServer) error {
	front.DiscoveryGroupManager.AddGroup(apiGroup(apiextensionsv1.GroupName, []string{apiextensionsv1.SchemeGroupVersion.Version}))
	builtin, err := front.DiscoveryGroupManager.Groups(context.Background(), &http.Request{Header: http.Header{}})
	if err != nil {
		return fmt.Errorf("listing the built-in groups: %w", err)
	}
	publisher := groupPublisher{to: front.DiscoveryGroupManager, builtin: map[string]bool{}}
	for _, group := range builtin {
		publisher.builtin[group.Name] = true
		for _, v := range group.Versions {
			gv := metav1.GroupVersion{Group: group.Name, Version: v.Version}
			front.AggregatedDiscoveryGroupManager.SetGroupVersionPriority(gv, builtinGroupPriority, versionPriority)
		}
	}
	registration, err := s.followDefinitions(publisher.publish)
	if err != nil {
		return err
	}
	return front.AddPostStartHook("crd-groups-published", func(hook genericapiserver.PostStartHookContext) error {
		cache.WaitForCacheSync(hook.Done(), registration.HasSynced)
		return nil
	})
}

// groupPublisher keeps a list of API groups in sync with the definitions.
type groupPublisher struct {
	to discovery.GroupManager
	// builtin groups are not modified.
	builtin map[string]bool
}

// publish updates the list for the group of a definition; all are the definitions that exist.
func (p groupPublisher) publish(definition *apiextensionsv1.CustomResourceDefinition, all []*apiextensionsv1.CustomResourceDefinition) {
	if p.builtin[definition.Spec.Group] {
		return
	}
	if versions := servedVersions(definition.Spec.Group, all); len(versions) > 0 {
		p.to.AddGroup(apiGroup(definition.Spec.Group, versions))
	} else {
		p.to.RemoveGroup(definition.Spec.Group)
	}
}

// servedVersions returns the versions in which any resource of group is served,
// the most stable and newest first.
func servedVersions(group string, definitions []*apiextensionsv1.CustomResourceDefinition) []string {
	var versions []string
	for _, definition := range definitions {
		if definition.Spec.Group != group || !apihelpers.IsCRDConditionTrue(definition, apiextensionsv1.Established) {
			continue
		}
		for _, v := range definition.Spec.Versions {
			if v.Served && !slices.Contains(versions, v.Name) {
				versions = append(versions, v.Name)
			}
		}
	}
	slices.SortFunc(versions, func(a, b string) int { return version.CompareKubeAwareVersionStrings(b, a) })
	return versions
}

func apiGroup(name string, versions []string) metav1.APIGroup {
	group := metav1.APIGroup{Name: name}
	for _, v := range versions {
		gv := metav1.GroupVersion{Group: name, Version: v}
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: gv.String(), Version: v})
	}
	group.PreferredVersion = group.Versions[0]
	return group
}
