// Package dns solves challenges with DNS records: DNS-01, and the drafts
// dns-account-01 and dns-persist-01.
package dns

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/netip"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/acme/solver"
	"github.com/certplane/certplane/internal/acme/solver/dns/provider"
	"github.com/certplane/certplane/internal/acme/solver/dns/resolver"
	"github.com/certplane/certplane/internal/acme/solver/dns/webhook"
	"github.com/certplane/certplane/internal/api/certmanager"
)

const (
	// lookTimeout is that of all queries of one Prepare or Check.
	lookTimeout = 25 * time.Second
	// writeTimeout is that of one Present or CleanUp at a provider.
	writeTimeout = 30 * time.Second
)

// Config holds the dependencies of a Solver.
type Config struct {
	// Settings must be valid.
	Settings Settings
	// Resolver is that of Settings.NewResolver.
	Resolver *resolver.Resolver
	// Client reads Secrets, past caches, and requests tokens of service accounts,
	// in the name of the controller.
	Client client.Client
	// HTTP is the client for the APIs of providers.
	HTTP *http.Client
	// RefuseAddress, if not nil, returns why Issuers of namespaces must not name an
	// address, and GuardedHTTP is the client for their providers, which asks it.
	// ClusterIssuers may name such addresses.
	RefuseAddress func(netip.Addr) error
	GuardedHTTP   *http.Client
	// Metadata is the client for the metadata services of clouds.
	Metadata *http.Client
	// Providers are the providers that solvers can name, in addition to webhooks. The
	// first one that is set in a spec is used.
	Providers []Row
	// Webhooks calls webhooks.
	Webhooks *webhook.Caller
	// ClusterAmbient is the default of clusterIssuerAmbientCredentials.
	ClusterAmbient bool
	// Clock is for signatures of requests to providers.
	Clock clock.PassiveClock
}

// Solver is a solver.Solver.
type Solver struct{ cfg Config }

var _ solver.Solver = (*Solver)(nil)

// New returns a Solver.
func New(cfg Config) *Solver { return &Solver{cfg: cfg} }

// Prepare implements solver.Solver: it works out the name and the zone of the
// record.
func (s *Solver) Prepare(ctx context.Context, task solver.Task) (string, error) {
	p, err := newPlan(task, s.cfg.Settings)
	if err != nil || p.kind == certmanager.TypeDNSPersist01 {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	w, err := s.prepare(ctx, task, p)
	if err != nil {
		return "", err
	}
	return w.String(), nil
}

func (s *Solver) prepare(ctx context.Context, task solver.Task, p plan) (where, error) {
	if p.kind == certmanager.TypeDNSAccount01 && p.account == "" {
		return where{}, errNoAccount
	}
	named, err := s.choose(p.spec)
	if err != nil {
		return where{}, err
	}
	w := where{Provider: named.field, FQDN: p.name}
	if p.follow() {
		path, err := s.cfg.Resolver.Follow(ctx, p.name)
		if err != nil {
			return where{}, err
		}
		w.FQDN = path[len(path)-1]
		w.Wildcard = len(path) > 1 && s.isWildcard(ctx, path[0], path[1], task.Challenge.Spec.Key)
	}
	if !named.findsZones {
		w.Zone, err = s.cfg.Resolver.Zone(ctx, w.FQDN)
	}
	return w, err
}

// isWildcard reports whether a CNAME comes from a wildcard: then an unpredictable name has
// the same CNAME.
func (s *Solver) isWildcard(ctx context.Context, name, target, key string) bool {
	sum := sha256.Sum256([]byte(name + " " + key))
	sibling := resolver.Sibling(name, "_"+hex.EncodeToString(sum[:10]))
	found, err := s.cfg.Resolver.CNAME(ctx, sibling)
	return err == nil && found == target
}

// Present implements solver.Solver.
func (s *Solver) Present(ctx context.Context, task solver.Task) error {
	return s.write(ctx, task, webhook.Present, provider.Provider.Present)
}

// CleanUp implements solver.Solver. It removes the record at the place in the note of
// Prepare. Without a note, as for challenges that cert-manager has presented, that is the
// place where the record would be written now.
func (s *Solver) CleanUp(ctx context.Context, task solver.Task) error {
	if task.Where == "" && task.Challenge.Spec.Type != acmev1.ACMEChallengeTypeDNS01 {
		return nil // cert-manager does not know this type
	}
	return s.write(ctx, task, webhook.CleanUp, provider.Provider.CleanUp)
}

func (s *Solver) write(ctx context.Context, task solver.Task, action string, do func(provider.Provider, context.Context, provider.Record) error) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	p, err := newPlan(task, s.gates(action))
	if err != nil || p.kind == certmanager.TypeDNSPersist01 {
		return err
	}
	w, err := s.written(ctx, task, p)
	if err != nil {
		return err
	}
	opened, err := s.open(ctx, task, p.spec, action)
	if err != nil {
		return err
	}
	return do(opened, ctx, provider.Record{
		FQDN: w.FQDN, Zone: w.Zone, Value: task.Challenge.Spec.Key, Domain: task.Challenge.Spec.DNSName,
	})
}

// gates are the settings that decide which types are enabled. What was written
// is removed also after they have changed.
func (s *Solver) gates(action string) Settings {
	settings := s.cfg.Settings
	if action == webhook.CleanUp {
		settings.DNSAccount01, settings.DNSPersist01 = true, true
	}
	return settings
}

func (s *Solver) written(ctx context.Context, task solver.Task, p plan) (where, error) {
	if task.Where == "" {
		return s.prepare(ctx, task, p)
	}
	return parseWhere(task.Where, p)
}

var errUnsupported = errors.New("the dns provider of the challenge is not supported by this program")

// choose returns the provider that a spec names.
func (s *Solver) choose(spec *Spec) (Row, error) {
	if certmanager.InProviderGroup(spec.Webhook) {
		if _, err := readConfig(spec); err != nil {
			return Row{}, err
		}
	} else if spec.Webhook != nil {
		return Row{field: "webhook"}, nil
	}
	for _, row := range s.cfg.Providers {
		if row.set(spec) {
			return row, nil
		}
	}
	if *spec != (Spec{CNAMEStrategy: spec.CNAMEStrategy}) {
		return Row{}, errUnsupported
	}
	return Row{}, errors.New("no dns provider config specified for challenge")
}
