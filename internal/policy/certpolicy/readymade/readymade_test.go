package readymade_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/certpolicy/readymade"
)

var parameters = readymade.Parameters{NodeZones: []string{"nodes.example.com"}, NodeCIDRs: []string{"10.0.0.0/8", "fd00::/8"}}

// Each policy is read strictly and is valid, without warnings.
func TestPolicies(t *testing.T) {
	for _, name := range readymade.Names() {
		object, err := readymade.Make(name, parameters)
		if err != nil {
			t.Fatal(err)
		}
		p := &v1alpha1.CertificatePolicy{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, p, true); err != nil {
			t.Fatal(err)
		}
		if _, errs, warnings := certpolicy.Compile(p); len(errs)+len(warnings) > 0 || p.Name != name {
			t.Errorf("%s has the name %s, errors %v, warnings %v", name, p.Name, errs, warnings)
		}
		if names := p.Spec.Certificate; name == readymade.KubeletServing &&
			(!slices.Equal(names.Names.DNS.Zones, parameters.NodeZones) || !slices.Equal(names.Names.IP.CIDRs, parameters.NodeCIDRs)) {
			t.Errorf("it permits %v, %v", names.Names.DNS, names.Names.IP)
		}
	}
}

func TestMakeRefuses(t *testing.T) {
	tests := []struct {
		reason, name string
		change       func(*readymade.Parameters)
		want         string
	}{
		{"an unknown name", "web", func(*readymade.Parameters) {}, `unknown policy "web": use one of kubelet-serving, no-system-identities`},
		{"no zones", readymade.KubeletServing, func(p *readymade.Parameters) { p.NodeZones = nil }, "nodeZones: must be given"},
		{"no networks", readymade.KubeletServing, func(p *readymade.Parameters) { p.NodeCIDRs = nil }, "nodeCIDRs: must be given"},
		{"a pattern", readymade.KubeletServing, func(p *readymade.Parameters) { p.NodeZones = []string{"*.example.com"} }, `nodeZones[0]: "*.example.com" is not a DNS zone`},
		{"a variable", readymade.KubeletServing, func(p *readymade.Parameters) { p.NodeZones = []string{"{node}"} }, `nodeZones[0]: "{node}" is not a DNS zone`},
		{"bits of a host", readymade.KubeletServing, func(p *readymade.Parameters) { p.NodeCIDRs = []string{"10.0.0.1/8"} }, "nodeCIDRs[0]: "},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			p := parameters
			tc.change(&p)
			if _, err := readymade.Make(tc.name, p); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %s", err, tc.want)
			}
		})
	}
	if _, err := readymade.Make(readymade.NoSystemIdentities, readymade.Parameters{}); err != nil {
		t.Errorf("it needs no parameters: %v", err)
	}
}
