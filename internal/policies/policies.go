// Package policies decides about requests by the certificate policies and the
// facts of an API.
//
// A process has one Policies, which its admission, approvers and signers ask:
// the decision itself is that of package certpolicy.
package policies

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	certificatesv1alpha1 "k8s.io/api/certificates/v1alpha1"
	certificatesv1beta1 "k8s.io/api/certificates/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/policies/journal"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/worker"
)

// Config is what decisions need.
type Config struct {
	// API is the configuration with which policies and facts are read. It needs
	// get, list and watch on certificatepolicies, certificatepolicyexceptions,
	// certificaterequestpolicies where they are enforced, namespaces, nodes,
	// certificates and requests of all kinds, list on clustertrustbundles, and create
	// on subjectaccessreviews. With list and watch on the objects of
	// rbac.authorization.k8s.io, requests are decided again at once when these change.
	API *rest.Config
	// Mapper maps the kinds of the API. If it is nil, discovery is used.
	Mapper func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// Access answers what match.access of policies asks; nil asks the API.
	Access AccessFunc
	// KeepAnswers keeps for some seconds what Access has answered: where the API is
	// another process.
	KeepAnswers bool
	// Controllers are usernames of certplane's own controllers of Certificates.
	Controllers []string
	// Certificates says how the requests for Certificates are made.
	Certificates CertificateRequester
	// BuiltIn are the names of the built-in signers that sign here.
	BuiltIn []string
	// Kubelets is the built-in policy for the requests of kubelets.
	Kubelets approval.Policy
	Settings Settings
	// Seals opens and seals the approvals of people. It may be nil: then no
	// approval by several people can be counted.
	Seals *Seals
	// Namespace has the ConfigMaps in which the quotas of policies are counted.
	// API needs create on configmaps there, and get and update on LedgerNames.
	Namespace string
	// Defined means that the API has policies, or will have them soon. Otherwise an
	// API that does not know the kind has no policies.
	Defined bool
	// Metrics, if not nil, gets what is decided.
	Metrics prometheus.Registerer
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
}

// Policies decides about requests by the policies of an API. It is safe for
// concurrent use.
type Policies struct {
	settings Settings
	// certificates says how the requests for Certificates are made.
	certificates CertificateRequester

	source  *source
	facts   *Facts
	seals   *Seals
	defined bool
	counts  *counts
	quotas  *ledger
	clock   clock.PassiveClock

	judged    judged
	answers   *answers
	undecided *undecided
	metrics   *metrics
	waiting   *waiting
	freshness *freshness
	journal   *journal.Journal
	// recorded are decisions, reported are Events.
	recorded, reported *said
	// decided are decisions of approvers that are being written.
	decided decisions

	api      dynamic.Interface
	metadata metadata.Interface
	keys     *keys
	// authorities are the CAs of signers.
	authorities *authorities
	kinds       discovery.DiscoveryInterfaceWithContext
	objects     cache.Cache
}

// New returns Policies, which know nothing before Run. They have to be closed.
func New(cfg Config) (*Policies, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Mapper == nil {
		cfg.Mapper = apiutil.NewDynamicRESTMapper
	}
	p := &Policies{settings: cfg.Settings, certificates: cfg.Certificates, source: newSource(cfg.Clock, cfg.Settings), seals: cfg.Seals, defined: cfg.Defined, counts: newCounts(cfg.Clock), judged: newJudged(), undecided: newUndecided(), clock: cfg.Clock}
	if err := p.connect(cfg); err != nil {
		return nil, fmt.Errorf("making the clients that read certificate policies: %w", err)
	}
	if err := p.openRecords(cfg); err != nil {
		return nil, err
	}
	return p, nil
}

// openRecords opens what decisions are counted and logged in.
func (p *Policies) openRecords(cfg Config) (err error) {
	p.recorded, p.reported, p.decided = newSaid(), newSaid(), decisions{lru.New(beingWritten)}
	if p.metrics, err = newMetrics(cfg.Metrics); err != nil {
		return err
	}
	p.waiting = newWaiting(p.metrics.waiting)
	p.Subscribe(func(struct{}) {
		if set, err := p.Set(); err == nil {
			p.waiting.keep(set)
			p.undecided.keep(p.Concern)
			p.metrics.inForce(set)
		}
	})
	p.journal, err = journal.Open(journal.Config{Settings: cfg.Settings.DecisionLog, Metrics: cfg.Metrics})
	return err
}

// Close writes the rest of the decision log. What is decided later is not logged.
func (p *Policies) Close() { p.journal.Close() }

func (p *Policies) connect(cfg Config) error {
	kinds := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(kinds), certmanager.AddToScheme(kinds), v1alpha1.AddToScheme(kinds), authorizationv1.AddToScheme(kinds),
		certificatesv1.AddToScheme(kinds), certificatesv1beta1.AddToScheme(kinds), certificatesv1alpha1.AddToScheme(kinds)); err != nil {
		return err
	}
	httpClient, err := rest.HTTPClientFor(cfg.API)
	if err != nil {
		return err
	}
	mapper, err := cfg.Mapper(cfg.API, httpClient)
	if err != nil {
		return err
	}
	api, err := dynamic.NewForConfigAndClient(cfg.API, httpClient)
	if err != nil {
		return err
	}
	p.freshness = newFreshness(cfg.Clock)
	p.api = tracked{api, p.freshness}
	if p.metadata, err = metadata.NewForConfigAndClient(cfg.API, httpClient); err != nil {
		return err
	}
	direct, err := inprocess.NewClient(cfg.API, client.Options{HTTPClient: httpClient, Scheme: kinds, Mapper: mapper})
	if err != nil {
		return err
	}
	p.authorities = &authorities{api: direct}
	p.keys = &keys{api: api, seals: cfg.Seals, authorities: p.authorities}
	discover, err := discovery.NewDiscoveryClientForConfigAndClient(cfg.API, httpClient)
	if err != nil {
		return err
	}
	p.kinds, p.keys.kinds = discover, discover.ServerResourcesForGroupVersionWithContext
	core, err := corev1client.NewForConfigAndClient(cfg.API, httpClient)
	if err != nil {
		return err
	}
	p.quotas = newLedger(core.ConfigMaps(cfg.Namespace), cfg.Clock)
	// Each kind is followed from the first decision on that needs it.
	p.objects, err = inprocess.NewCache(cfg.API, cache.Options{
		HTTPClient: httpClient, Scheme: kinds, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: stripNode}},
	})
	if err != nil {
		return err
	}
	if cfg.Access == nil {
		cfg.Access = Reviews(direct)
	}
	if cfg.KeepAnswers {
		p.answers = newAnswers(cfg.Access, cfg.Clock)
		cfg.Access = p.answers.ask
	}
	p.facts = &Facts{
		Objects: p.objects, Orders: NewOrders(direct, cfg.Clock.Now), Access: cfg.Access, Controllers: append(cfg.Controllers, cfg.Settings.CertificateControllers...),
		BuiltIn: cfg.BuiltIn, Kubelets: cfg.Kubelets,
	}
	return nil
}

// stripNode keeps only what policies can read of nodes.
func stripNode(object any) (any, error) {
	if node, ok := object.(*corev1.Node); ok {
		node.ManagedFields = nil
		node.Spec = corev1.NodeSpec{ProviderID: node.Spec.ProviderID}
		node.Status = corev1.NodeStatus{Addresses: node.Status.Addresses}
	}
	return object, nil
}

// Run follows the policies until ctx ends.
func (p *Policies) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.objects.Start(ctx) })
	group.Go(func() error { p.follow(ctx); return nil })
	group.Go(func() error { p.showAge(ctx); return nil })
	group.Go(func() error { p.followKeys(ctx); return nil })
	group.Go(func() error { p.followFacts(ctx); return nil })
	return group.Wait()
}

func (p *Policies) follow(ctx context.Context) {
	resource := worker.OneVersion(v1alpha1.GroupVersion, PoliciesResource.Resource, p.kinds.ServerResourcesForGroupVersionWithContext)
	if version, err := resource.Version(ctx); version == "" && err == nil && !p.defined {
		p.source.none()
	}
	resource.Follow(ctx, "Following certificate policies", func(ctx context.Context, _ string) error { return p.source.follow(ctx, p.api) })
}

// none puts an empty set into force, for an API without policies.
func (s *source) none() {
	s.mu.Lock()
	if s.current.Load() == nil {
		s.publish()
	}
	s.mu.Unlock()
	s.changes.Tell(struct{}{})
}

// WaitUntilKnown waits until the policies are known, and reports whether ctx has
// not ended before.
func (p *Policies) WaitUntilKnown(ctx context.Context) bool {
	known, cancel := worker.Changed(p.Subscribe)
	defer cancel()
	if _, err := p.Set(); err == nil {
		return true
	}
	select {
	case <-ctx.Done():
		return false
	case <-known:
		return true
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable: every process
// follows the policies.
func (*Policies) NeedLeaderElection() bool { return false }

// Start implements manager.Runnable.
func (p *Policies) Start(ctx context.Context) error { return p.Run(ctx) }

// ErrUnknown means that it is not known yet which policies there are.
var ErrUnknown = errors.New("the certificate policies are not known yet; try again")

// Set returns the policies in force. The error is ErrUnknown.
func (p *Policies) Set() (*certpolicy.Set, error) {
	current := p.source.current.Load()
	if current == nil {
		return nil, ErrUnknown
	}
	return current.set, nil
}

// settleTime is how long policies must not have changed before a request is
// denied for good: files are applied one after another.
const settleTime = 2 * time.Second

// Settled returns how long to wait until a request may be denied for good; zero
// or less means now.
func (p *Policies) Settled() time.Duration {
	current := p.source.current.Load()
	if current == nil {
		return settleTime
	}
	return current.since.Add(settleTime).Sub(p.clock.Now())
}

// Now returns the time by the clock of decisions.
func (p *Policies) Now() time.Time { return p.clock.Now() }

// Subscribe registers changed, which is called after policies have changed. It
// must return quickly.
func (p *Policies) Subscribe(changed func(struct{})) (cancel func()) {
	return p.source.changes.Subscribe(changed)
}

// Settings returns the settings.
func (p *Policies) Settings() Settings { return p.settings }
