package controllermanager

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

// none as an address means that nothing is served.
const none = "0"

// Options say how a process runs controllers.
type Options struct {
	// Namespace is the namespace of the service accounts.
	Namespace string
	// As returns the configuration with which a service account reaches the
	// API.
	As func(account string) (*rest.Config, error)
	// Metrics is where the controllers' metrics are registered.
	Metrics prometheus.Registerer
	// Mapper maps the kinds of the API. If it is nil, discovery is used.
	Mapper func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// Lease ensures that only one of several processes works at a time. It is
	// nil if this process is the only one.
	Lease *Lease
	// Announcement is logged once the controllers work.
	Announcement string
	// Probes is the address of /healthz and /readyz, or "0".
	Probes string
	// StopTimeout is how long controllers may take to finish what they have
	// begun; nil means half a minute.
	StopTimeout *time.Duration
}

// NewProcess returns a process without controllers. Front ends, including that
// of the metrics, are not part of it.
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
		Cache:                   cache.Options{DefaultTransform: cache.TransformStripManagedFields()}, // no controller needs managed fields
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
