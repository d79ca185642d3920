// Package readymade contains the Signers that are built into certplane.
package readymade

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki/spiffe"
)

//go:embed *.yaml
var files embed.FS

// The names of the built-in Signers.
const (
	SPIFFE                 = "spiffe"
	ServiceDNS             = "service-dns"
	KubeAPIServerClientPod = "kube-apiserver-client-pod"
	ACMEHosts              = "acme-hosts"
	AgentHosts             = "agent-hosts"
	Server                 = "server"
)

// ServerSignerName is the signer name of the Signer Server.
const ServerSignerName = v1alpha1.GroupName + "/" + Server

// Names returns the names of all Signers of this package.
func Names() []string {
	return []string{SPIFFE, ServiceDNS, KubeAPIServerClientPod, ACMEHosts, AgentHosts, Server}
}

// Parameters are the values that differ between installations.
type Parameters struct {
	// TrustDomain is the trust domain of the SPIFFE IDs. Only SPIFFE needs it.
	TrustDomain string
	// ClusterDomain is the domain of the cluster's DNS. Only ServiceDNS needs
	// it.
	ClusterDomain string
}

// Make returns the Signer with this name.
func Make(name string, p Parameters) (*unstructured.Unstructured, error) {
	if !slices.Contains(Names(), name) {
		return nil, fmt.Errorf("unknown Signer %q: use one of %s", name, strings.Join(Names(), ", "))
	}
	if err := p.check(name); err != nil {
		return nil, err
	}
	text, err := files.ReadFile(name + ".yaml")
	if err != nil {
		return nil, err
	}
	// Both have been validated: they contain no special characters of YAML or
	// CEL.
	filled := strings.NewReplacer("${TRUST_DOMAIN}", p.TrustDomain, "${CLUSTER_DOMAIN}", p.ClusterDomain).Replace(string(text))
	signer := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict([]byte(filled), &signer.Object); err != nil {
		return nil, fmt.Errorf("reading the Signer %s: %w", name, err)
	}
	return signer, nil
}

func (p Parameters) check(name string) error {
	switch name {
	case SPIFFE:
		return spiffe.CheckTrustDomain(p.TrustDomain)
	case ServiceDNS:
		if problems := validation.IsDNS1123Subdomain(p.ClusterDomain); len(problems) > 0 {
			return fmt.Errorf("%q is not a valid cluster domain: %s", p.ClusterDomain, strings.Join(problems, ", "))
		}
	}
	return nil
}
