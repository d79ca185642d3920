package installcrds_test

import (
	"context"
	"math"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
			if err := (installcrds.Installer{Client: api, Discovery: serving(name), Names: []string{name}, Read: crds.Read, Version: tc.own}).Install(t.Context()); err != nil {
				t.Fatal(err)
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

// Install waits until clients discover the kinds.
func TestInstallWaitsForDiscovery(t *testing.T) {
	installer := installcrds.Installer{Client: fake.NewClientBuilder().Build(), Names: []string{name}, Read: crds.Read}
	for _, test := range []struct {
		reason    string
		discovery discovery.ServerResourcesInterface
		served    bool
	}{
		{"nothing is served", serving(), false},
		{"another kind of the group is served", serving("others.certplane.dev"), false},
		{"the kind is served", serving("others.certplane.dev", name), true},
	} {
		t.Run(test.reason, func(t *testing.T) {
			installer.Discovery = test.discovery
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if err := installer.Install(ctx); (err == nil) != test.served {
				t.Errorf("Install answers %v", err)
			}
		})
	}
}

// The installer can get its rights later than the first attempt.
func TestInstallTriesAgain(t *testing.T) {
	refusals := 3
	api := interceptor.NewClient(fake.NewClientBuilder().Build(), interceptor.Funcs{
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			if refusals--; refusals >= 0 {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "customresourcedefinitions"}, key.Name, nil)
			}
			return api.Get(ctx, key, o, options...)
		},
	})
	installer := installcrds.Installer{Client: api, Discovery: serving(name), Names: []string{name}, Read: crds.Read}
	if err := installer.Install(t.Context()); err != nil {
		t.Fatal(err)
	}
	refusals = math.MaxInt
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := installer.Install(ctx); !apierrors.IsForbidden(err) {
		t.Errorf("without rights it answers %v", err)
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
