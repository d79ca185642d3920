// Package readymade contains the CertificatePolicies that are built into
// certplane.
package readymade

import (
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/policy/names"
)

//go:embed *.yaml
var files embed.FS

// The names of the built-in policies.
const (
	KubeletServing     = "kubelet-serving"
	NoSystemIdentities = "no-system-identities"
)

// Names returns the names of all policies of this package.
func Names() []string { return []string{KubeletServing, NoSystemIdentities} }

// Parameters are the values that differ between installations. Only
// KubeletServing needs them, both.
type Parameters struct {
	// NodeZones are the zones of the DNS names of nodes.
	NodeZones []string
	// NodeCIDRs are the networks of the addresses of nodes.
	NodeCIDRs []string
}

// CheckZones returns what is wrong with NodeZones, which stand at path.
func (p Parameters) CheckZones(path string) error {
	if len(p.NodeZones) == 0 {
		return errors.New(path + ": must be given for " + KubeletServing + ": the DNS zones in which nodes have their names, such as nodes.example.com")
	}
	for i, zone := range p.NodeZones {
		if _, err := names.ParseZone(zone); err != nil || strings.Contains(zone, "{") {
			return fmt.Errorf("%s[%d]: %q is not a DNS zone", path, i, zone)
		}
	}
	return nil
}

// CheckCIDRs returns what is wrong with NodeCIDRs, which stand at path.
func (p Parameters) CheckCIDRs(path string) error {
	if len(p.NodeCIDRs) == 0 {
		return errors.New(path + ": must be given for " + KubeletServing + ": the networks in which nodes have their addresses, such as 10.0.0.0/8")
	}
	for i, text := range p.NodeCIDRs {
		if _, err := names.ParseCIDR(text); err != nil {
			return fmt.Errorf("%s[%d]: %w", path, i, err)
		}
	}
	return nil
}

// Make returns the policy with this name.
func Make(name string, p Parameters) (*unstructured.Unstructured, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("unknown policy %q: use one of %s", name, strings.Join(Names(), ", "))
	}
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, err
	}
	policy := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(text, &policy.Object); err != nil {
		return nil, fmt.Errorf("reading the policy %s: %w", name, err)
	}
	if name != KubeletServing {
		return policy, nil
	}
	if err := errors.Join(p.CheckZones("nodeZones"), p.CheckCIDRs("nodeCIDRs")); err != nil {
		return nil, err
	}
	err = errors.Join(
		unstructured.SetNestedStringSlice(policy.Object, p.NodeZones, "spec", "certificate", "names", "dns", "zones"),
		unstructured.SetNestedStringSlice(policy.Object, p.NodeCIDRs, "spec", "certificate", "names", "ip", "cidrs"),
	)
	return policy, err
}
