package install

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/certplane/certplane/internal/policy/profile/readymade"
)

// SignerSettings is the stanza "podSigners".
type SignerSettings struct {
	// install names the ready-made Signers that are installed and kept up to
	// date:
	//
	//   - spiffe signs for certplane.dev/spiffe: X.509-SVIDs that name a pod
	//     spiffe://<trust domain>/ns/<namespace>/sa/<service account>.
	//   - service-dns signs for certplane.dev/service-dns: server certificates
	//     with the DNS names of the Services that select the pod and that its
	//     service account may claim (the verb claim on the Service).
	//   - kube-apiserver-client-pod signs for
	//     kubernetes.io/kube-apiserver-client-pod: client certificates with which
	//     pods are their service accounts to API servers.
	//   - acme-hosts signs for certplane.dev/acme-hosts: server certificates of hosts
	//     with ACME clients, for the names that their orders have proven. No other
	//     request is signed.
	//   - agent-hosts signs for certplane.dev/agent-hosts: server certificates of
	//     programs on hosts of agents, for the names that their service accounts
	//     list. "certplane host add" makes it too.
	//   - server signs for certplane.dev/server: server certificates for the DNS
	//     names and IP addresses that were requested and that a person has approved,
	//     for at most 90 days.
	//
	// If a user changes one of these Signers, the change stays and the Signer is no longer
	// updated. A deleted Signer is installed again. If a name is removed from the list, its
	// Signer stays: delete it by hand. Default: server in "certplane serve", none in
	// "certplane controllers".
	Install []string `json:"install,omitempty"`
	// trustDomain is the trust domain of spiffe: lower-case letters, digits, dots, hyphens
	// and underscores. Clients that trust the roots of an installation accept all its
	// certificates for the trust domain, so each installation needs its own trust domain.
	// No default: spiffe requires it.
	TrustDomain string `json:"trustDomain,omitempty"`
	// clusterDomain is the domain of the cluster's DNS, for service-dns.
	// Default: cluster.local.
	ClusterDomain string `json:"clusterDomain"`
}

// ServerCertificates is the Signer that "certplane serve" installs by default.
const ServerCertificates = readymade.Server

// DefaultSignerSettings returns the defaults.
func DefaultSignerSettings() SignerSettings {
	return SignerSettings{ClusterDomain: "cluster.local"}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s SignerSettings) Validate() error {
	_, err := s.Signers()
	return err
}

// Signers returns the Signers to install.
func (s SignerSettings) Signers() ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	for i, name := range s.Install {
		if slices.Contains(s.Install[:i], name) {
			return nil, fmt.Errorf("podSigners.install[%d]: %s is listed twice", i, name)
		}
		signer, err := readymade.Make(name, readymade.Parameters{TrustDomain: s.TrustDomain, ClusterDomain: s.ClusterDomain})
		if err != nil {
			return nil, fmt.Errorf("podSigners.%s: %w", s.culprit(name, i), err)
		}
		all = append(all, signer)
	}
	return all, nil
}

// culprit returns the invalid field if the named Signer cannot be created.
func (s SignerSettings) culprit(name string, i int) string {
	switch name {
	case readymade.SPIFFE:
		return "trustDomain"
	case readymade.ServiceDNS:
		return "clusterDomain"
	default:
		return fmt.Sprintf("install[%d]", i)
	}
}
