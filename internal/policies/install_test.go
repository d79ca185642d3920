package policies_test

import (
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/policies"
)

func TestInstallIsValidated(t *testing.T) {
	zones, networks := []string{"nodes.example.com"}, []string{"10.0.0.0/8"}
	tests := []struct {
		reason    string
		install   []string
		zones     []string
		networks  []string
		wantError string
	}{
		{reason: "nothing"},
		{reason: "all", install: []string{"kubelet-serving", "no-system-identities"}, zones: zones, networks: networks},
		{reason: "no zones", install: []string{"kubelet-serving"}, networks: networks, wantError: "policy.kubeletServing.nodeZones: must be given"},
		{reason: "no networks", install: []string{"kubelet-serving"}, zones: zones, wantError: "policy.kubeletServing.nodeCIDRs: must be given"},
		{reason: "a network that is none", install: []string{"kubelet-serving"}, zones: zones, networks: []string{"10.0.0.1/8"}, wantError: "policy.kubeletServing.nodeCIDRs[0]: "},
		{reason: "an unknown policy", install: []string{"no-system-identities", "web"}, wantError: `policy.install[1]: unknown policy "web"`},
		{reason: "one twice", install: []string{"no-system-identities", "no-system-identities"}, wantError: "policy.install[1]: no-system-identities is listed twice"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s := policies.DefaultSettings()
			s.Install, s.KubeletServing = tc.install, policies.KubeletServing{NodeZones: tc.zones, NodeCIDRs: tc.networks}
			err := s.Validate()
			if (err == nil) != (tc.wantError == "") || err != nil && !strings.HasPrefix(err.Error(), tc.wantError) {
				t.Errorf("got %v, want %s", err, tc.wantError)
			}
		})
	}
}
