// Package podsign answers PodCertificateRequests of declared signers with
// certificates, or writes into their status why not.
package podsign

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/issuing/signer/metrics"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/process/worker"
)

// Config is the configuration of the controller.
type Config struct {
	// Cache is the configuration with which the API is watched: with the
	// identity of the cache that all controllers share. It needs get, list and
	// watch on podcertificaterequests, pods, serviceaccounts, nodes, namespaces
	// and services.
	Cache *rest.Config
	// Client is the signer's own identity. It needs get on the same resources,
	// update on podcertificaterequests/status, sign on the signers and create
	// on subjectaccessreviews. It must read past caches.
	Client client.Client
	// Versions returns the resources of a version of the API.
	Versions worker.Lookup
	// Signers are the declared signers.
	Signers *declared.Set
	// Policies, if not nil, must permit each certificate.
	Policies *policies.Policies
	// OnCreate, if not nil, also answers requests within the calls that create them.
	OnCreate *issueoncreate.Hub
	// Records, if not nil, records each certificate before it is stored.
	Records *outcome.Records
	// Settings are the user's settings.
	Settings Settings
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, records what happened in the signer's name.
	Events events.EventRecorder
	// Metrics, if not nil, is where the signers' metrics are registered.
	Metrics prometheus.Registerer
}

// versions are the API versions in which requests of pods can be signed.
// Requests in the form of Kubernetes 1.35 are visible only in the older one.
var versions = []string{"v1beta1", "v1"}

// podRequest is a PodCertificateRequest in the version that can hold
// everything.
type podRequest = certificatesv1beta1.PodCertificateRequest

// Add adds the controller to mgr. It works while the API has
// PodCertificateRequests.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	counts, err := metrics.New(cfg.Metrics)
	if err != nil {
		return fmt.Errorf("registering the metrics of the signers of pods: %w", err)
	}
	c := &controller{
		Config: cfg, metrics: counts, claims: newClaims(cfg.Client, cfg.Clock),
		warnings: flowcontrol.NewTokenBucketPassiveRateLimiter(warningRate, warningBurst),
	}
	if err := mgr.Add(c); err != nil {
		return fmt.Errorf("adding the signers of pods: %w", err)
	}
	return nil
}

// controller works while the API has PodCertificateRequests.
type controller struct {
	Config
	metrics *metrics.Metrics
	claims  *claims
	// warnings limits Events about requests that wait.
	warnings flowcontrol.PassiveRateLimiter
}

// Start implements manager.Runnable.
func (c *controller) Start(ctx context.Context) error {
	requests := worker.Resource{Group: certificatesv1.GroupName, Versions: versions, Name: "podcertificaterequests", Lookup: c.Versions}
	return requests.While(ctx, "podsign", "Signing pods' certificates", c.work)
}
