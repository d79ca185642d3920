package policies

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/certplane/certplane/internal/policy/certpolicy/readymade"
)

// KubeletServing is the stanza "policy.kubeletServing".
type KubeletServing struct {
	// nodeZones are the DNS zones of the names of nodes, such as
	// nodes.example.com. No default: the policy kubelet-serving needs some.
	NodeZones []string `json:"nodeZones,omitempty"`
	// nodeCIDRs are the networks of the addresses of nodes, such as 10.0.0.0/8.
	// A kubelet writes the addresses of its Node itself: within these it can have
	// a certificate for any. No default: the policy kubelet-serving needs some.
	NodeCIDRs []string `json:"nodeCIDRs,omitempty"`
}

// Installed returns the ready-made policies that are to exist.
func (s Settings) Installed() ([]*unstructured.Unstructured, error) {
	parameters := readymade.Parameters{NodeZones: s.KubeletServing.NodeZones, NodeCIDRs: s.KubeletServing.NodeCIDRs}
	var all []*unstructured.Unstructured
	for i, name := range s.Install {
		if slices.Contains(s.Install[:i], name) {
			return nil, fmt.Errorf("policy.install[%d]: %s is listed twice", i, name)
		}
		if name == readymade.KubeletServing {
			if err := cmp.Or(parameters.CheckZones("policy.kubeletServing.nodeZones"), parameters.CheckCIDRs("policy.kubeletServing.nodeCIDRs")); err != nil {
				return nil, err
			}
		}
		policy, err := readymade.Make(name, parameters)
		if err != nil {
			return nil, fmt.Errorf("policy.install[%d]: %w", i, err)
		}
		all = append(all, policy)
	}
	return all, nil
}
