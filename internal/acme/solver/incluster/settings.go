package incluster

import (
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// path is where the settings are in a configuration file.
const path = "acme.http01.cluster"

// Settings is the stanza "acme.http01.cluster". It configures how HTTP-01 challenges are
// solved with pods.
type Settings struct {
	// solverImage is the container image of the pods that answer HTTP-01 challenges. It
	// must contain this program. Without it, such challenges are not presented, and their
	// status gives this reason. Default: none; "certplane manifests" fills in the image of
	// the controllers.
	SolverImage string `json:"solverImage,omitempty"`
	// solverCommand is the command of the pods, before the arguments --listen-port,
	// --domain, --token and --key. An empty list, [], runs the image's own entry point,
	// which the acmesolver image of cert-manager needs. Default: /certplane, acmesolver.
	SolverCommand []string `json:"solverCommand"`
	// resources are the resources of such a pod. Issuers can set other values in their
	// podTemplate.
	Resources SolverResources `json:"resources"`
	// runAsNonRoot makes nodes refuse to run such a pod as root. Issuers can have
	// another value in their podTemplate. Default: true.
	RunAsNonRoot bool `json:"runAsNonRoot"`
	// extraLabels are additional labels of such pods. The labels that select a pod are
	// ignored here. Default: none.
	ExtraLabels map[string]string `json:"extraLabels,omitempty"`
	// runtimeClassName is the RuntimeClass of such pods. Default: none, which is
	// the cluster's default.
	RuntimeClassName string `json:"runtimeClassName,omitempty"`
	// pathTypeExact gives the paths in Ingresses the type Exact. If false, the type is
	// ImplementationSpecific, for Ingress controllers that do not support Exact. Default:
	// true.
	PathTypeExact bool `json:"pathTypeExact"`
	// enableGatewayAPI allows the solver http01.gatewayHTTPRoute, for which the cluster
	// must have the Gateway API. If false, challenges with this solver are not presented,
	// and their status gives this reason. Default: false.
	EnableGatewayAPI bool `json:"enableGatewayAPI"`
}

// SolverResources is the stanza "acme.http01.cluster.resources".
type SolverResources struct {
	// requests are the resources that the node reserves for a pod.
	Requests SolverRequests `json:"requests"`
	// limits are the maximum resources of a pod.
	Limits SolverLimits `json:"limits"`
}

// SolverRequests is the stanza "acme.http01.cluster.resources.requests".
type SolverRequests struct {
	// cpu is a quantity such as 10m. 0 requests none. Default: 10m.
	CPU resource.Quantity `json:"cpu"`
	// memory is a quantity such as 64Mi. 0 requests none. Default: 64Mi.
	Memory resource.Quantity `json:"memory"`
}

// SolverLimits is the stanza "acme.http01.cluster.resources.limits".
type SolverLimits struct {
	// cpu is a quantity such as 100m, at least that of requests. 0 is no limit.
	// Default: 100m.
	CPU resource.Quantity `json:"cpu"`
	// memory is a quantity such as 64Mi, at least that of requests. A pod that
	// needs more is killed and started again. 0 is no limit. Default: 64Mi.
	Memory resource.Quantity `json:"memory"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	memory := resource.MustParse("64Mi")
	return Settings{
		SolverCommand: []string{"/certplane", "acmesolver"},
		Resources: SolverResources{
			Requests: SolverRequests{CPU: resource.MustParse("10m"), Memory: memory},
			Limits:   SolverLimits{CPU: resource.MustParse("100m"), Memory: memory},
		},
		RunAsNonRoot:  true,
		PathTypeExact: true,
	}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s Settings) Validate() error {
	if err := metav1validation.ValidateLabels(s.ExtraLabels, field.NewPath(path, "extraLabels")).ToAggregate(); err != nil {
		return err
	}
	if problems := validation.IsDNS1123Subdomain(s.RuntimeClassName); s.RuntimeClassName != "" && len(problems) > 0 {
		return fmt.Errorf("%s.runtimeClassName: %q cannot be a RuntimeClass: %s", path, s.RuntimeClassName, problems[0])
	}
	r := s.Resources
	return errors.Join(
		checkLimit("cpu", r.Requests.CPU, r.Limits.CPU),
		checkLimit("memory", r.Requests.Memory, r.Limits.Memory),
	)
}

func checkLimit(name string, request, limit resource.Quantity) error {
	switch {
	case request.Sign() < 0:
		return fmt.Errorf("%s.resources.requests.%s: %s must not be negative", path, name, &request)
	case limit.Sign() < 0:
		return fmt.Errorf("%s.resources.limits.%s: %s must not be negative", path, name, &limit)
	case !limit.IsZero() && limit.Cmp(request) < 0:
		return fmt.Errorf("%s.resources.limits.%s: %s must be at least the request, %s", path, name, &limit, &request)
	}
	return nil
}
