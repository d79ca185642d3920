package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/controllers"
)

// stopTimeout is how long controllers may take to finish what they have begun.
// Pods are killed after 30 s.
const stopTimeout = 20 * time.Second

// newManager returns what runs the controllers, with the lease, the probes and
// the metrics.
func newManager(cfg Config, own, reader *rest.Config) (ctrl.Manager, error) {
	controllers.UseLogger()
	metrics, err := metricsOptions(cfg.Metrics, own)
	if err != nil {
		return nil, err
	}
	kinds, err := controllers.NewScheme()
	if err != nil {
		return nil, err
	}
	election := cfg.LeaderElection
	options := ctrl.Options{
		Scheme:                  kinds,
		Logger:                  klog.Background(),
		Cache:                   cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		LeaderElectionConfig:    own,
		LeaderElectionID:        election.ResourceName,
		LeaderElectionNamespace: cfg.LeaseNamespace(),
		Metrics:                 metrics,
		HealthProbeBindAddress:  cfg.Health.BindAddress,
		GracefulShutdownTimeout: ptr.To(stopTimeout),
	}
	if election.LeaderElect {
		election.Elect(&options)
	}
	mgr, err := ctrl.NewManager(reader, options)
	if err != nil {
		return nil, fmt.Errorf("making the controller manager: %w", err)
	}
	return mgr, addProbes(mgr)
}

// addProbes makes /healthz say whether the process answers and /readyz whether
// it could work now, with the lease or waiting for it. The API's health is no
// part of either: no restart of this process mends that.
func addProbes(mgr ctrl.Manager) error {
	var started atomic.Bool
	synced := func(request *http.Request) error {
		ctx, cancel := context.WithTimeout(request.Context(), time.Second)
		defer cancel()
		if !started.Load() || !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("the caches are not filled yet")
		}
		return nil
	}
	return errors.Join(
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("caches", synced),
		mgr.Add(standby{func() { started.Store(true) }}),
	)
}

// standby runs a function once the caches run, with or without the lease.
type standby struct{ run func() }

var _ manager.LeaderElectionRunnable = standby{}

// Start implements manager.Runnable.
func (s standby) Start(context.Context) error { s.run(); return nil }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (standby) NeedLeaderElection() bool { return false }
