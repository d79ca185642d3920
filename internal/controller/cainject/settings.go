package cainject

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/certplane/certplane/internal/policy/injection"
)

// Settings is the stanza "caInjector".
type Settings struct {
	// targets are the kinds of objects that get CAs. Default: all four,
	// ValidatingWebhookConfiguration, MutatingWebhookConfiguration,
	// CustomResourceDefinition and APIService.
	Targets []string `json:"targets"`
	// certificates permits Certificates as sources of CAs, in addition to Secrets and the
	// API server. Default: true.
	Certificates bool `json:"certificates"`
	// namespace is the only namespace whose Secrets and Certificates are sources. With it,
	// "certplane manifests" prints rights to Secrets in this namespace only. Default: none,
	// which means all namespaces.
	Namespace string `json:"namespace,omitempty"`
	// ignoreNamespaces are namespaces whose Secrets and Certificates are not sources. It
	// cannot be used with namespace. Default: none.
	IgnoreNamespaces []string `json:"ignoreNamespaces,omitempty"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings { return Settings{Targets: injection.KindNames(), Certificates: true} }

// Validate returns an error for the first invalid value, with the name of its field.
func (s Settings) Validate() error {
	for i, name := range s.Targets {
		if injection.KindNamed(name) == nil {
			return fmt.Errorf("caInjector.targets[%d]: %q is not one of %s", i, name, strings.Join(injection.KindNames(), ", "))
		}
	}
	if s.Namespace != "" && len(s.IgnoreNamespaces) > 0 {
		return errors.New("caInjector.ignoreNamespaces: should not be used with namespace")
	}
	if problems := validation.IsDNS1123Label(s.Namespace); s.Namespace != "" && len(problems) > 0 {
		return fmt.Errorf("caInjector.namespace: %q cannot be a namespace: %s", s.Namespace, problems[0])
	}
	return nil
}

// reads reports whether objects in a namespace can be sources.
func (s Settings) reads(namespace string) bool {
	return (s.Namespace == "" || s.Namespace == namespace) && !slices.Contains(s.IgnoreNamespaces, namespace)
}
