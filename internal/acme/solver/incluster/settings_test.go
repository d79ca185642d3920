package incluster_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/acme/solver/incluster"
)

func TestSettings(t *testing.T) {
	tests := []struct {
		change func(*incluster.Settings)
		path   string
		reason string
	}{
		{func(*incluster.Settings) {}, "", "the defaults work"},
		{func(s *incluster.Settings) { s.ExtraLabels = map[string]string{"a b": "c"} }, "extraLabels", "the API would refuse each pod"},
		{func(s *incluster.Settings) { s.RuntimeClassName = "no_class" }, "runtimeClassName", "the API would refuse each pod"},
		{func(s *incluster.Settings) { s.Resources.Limits.Memory = resource.MustParse("1Mi") }, "resources.limits.memory", "the limit is below the request"},
		{func(s *incluster.Settings) { s.Resources.Requests.CPU = resource.MustParse("-1") }, "resources.requests.cpu", "nothing is less than none"},
		{func(s *incluster.Settings) { s.Resources.Limits.CPU = resource.MustParse("-1") }, "resources.limits.cpu", "nothing is less than none"},
		{func(s *incluster.Settings) { s.Resources.Limits = incluster.SolverLimits{} }, "", "0 is no limit"},
	}
	for _, test := range tests {
		settings := incluster.DefaultSettings()
		test.change(&settings)
		err := settings.Validate()
		if test.path == "" && err != nil {
			t.Errorf("%s: %v", test.reason, err)
		}
		if test.path != "" && (err == nil || !strings.HasPrefix(err.Error(), "acme.http01.cluster."+test.path+":")) {
			t.Errorf("%s: got %v, want an error of %s", test.reason, err, test.path)
		}
	}
}

// A file changes the defaults field by field. An empty command is not the same
// as none.
func TestSettingsFromFile(t *testing.T) {
	const file = `
solverCommand: []
resources: {limits: {cpu: 1, memory: 0}}
runAsNonRoot: false
`
	got, want := incluster.DefaultSettings(), incluster.DefaultSettings()
	if err := yaml.UnmarshalStrict([]byte(file), &got); err != nil {
		t.Fatal(err)
	}
	want.SolverCommand = []string{}
	want.Resources.Limits = incluster.SolverLimits{CPU: resource.MustParse("1")}
	want.RunAsNonRoot = false
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
