package controllers

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/rights"
)

// none as an address serves nothing.
const none = "0"

// Options say how a process runs controllers.
type Options struct {
	// Namespace is where the service accounts are.
	Namespace string
	// As returns how to reach the API as a service account.
	As func(account string) (*rest.Config, error)
	// Metrics gets the controllers' metrics.
	Metrics prometheus.Registerer
	// Mapper knows the kinds of the API; nil asks it.
	Mapper func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// Lease lets one of several processes work at a time; nil if this one is alone.
	Lease *Lease
	// Announcement is what the log says once they do.
	Announcement string
	// Probes is the address of /healthz and /readyz, or "0".
	Probes string
	// StopTimeout is how long controllers may take to finish what they have begun;
	// nil for half a minute.
	StopTimeout *time.Duration
}

// NewProcess returns a process that has no controllers yet. Front ends, with the
// metrics among them, are no part of it.
func NewProcess(o Options) (Process, error) {
	useLogger()
	reader, err := o.As(rights.CacheAccount)
	if err != nil {
		return Process{}, err
	}
	kinds, err := newScheme()
	if err != nil {
		return Process{}, err
	}
	options := ctrl.Options{
		Scheme:                  kinds,
		MapperProvider:          o.Mapper,
		Cache:                   cache.Options{DefaultTransform: cache.TransformStripManagedFields()}, // no controller needs to know who wrote what
		Logger:                  klog.Background(),
		Metrics:                 metricsserver.Options{BindAddress: none},
		HealthProbeBindAddress:  o.Probes,
		GracefulShutdownTimeout: o.StopTimeout,
	}
	if err := o.Lease.apply(&options); err != nil {
		return Process{}, err
	}
	mgr, err := ctrl.NewManager(reader, options)
	if err != nil {
		return Process{}, fmt.Errorf("making the controller manager: %w", err)
	}
	p := Process{Manager: mgr, Reader: reader, Namespace: o.Namespace, As: o.As, Metrics: o.Metrics}
	return p, o.Lease.announce(mgr, o.Announcement)
}
