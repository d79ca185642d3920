package certmanager

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"

	api "github.com/certplane/certplane/internal/api/certmanager"
)

// cluster serves resources by group and version, the first version first.
type cluster struct {
	versions  []string
	resources map[string][]metav1.APIResource
	broken    error
	asked     int
}

func (c *cluster) ServerGroupsWithContext(context.Context) (*metav1.APIGroupList, error) {
	c.asked++
	group := metav1.APIGroup{Name: "example.com"}
	for _, version := range c.versions {
		group.Versions = append(group.Versions, metav1.GroupVersionForDiscovery{GroupVersion: version})
	}
	if len(group.Versions) == 0 {
		return &metav1.APIGroupList{}, c.broken
	}
	return &metav1.APIGroupList{Groups: []metav1.APIGroup{{Name: "other.com"}, group}}, c.broken
}

func (c *cluster) ServerResourcesForGroupVersionWithContext(_ context.Context, version string) (*metav1.APIResourceList, error) {
	return &metav1.APIResourceList{APIResources: c.resources[version]}, nil
}

var vault = schema.GroupKind{Group: "example.com", Kind: "Vault"}

func TestResources(t *testing.T) {
	status := metav1.APIResource{Name: "vaults/status", Kind: "Vault", Namespaced: true}
	tests := []struct {
		reason string
		in     cluster
		want   api.Resource
		err    error
	}{
		{"no group", cluster{}, api.Resource{}, api.ErrNoResource},
		{"no kind", cluster{versions: []string{"example.com/v1"}}, api.Resource{}, api.ErrNoResource},
		{"subresources are no kind", cluster{
			versions: []string{"example.com/v1"}, resources: map[string][]metav1.APIResource{"example.com/v1": {status}},
		}, api.Resource{}, api.ErrNoResource},
		{"of a namespace", cluster{versions: []string{"example.com/v1"}, resources: map[string][]metav1.APIResource{
			"example.com/v1": {status, {Name: "vaults", Kind: "Vault", Namespaced: true}},
		}}, api.Resource{Version: "v1", Name: "vaults", Namespaced: true}, nil},
		{"the first version that has it", cluster{versions: []string{"example.com/v2", "example.com/v1", "example.com/v1beta1"}, resources: map[string][]metav1.APIResource{
			"example.com/v1": {{Name: "vaults", Kind: "Vault"}}, "example.com/v1beta1": {{Name: "safes", Kind: "Vault"}},
		}}, api.Resource{Version: "v1", Name: "vaults"}, nil},
		{"nobody knows", cluster{broken: context.DeadlineExceeded}, api.Resource{}, context.DeadlineExceeded},
	}
	for _, tc := range tests {
		got, err := newResources(&tc.in).find(t.Context(), vault)
		if got != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %+v, %v", tc.reason, got, err)
		}
	}
}

// A found resource is kept. A missing kind is remembered for a while; a missing
// group never, because it may be about to be installed.
func TestResourcesAreRemembered(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	c := &cluster{}
	r := newResources(c)
	r.clock = clock
	asks := func(reason string, want int, wantErr error) {
		t.Helper()
		before := c.asked
		if _, err := r.find(t.Context(), vault); !errors.Is(err, wantErr) {
			t.Errorf("%s: %v", reason, err)
		}
		if got := c.asked - before; got != want {
			t.Errorf("%s: asked %d times, want %d", reason, got, want)
		}
	}
	asks("no group", 1, api.ErrNoResource)
	c.versions = []string{"example.com/v1"}
	asks("the group is new", 1, api.ErrNoResource)
	c.resources = map[string][]metav1.APIResource{"example.com/v1": {{Name: "vaults", Kind: "Vault"}}}
	asks("the kind was missing a moment ago", 0, api.ErrNoResource)
	clock.SetTime(clock.Now().Add(absence))
	asks("the kind was missing a while ago", 1, nil)
	c.broken = context.DeadlineExceeded
	asks("the kind is known", 0, nil)
}
