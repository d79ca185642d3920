package certificates

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/endpoints/deprecation"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/client-go/tools/cache"
)

// newOptions returns a store without a database, which is enough to check the
// group.
func newOptions(serveOlder bool) Options {
	return Options{
		ServeV1beta1:  serveOlder,
		ServeV1alpha1: serveOlder,
		CSRDuration:   true,
		RESTOptions: generic.RESTOptions{
			StorageConfig:  &storagebackend.ConfigForResource{},
			ResourcePrefix: "certificatesigningrequests",
			Decorator: func(*storagebackend.ConfigForResource, string, func(runtime.Object) (string, error),
				func() runtime.Object, func() runtime.Object, storage.AttrFunc, storage.IndexerFuncs, *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
				return nil, func() {}, nil
			},
		},
	}
}

func TestAPIGroup(t *testing.T) {
	resources := []string{
		"certificatesigningrequests",
		"certificatesigningrequests/approval",
		"certificatesigningrequests/status",
		"clustertrustbundles",
		"podcertificaterequests",
		"podcertificaterequests/status",
	}
	for _, tc := range []struct {
		reason     string
		serveOlder bool
		want       map[string][]string
	}{
		{"all versions", true, map[string][]string{"v1": resources, "v1beta1": resources, "v1alpha1": {"clustertrustbundles"}}},
		{"the deprecated versions are off", false, map[string][]string{"v1": resources}},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			group, err := NewAPIGroup(newOptions(tc.serveOlder))
			if err != nil {
				t.Fatal(err)
			}
			got := map[string][]string{}
			for version, storages := range group.VersionedResourcesStorageMap {
				got[version] = slices.Sorted(maps.Keys(storages))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			if got := group.PrioritizedVersions[0].Version; got != "v1" {
				t.Errorf("preferred version is %s", got)
			}
		})
	}
}

// The installer asks each endpoint for its kind in the version that it serves,
// and the kind whether it is deprecated.
func TestInstallerFindsTheDeprecation(t *testing.T) {
	group, err := NewAPIGroup(newOptions(true))
	if err != nil {
		t.Fatal(err)
	}
	for version, storages := range group.VersionedResourcesStorageMap {
		for resource, storage := range storages {
			gv := schema.GroupVersion{Group: certificatesv1beta1.GroupName, Version: version}
			kind, err := endpoints.GetResourceKind(gv, storage, group.Scheme)
			if err != nil {
				t.Fatal(err)
			}
			obj, err := group.Scheme.New(kind)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := deprecation.IsDeprecated(obj, 0, 0), version != "v1"; got != want {
				t.Errorf("%s %s: deprecated %v, want %v", version, resource, got, want)
			}
		}
	}
}

// Several servers can run in one process.
func TestAPIGroupTwice(t *testing.T) {
	for range 2 {
		group, err := NewAPIGroup(newOptions(true))
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range group.VersionedResourcesStorageMap["v1"] {
			s.Destroy()
			s.Destroy()
		}
	}
}
