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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/inprocess"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/process/worker"
)

// Config configures Policies.
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
	// Access answers the questions of match.access of policies; nil asks the API.
	Access AccessFunc
	// KeepAnswers caches the answers of Access for some seconds. Set it if the API is
	// another process.
	KeepAnswers bool
	// Controllers are usernames of certplane's own controllers of Certificates.
	Controllers []string
	// Certificates is how the requests for Certificates are made.
	Certificates CertificateRequester
	// BuiltIn are the names of the built-in signers that sign here.
	BuiltIn []string
	// Kubelets is the built-in policy for the requests of kubelets.
	Kubelets approval.Policy
	Settings Settings
	// Seals opens and seals the approvals of people. Nil: approvals by several people
	// cannot be counted.
	Seals *Seals
	// Namespace is the namespace of the ConfigMaps in which the quotas of policies are
	// counted. API needs create on configmaps there, and get and update on LedgerNames.
	Namespace string
	// Defined: the API has the kind of policies, or will have it soon. Otherwise an API
	// without the kind counts as one without policies.
	Defined bool
	// Metrics, if not nil, registers the metrics of decisions.
	Metrics prometheus.Registerer
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
}

// Policies decides about requests by the policies of an API. It is safe for
// concurrent use.
type Policies struct {
	settings Settings
	// certificates is how the requests for Certificates are made.
	certificates CertificateRequester

	clock   clock.PassiveClock
	defined bool

	source      *source
	freshness   *freshness
	facts       *Facts
	keys        *keys
	seals       *Seals
	quotas      *ledger
	opinions    keptOpinions
	authorities *authorities
	undecided   *Undecided
	waker       *waker
	events      *Events
	recorder    *Recorder
	clients     *clients
}

// New returns Policies that do not know the policies before Run. They have to be closed.
func New(cfg Config) (*Policies, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Mapper == nil {
		cfg.Mapper = apiutil.NewDynamicRESTMapper
	}
	clients, err := newClients(cfg)
	if err != nil {
		return nil, fmt.Errorf("making the clients that read certificate policies: %w", err)
	}
	recorder, err := newRecorder(cfg)
	if err != nil {
		return nil, err
	}
	p := &Policies{
		settings: cfg.Settings, certificates: cfg.Certificates, clock: cfg.Clock, defined: cfg.Defined,
		source: newSource(cfg.Clock, cfg.Settings), freshness: newFreshness(cfg.Clock), seals: cfg.Seals,
		quotas: newLedger(clients.core.ConfigMaps(cfg.Namespace), cfg.Clock), opinions: newKeptOpinions(),
		authorities: &authorities{api: clients.direct},
		undecided:   &Undecided{newWaiting(recorder.metrics.waiting), newFactIndex()},
		recorder:    recorder, clients: clients,
	}
	p.keys = &keys{api: clients.api, kinds: clients.kinds.ServerResourcesForGroupVersionWithContext, seals: cfg.Seals, authorities: p.authorities}
	p.events = &Events{clock: cfg.Clock, source: p.source, seals: cfg.Seals, waiting: p.undecided.people, reported: newSaid()}
	p.waker = &waker{source: p.source, index: p.undecided.facts, objects: clients.objects, metadata: clients.metadata}
	if cfg.Access == nil {
		cfg.Access = Reviews(clients.direct)
	}
	if cfg.KeepAnswers {
		p.waker.answers = newAnswers(cfg.Access, cfg.Clock)
		cfg.Access = p.waker.answers.ask
	}
	p.facts = &Facts{
		Objects: clients.objects, Orders: NewOrders(clients.direct, cfg.Clock.Now), Access: cfg.Access, Controllers: append(cfg.Controllers, cfg.Settings.CertificateControllers...),
		BuiltIn: cfg.BuiltIn, Kubelets: cfg.Kubelets,
	}
	p.Subscribe(func(struct{}) {
		if set, err := p.Set(); err == nil {
			p.undecided.people.keep(set)
			p.undecided.facts.keep(p.Concern)
			recorder.metrics.inForce(set)
		}
	})
	return p, nil
}

// Close writes the rest of the decision log. Later decisions are not logged.
func (p *Policies) Close() { p.recorder.journal.Close() }

// clients read the API.
type clients struct {
	api      dynamic.Interface
	metadata metadata.Interface
	direct   client.Client
	kinds    discovery.DiscoveryInterfaceWithContext
	core     corev1client.CoreV1Interface
	objects  cache.Cache
}

func newClients(cfg Config) (*clients, error) {
	kinds := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(kinds), certmanager.AddToScheme(kinds), v1alpha1.AddToScheme(kinds), authorizationv1.AddToScheme(kinds),
		certificatesv1.AddToScheme(kinds), certificatesv1beta1.AddToScheme(kinds), certificatesv1alpha1.AddToScheme(kinds)); err != nil {
		return nil, err
	}
	httpClient, err := rest.HTTPClientFor(cfg.API)
	if err != nil {
		return nil, err
	}
	mapper, err := cfg.Mapper(cfg.API, httpClient)
	if err != nil {
		return nil, err
	}
	c := &clients{}
	if c.api, err = dynamic.NewForConfigAndClient(cfg.API, httpClient); err != nil {
		return nil, err
	}
	if c.metadata, err = metadata.NewForConfigAndClient(cfg.API, httpClient); err != nil {
		return nil, err
	}
	if c.direct, err = inprocess.NewClient(cfg.API, client.Options{HTTPClient: httpClient, Scheme: kinds, Mapper: mapper}); err != nil {
		return nil, err
	}
	if c.kinds, err = discovery.NewDiscoveryClientForConfigAndClient(cfg.API, httpClient); err != nil {
		return nil, err
	}
	if c.core, err = corev1client.NewForConfigAndClient(cfg.API, httpClient); err != nil {
		return nil, err
	}
	// Each kind is watched from the first decision that needs it.
	c.objects, err = inprocess.NewCache(cfg.API, cache.Options{
		HTTPClient: httpClient, Scheme: kinds, Mapper: mapper, DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Transform: stripNode}},
	})
	return c, err
}

// stripNode keeps only the fields of nodes that policies can read.
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
	group.Go(func() error { return p.clients.objects.Start(ctx) })
	group.Go(func() error { p.follow(ctx); return nil })
	group.Go(func() error { p.freshness.show(ctx, p.recorder.metrics.age); return nil })
	group.Go(func() error { p.keys.follow(ctx, p.source); return nil })
	group.Go(func() error { p.waker.follow(ctx); return nil })
	return group.Wait()
}

func (p *Policies) follow(ctx context.Context) {
	resource := worker.OneVersion(v1alpha1.GroupVersion, PoliciesResource.Resource, p.clients.kinds.ServerResourcesForGroupVersionWithContext)
	if version, err := resource.Version(ctx); version == "" && err == nil && !p.defined {
		p.source.none()
	}
	resource.Follow(ctx, "Following certificate policies", func(ctx context.Context, _ string) error {
		return p.source.follow(ctx, tracked{p.clients.api, p.freshness})
	})
}

// none puts an empty set into force for an API without policies.
func (s *source) none() {
	s.mu.Lock()
	if s.current.Load() == nil {
		s.publish()
	}
	s.mu.Unlock()
	s.changes.Tell(struct{}{})
}

// WaitUntilKnown waits until the policies are known. It returns false if ctx ends
// before.
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

// ErrUnknown means that the policies have not been read yet.
var ErrUnknown = errors.New("the certificate policies are not known yet; try again")

// Set returns the policies in force. The error is ErrUnknown.
func (p *Policies) Set() (*certpolicy.Set, error) { return p.source.set() }

// settleTime is how long policies must be unchanged before a request is denied for
// good, because files are applied one after another.
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
