package manifests

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultReplicas is the number of pods; one of them works at a time.
const DefaultReplicas = 2

// The resources of one process. Its memory is some 15 MiB, and 4 KiB to 8 KiB
// more for each request in the cluster. Most of its apparent memory is the
// program file, which need not be in memory.
var (
	defaultRequests = map[string]string{"cpu": "50m", "memory": "64Mi"}
	defaultLimits   = map[string]string{"memory": "512Mi"}
)

// size is how many pods there are, and how much they may use.
type size struct {
	replicas  int32
	resources corev1.ResourceRequirements
}

func sizeOf(cfg Config) (size, error) {
	if cfg.Replicas < 0 {
		return size{}, fmt.Errorf("--replicas: %d is not a number of pods", cfg.Replicas)
	}
	s := size{replicas: cmp.Or(cfg.Replicas, DefaultReplicas)}
	var err error
	if s.resources.Requests, err = quantities("--requests", defaultRequests, cfg.Requests); err != nil {
		return size{}, err
	}
	if s.resources.Limits, err = quantities("--limits", defaultLimits, cfg.Limits); err != nil {
		return size{}, err
	}
	for name, limit := range s.resources.Limits {
		if request, both := s.resources.Requests[name]; both && request.Cmp(limit) > 0 {
			return size{}, fmt.Errorf("--requests: %s of %s is more than the limit, %s", name, request.String(), limit.String())
		}
	}
	return s, nil
}

// quantities returns the given quantities on top of the defaults.
func quantities(flag string, defaults, given map[string]string) (corev1.ResourceList, error) {
	texts := maps.Clone(defaults)
	maps.Copy(texts, given)
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if _, known := defaultRequests[name]; !known {
			return nil, fmt.Errorf("%s: unknown resource %q: use %s", flag, name, strings.Join(slices.Sorted(maps.Keys(defaultRequests)), " or "))
		}
		quantity, err := resource.ParseQuantity(texts[name])
		if err != nil || quantity.Sign() < 0 {
			return nil, fmt.Errorf("%s: %q is not a quantity of %s, such as %s", flag, texts[name], name, defaultRequests[name])
		}
		if !quantity.IsZero() {
			list[corev1.ResourceName(name)] = quantity
		}
	}
	return list, nil
}

// env gives Go's garbage collector the limit from which it works harder: 7/8 of
// that of the pod.
func (s size) env() []corev1.EnvVar {
	limit, limited := s.resources.Limits[corev1.ResourceMemory]
	if !limited {
		return nil
	}
	const mebibyte = 1 << 20
	return []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: fmt.Sprintf("%dMiB", limit.Value()/8*7/mebibyte)}}
}
