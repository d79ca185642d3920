package apiserver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
)

// APIConfig is the stanza "api" of the server's configuration.
type APIConfig struct {
	// runtimeConfig switches API versions on (true) or off (false). It accepts
	// "certificates.k8s.io/v1beta1", the deprecated versions that older clients
	// use (CertificateSigningRequests before Kubernetes 1.19, the other kinds
	// before 1.37), and "certificates.k8s.io/v1alpha1", the first version of
	// trust bundles. Default: all on.
	RuntimeConfig map[string]bool `json:"runtimeConfig,omitempty"`
	// featureGates switches features on (true) or off (false). It accepts
	// "CSRDuration" (KEP-2784, default on: with it off, create drops
	// spec.expirationSeconds) and "CBOR" (KEP-4222, default on: clients may use
	// CBOR).
	FeatureGates map[string]bool `json:"featureGates,omitempty"`
	// profiling serves Go's profiles of the server's time and memory under
	// /debug/pprof/ to users who may get that path: by default, only
	// system:masters. It costs nothing until a profile is requested. Default:
	// true.
	Profiling bool `json:"profiling"`
	// issueOnCreate lets requests be approved and signed within the calls that create
	// them, where a policy or a Signer allows that (issueOnCreate there). Default: true.
	IssueOnCreate bool `json:"issueOnCreate"`
	// limits limits requests and connections.
	Limits LimitsConfig `json:"limits"`

	// Lean are the names of definitions that are served like those of
	// cert-manager.io, so that the two ways to serve one can be compared.
	Lean []string `json:"-"`
}

// The switches of APIConfig.
const (
	runtimeV1beta1     = certificatesv1beta1.GroupName + "/v1beta1"
	runtimeV1alpha1    = certificatesv1beta1.GroupName + "/v1alpha1"
	featureCSRDuration = "CSRDuration"
	featureCBOR        = "CBOR"
)

// DefaultAPIConfig returns a configuration with every switch in its default
// position.
func DefaultAPIConfig() APIConfig {
	return APIConfig{
		RuntimeConfig: map[string]bool{runtimeV1beta1: true, runtimeV1alpha1: true},
		FeatureGates:  map[string]bool{featureCSRDuration: true, featureCBOR: true},
		Profiling:     true,
		IssueOnCreate: true,
		Limits:        defaultLimits(),
	}
}

// Validate returns an error for switches that do not exist.
func (c APIConfig) Validate() error {
	known := DefaultAPIConfig()
	if err := checkKnown("api.runtimeConfig", c.RuntimeConfig, known.RuntimeConfig); err != nil {
		return err
	}
	if err := checkKnown("api.featureGates", c.FeatureGates, known.FeatureGates); err != nil {
		return err
	}
	return c.Limits.validate()
}

// servesV1beta1 and the methods below return one switch; an absent one is in
// its default position.
func (c APIConfig) servesV1beta1() bool  { return switched(c.RuntimeConfig, runtimeV1beta1) }
func (c APIConfig) servesV1alpha1() bool { return switched(c.RuntimeConfig, runtimeV1alpha1) }
func (c APIConfig) csrDuration() bool    { return switched(c.FeatureGates, featureCSRDuration) }
func (c APIConfig) cbor() bool           { return switched(c.FeatureGates, featureCBOR) }

// switched returns the position of a switch that is on by default.
func switched(switches map[string]bool, name string) bool {
	on, set := switches[name]
	return on || !set
}

func checkKnown(field string, switches, known map[string]bool) error {
	for _, name := range slices.Sorted(maps.Keys(switches)) {
		if _, ok := known[name]; !ok {
			return fmt.Errorf("%s: unknown name %q; known: %s", field, name,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
	return nil
}
