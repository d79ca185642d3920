package installcrds_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	discoveryfake "k8s.io/client-go/discovery/fake"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/certplane/certplane/internal/controller/installcrds"
	"github.com/certplane/certplane/internal/generated/crds"
)

func TestVersions(t *testing.T) {
	tests := []struct {
		reason      string
		stored, own string
		want        string
	}{
		{"an update", "v0.4.0", "v0.5.0", "v0.5.0"},
		{"the same", "v0.5.0", "v0.5.0", "v0.5.0"},
		{"an older server beside a newer one", "v0.6.0", "v0.5.0", "v0.6.0"},
		{"before the release", "v0.6.0", "v0.6.0-rc.1", "v0.6.0"},
		{"a working tree beside a release", "v0.6.0", "(devel)", "(devel)"},
		{"a release after a working tree", "(devel)", "v0.5.0", "v0.5.0"},
		{"nobody knows", "", "v0.5.0", "v0.5.0"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			stored, err := crds.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			stored.SetAnnotations(map[string]string{installcrds.VersionAnnotation: tc.stored})
			api := fake.NewClientBuilder().WithObjects(stored).Build()
			missing, err := (installcrds.Installer{Client: api, Discovery: serving(name), Names: []string{name}, Read: crds.Read, Version: tc.own}).Install(t.Context())
			if err != nil || len(missing) > 0 {
				t.Fatal(missing, err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatal(err)
			}
			if got := stored.GetAnnotations()[installcrds.VersionAnnotation]; got != tc.want {
				t.Errorf("the definition is of %s, want %s", got, tc.want)
			}
		})
	}
}

// A start does not compare definitions of its own version, as long as it is the version of
// one program.
func TestInstallTrustsItsVersion(t *testing.T) {
	for version, want := range map[string]string{"v0.5.0": "changed", "v0.5.0+dirty": "", "(devel)": ""} {
		stored, err := crds.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		stored.SetAnnotations(map[string]string{installcrds.VersionAnnotation: version})
		wanted := stored.DeepCopy()
		if err := unstructured.SetNestedField(stored.Object, "changed", "spec", "names", "singular"); err != nil {
			t.Fatal(err)
		}
		installed := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: stored.GetAnnotations()}}
		api := interceptor.NewClient(fake.NewClientBuilder().WithObjects(stored).Build(), interceptor.Funcs{
			List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error { // the fake lists no metadata of these
				list.(*metav1.PartialObjectMetadataList).Items = []metav1.PartialObjectMetadata{installed}
				return nil
			},
		})
		if _, err := (installcrds.Installer{Client: api, Discovery: serving(name), Names: []string{name}, Read: crds.Read, Version: version}).Install(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
			t.Fatal(err)
		}
		got, _, _ := unstructured.NestedString(stored.Object, "spec", "names", "singular")
		if want == "" {
			want, _, _ = unstructured.NestedString(wanted.Object, "spec", "names", "singular")
		}
		if got != want {
			t.Errorf("version %s: the singular name is %q, want %q", version, got, want)
		}
	}
}

// Install reports the kinds that clients do not discover.
func TestInstallNamesWhatIsMissing(t *testing.T) {
	installer := installcrds.Installer{Client: fake.NewClientBuilder().Build(), Names: []string{name}, Read: crds.Read}
	for _, test := range []struct {
		reason    string
		discovery discovery.ServerResourcesInterface
		missing   []string
	}{
		{"nothing is served", serving(), []string{name}},
		{"another kind of the group is served", serving("others.certplane.dev"), []string{name}},
		{"the kind is served", serving("others.certplane.dev", name), nil},
	} {
		t.Run(test.reason, func(t *testing.T) {
			installer.Discovery = test.discovery
			if missing, err := installer.Install(t.Context()); err != nil || !slices.Equal(missing, test.missing) {
				t.Errorf("missing %v, %v", missing, err)
			}
		})
	}
}

// A definition that is refused does not keep the installer from the others.
func TestInstallGoesOn(t *testing.T) {
	const other = "certificatepolicies.certplane.dev"
	api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if key.Name == name {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, key.Name, nil)
			}
			return api.Get(ctx, key, o, options...)
		},
	})
	installer := installcrds.Installer{Client: api, Discovery: serving(), Names: []string{name, other}, Read: crds.Read}
	missing, err := installer.Install(t.Context())
	if !apierrors.IsForbidden(errors.Unwrap(err)) && !strings.Contains(err.Error(), name) || !slices.Contains(missing, name) {
		t.Errorf("missing %v, %v", missing, err)
	}
	stored, readErr := crds.Read(other)
	if readErr != nil {
		t.Fatal(readErr)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
		t.Errorf("the other definition is not installed: %v", err)
	}
}

// serving returns a discovery client that reports these kinds as served, in one
// version each.
func serving(names ...string) discovery.ServerResourcesInterface {
	var lists []*metav1.APIResourceList
	for _, name := range names {
		resource := schema.ParseGroupResource(name)
		lists = append(lists, &metav1.APIResourceList{
			GroupVersion: resource.WithVersion("v1").GroupVersion().String(), APIResources: []metav1.APIResource{{Name: resource.Resource}},
		})
	}
	return &discoveryfake.FakeDiscovery{Fake: &clienttesting.Fake{Resources: lists}}
}
