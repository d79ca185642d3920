// Package requestsign answers requests to Issuers and ClusterIssuers with
// certificates, or writes into their status why not.
package requestsign

import (
	"context"
	"fmt"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/issuing/engine"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/issuing/outcome"
	"github.com/certplane/certplane/internal/issuing/signer/metrics"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/tenant/fairqueue"
)

// Name is the controller's name on the command line.
const Name = "certificaterequests"

// Component is the controller's own name in managed fields and Events. For an
// issuer that has a type, the Component of that type is used.
const Component = "cert-manager-" + Name

// Config is the configuration of the controller.
type Config struct {
	// Config contains the dependencies of issuers. Client also needs get on
	// certificaterequests, and update and patch on their status.
	issuing.Config
	// Issuers are the issuers of all types.
	Issuers issuertypes.Issuers
	// Policies, if not nil, must permit each certificate.
	Policies *policies.Policies
	// OnCreate, if not nil, also answers requests within the calls that create them.
	OnCreate *issueoncreate.Hub
	// Records, if not nil, records each certificate before it is stored.
	Records *outcome.Records
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Events, if not nil, record what happened, in the name of the Component of
	// an issuer's type.
	Events map[certmanager.IssuerType]events.EventRecorder
	// Metrics, if not nil, is where the metrics of signers are registered.
	Metrics prometheus.Registerer
	// Syncs, if not nil, are the metrics of the work.
	Syncs *certmetrics.Metrics
}

// Add adds the controller to mgr, whose cache it reads. It works while the API
// has CertificateRequests.
func Add(mgr ctrl.Manager, cfg Config) error {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	counts, err := metrics.New(cfg.Metrics)
	if err != nil {
		return fmt.Errorf("registering the metrics of issuers: %w", err)
	}
	r := &reconciler{Config: cfg, cache: issueoncreate.Cache(mgr.GetCache()), metrics: counts, waiting: newWaiting()}
	if err := mgr.Add(r); err != nil {
		return fmt.Errorf("adding the CertificateRequest controllers: %w", err)
	}
	return nil
}

type reconciler struct {
	Config
	cache   cache.Cache
	metrics *metrics.Metrics
	waiting *waiting
}

// Start implements manager.Runnable.
func (r *reconciler) Start(ctx context.Context) error {
	return worker.OneVersion(cmv1.SchemeGroupVersion, "certificaterequests", r.Versions).While(ctx, Name, "Answering CertificateRequests", r.work)
}

func (r *reconciler) work(ctx context.Context, _ string) error {
	changes := issuing.Changes{Config: r.Config.Config, Cache: r.cache, Watches: r.Issuers.Watches()}
	answering := &engine.Requests[*cmv1.CertificateRequest]{
		Work: engine.Work{
			Name: Name, Count: r.Syncs.Count, Wakes: []source.Source{source.Func(r.waiting.follow(changes))},
			Options: worker.Options{Timeout: time.Minute},
		},
		Cache: r.cache, Clock: r.Clock, Order: fairqueue.New(r.Clock), Namespaced: true,
		New:     func() *cmv1.CertificateRequest { return &cmv1.CertificateRequest{} },
		NewList: func() client.ObjectList { return &cmv1.CertificateRequestList{} },
		Issuers: []engine.IssuerKind[*cmv1.CertificateRequest]{{Object: &cmv1.Issuer{}, Refers: refersTo}, {Object: &cmv1.ClusterIssuer{}, Refers: refersTo}},
		Due:     requests.Due, Begin: r.begin,
		Remind: remind, Recorder: r.Events[certmanager.NoType],
		Note: func(cr *cmv1.CertificateRequest, o outcome.Outcome) {
			if o.Final() {
				r.waiting.forget(client.ObjectKeyFromObject(cr))
			}
		},
		Forget: r.waiting.forget,
	}
	r.OnCreate.Start(ctx, issueoncreate.Step{
		Resource: cmv1.Resource("certificaterequests"), Role: issueoncreate.Sign, Reconciler: answering,
		Takes: func(o client.Object) bool {
			cr, ok := o.(*cmv1.CertificateRequest)
			return ok && requests.Due(cr) == requests.Sign
		},
	})
	return answering.Run(ctx)
}
