package bundles

import (
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Settings is the stanza "trustManager".
type Settings struct {
	// trustNamespace is the namespace of the ConfigMaps and Secrets that are sources of
	// Bundles. Users who may write there choose what the whole cluster trusts. Default in
	// "certplane serve": the value of certManager.clusterResourceNamespace. Default in
	// "certplane controllers": the namespace of the controllers' service accounts.
	TrustNamespace string `json:"trustNamespace,omitempty"`
	// targetNamespaces are the only namespaces that Bundles write to. Default: none, which
	// means all namespaces.
	TargetNamespaces []string `json:"targetNamespaces,omitempty"`
	// secretTargets are the names of the Bundles that may write Secrets; All permits it to
	// every Bundle. "certplane manifests" prints rights to these Secrets only. Default:
	// none.
	SecretTargets []string `json:"secretTargets,omitempty"`
	// filterExpired leaves expired certificates out of all targets. Default: false.
	FilterExpired bool `json:"filterExpired,omitempty"`
	// filterNonCA leaves out certificates that are not of a CA. Default: false.
	FilterNonCA bool `json:"filterNonCA,omitempty"`
	// defaultPackage is a file with the public CAs for the source useDefaultCAs: JSON with
	// the fields name, version and bundle (PEM), as in trust-manager's package images. It
	// is read again when it changes. Default: none.
	DefaultPackage string `json:"defaultPackage,omitempty"`
}

// AllSecretTargets is the entry of secretTargets that permits all names.
const AllSecretTargets = "All"

// Validate returns an error for the first invalid value, with the name of its field.
func (s Settings) Validate() error {
	if problems := validation.IsDNS1123Label(s.TrustNamespace); s.TrustNamespace != "" && len(problems) > 0 {
		return fmt.Errorf("trustManager.trustNamespace: %q cannot be a namespace: %s", s.TrustNamespace, problems[0])
	}
	for i, namespace := range s.TargetNamespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			return fmt.Errorf("trustManager.targetNamespaces[%d]: %q cannot be a namespace: %s", i, namespace, problems[0])
		}
	}
	for i, name := range s.SecretTargets {
		if problems := validation.IsDNS1123Subdomain(name); name != AllSecretTargets && len(problems) > 0 {
			return fmt.Errorf("trustManager.secretTargets[%d]: %q is neither %s nor the name of a Bundle: %s", i, name, AllSecretTargets, problems[0])
		}
	}
	if s.DefaultPackage != "" && filepath.Ext(s.DefaultPackage) != ".json" {
		return fmt.Errorf("trustManager.defaultPackage: %q must be the path of a file whose name ends in .json", s.DefaultPackage)
	}
	return nil
}

// writesTo reports whether a namespace can have targets.
func (s Settings) writesTo(namespace string) bool {
	return len(s.TargetNamespaces) == 0 || slices.Contains(s.TargetNamespaces, namespace)
}
