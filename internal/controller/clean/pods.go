package clean

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certificates"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/process/steadyclock"
	"github.com/certplane/certplane/internal/process/worker"
)

// PodConfig is the configuration of the cleaner of PodCertificateRequests.
type PodConfig struct {
	// API is the configuration with which the cleaner watches the API with its
	// own identity. It needs list, watch and delete on podcertificaterequests.
	API *rest.Config
	// Client deletes with the same identity.
	Client client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Settings are the user's settings.
	Settings Settings
	// Recorded is as in Config.
	Recorded func(kind string, request types.UID) bool
	// Clock is the clock; nil means the machine's clock, protected against jumps ahead.
	Clock clock.PassiveClock
	// Events, if not nil, records requests that end without an outcome.
	Events events.EventRecorder
	// Metrics, if not nil, is where the cleaner's metrics are registered.
	Metrics prometheus.Registerer
}

// AddPods adds the cleaner of PodCertificateRequests to mgr. It works while the
// API has such requests.
func AddPods(mgr ctrl.Manager, cfg PodConfig) error {
	if err := cfg.Settings.Validate(); err != nil {
		return err
	}
	if cfg.Clock == nil {
		cfg.Clock = steadyclock.New()
	}
	metrics, err := newPodMetrics(cfg.Metrics)
	if err != nil {
		return fmt.Errorf("registering the metrics of the cleaner of PodCertificateRequests: %w", err)
	}
	if err := mgr.Add(&podCleaner{PodConfig: cfg, metrics: metrics, await: newRecordWait(cfg.Recorded, cfg.Clock)}); err != nil {
		return fmt.Errorf("adding the cleaner of PodCertificateRequests: %w", err)
	}
	return nil
}

// podCleaner cleans while the API has PodCertificateRequests.
type podCleaner struct {
	PodConfig
	metrics *metrics
	await   *recordWait
}

// Start implements manager.Runnable.
func (p *podCleaner) Start(ctx context.Context) error {
	requests := worker.Resource{
		Group: certificatesv1.GroupName, Versions: []string{"v1", "v1beta1"}, Name: "podcertificaterequests", Lookup: p.Versions,
	}
	return requests.While(ctx, "podcertificaterequestcleaner", "Cleaning PodCertificateRequests", p.clean)
}

// clean handles the requests of one version until ctx ends.
func (p *podCleaner) clean(ctx context.Context, version string) error {
	requests, err := inprocess.NewCache(p.API, cache.Options{
		Scheme: p.Client.Scheme(), Mapper: p.Client.RESTMapper(), DefaultTransform: onlyWhatCounts,
	})
	if err != nil {
		return fmt.Errorf("making the cache of PodCertificateRequests: %w", err)
	}
	podAPI := certificates.PodRequestVersions[version]
	if err := requests.IndexField(ctx, podAPI.New(), byNode, func(o client.Object) []string { return []string{viewOf(o).Node} }); err != nil {
		return fmt.Errorf("indexing PodCertificateRequests: %w", err)
	}
	sweeper := &podSweeper{podCleaner: p, version: podAPI, requests: requests}
	cleaning, err := worker.New(ctx, "podcertificaterequestcleaner", sweeper, worker.Options{
		Concurrency: concurrency, FirstPause: firstPause, LastPause: lastPause, Timeout: workTimeout,
	}, source.Kind[client.Object](requests, podAPI.New(), sweeper.schedule()))
	if err != nil {
		return err
	}
	return worker.Run(ctx, requests, cleaning)
}
