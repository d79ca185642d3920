package define_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/certplane/certplane/internal/controller/define"
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
			definitions, err := crds.All()
			if err != nil {
				t.Fatal(err)
			}
			stored := definitions[0].DeepCopy()
			stored.SetAnnotations(map[string]string{define.VersionAnnotation: tc.stored})
			if err := unstructured.SetNestedSlice(stored.Object, []any{map[string]any{"type": "Established", "status": "True"}}, "status", "conditions"); err != nil {
				t.Fatal(err)
			}
			api := fake.NewClientBuilder().WithObjects(stored).Build()
			if err := (define.Installer{Client: api, Definitions: definitions, Version: tc.own}).Install(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := api.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatal(err)
			}
			if got := stored.GetAnnotations()[define.VersionAnnotation]; got != tc.want {
				t.Errorf("the definition is of %s, want %s", got, tc.want)
			}
		})
	}
}
