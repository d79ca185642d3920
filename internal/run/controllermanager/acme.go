package controllermanager

import (
	"context"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/acme"
	"github.com/certplane/certplane/internal/acme/account"
	"github.com/certplane/certplane/internal/acme/solver/dns"
	"github.com/certplane/certplane/internal/acme/solver/incluster"
	"github.com/certplane/certplane/internal/acme/solver/responder"
	"github.com/certplane/certplane/internal/acme/solver/tlsalpn"
	"github.com/certplane/certplane/internal/controller/challenges"
	"github.com/certplane/certplane/internal/controller/orders"
	"github.com/certplane/certplane/internal/issuing"
	issuingacme "github.com/certplane/certplane/internal/issuing/acme"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/issuing/issuertypes"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
	issuingvault "github.com/certplane/certplane/internal/issuing/vault"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/process/worker"
)

// ACMESettings is the stanza "acme".
type ACMESettings struct {
	issuingacme.AccountSettings  `json:",inline"`
	acme.ClientSettings          `json:",inline"`
	challenges.ChallengeSettings `json:",inline"`

	// http01 configures how HTTP-01 challenges are answered.
	HTTP01 HTTP01Settings `json:"http01"`
	// tlsALPN01 configures where TLS-ALPN-01 challenges are answered. An issuer
	// selects them with a solver whose dns01.webhook has the groupName
	// acme.certplane.dev and the solverName tls-alpn-01.
	TLSALPN01 tlsalpn.Settings `json:"tlsALPN01"`
	// dns01 configures how DNS records are written and looked up.
	DNS01 dns.Settings `json:"dns01"`
}

// HTTP01Settings is the stanza "acme.http01".
type HTTP01Settings struct {
	responder.Settings `json:",inline"`
	// cluster configures the objects that "certplane controllers" makes in its
	// cluster for HTTP-01 challenges, unless listen is set.
	Cluster incluster.Settings `json:"cluster"`
}

func defaultACMESettings() ACMESettings {
	return ACMESettings{
		AccountSettings:   issuingacme.DefaultAccountSettings(),
		ClientSettings:    acme.DefaultClientSettings(),
		ChallengeSettings: challenges.DefaultChallengeSettings(),
		HTTP01:            HTTP01Settings{Settings: responder.DefaultSettings(), Cluster: incluster.DefaultSettings()},
		TLSALPN01:         tlsalpn.DefaultSettings(),
		DNS01:             dns.DefaultSettings(),
	}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s ACMESettings) Validate() error {
	for _, stanza := range []interface{ Validate() error }{
		s.AccountSettings, s.ClientSettings, s.ChallengeSettings, s.HTTP01.Settings, s.HTTP01.Cluster, s.TLSALPN01, s.DNS01,
	} {
		if err := stanza.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// remotes are shared by the controllers of a process to connect to the servers
// behind issuers.
type remotes struct {
	acme     *acme.Pool
	standing *account.Standing
	vault    *vault.Pool
	further  []issuertypes.Further
}

// openRemotes opens what controllers share. The tokens of servers are revoked when
// the manager of p ends.
func openRemotes(p Process, cfg Config) (remotes, error) {
	acmePool, err := acme.NewPool(acme.PoolConfig{UserAgent: userAgent(), Metrics: p.Metrics, Settings: cfg.Settings.ACME.ClientSettings})
	if err != nil {
		return remotes{}, err
	}
	vaultPool, err := vault.New(vault.Config{Settings: cfg.Settings.CertManager.Vault, Metrics: p.Metrics})
	if err != nil {
		return remotes{}, err
	}
	if err := p.Manager.Add(vaultPool); err != nil {
		return remotes{}, fmt.Errorf("adding the renewal of the tokens of Vault servers: %w", err)
	}
	shared := remotes{acme: acmePool, standing: account.NewStanding(), vault: vaultPool}
	for _, open := range cfg.Settings.OpenIssuers {
		further, err := open(p, cfg.Settings)
		if err != nil {
			return remotes{}, err
		}
		shared.further = append(shared.further, further)
	}
	return shared, nil
}

// changes notifies of changes of the servers behind issuers.
func (r remotes) changes() func(changed func(issuing.Reference)) (cancel func()) {
	all := []func(changed func(issuing.Reference)) (cancel func()){issuingacme.Changes(r.standing), issuingvault.Changes(r.vault)}
	for _, further := range r.further {
		all = append(all, further.Changes)
	}
	return issuing.Join(all...)
}

// accounts returns the accounts of ACME issuers, whose keys the actor reads.
func (a Actor) accounts(cfg Config) (*account.Accounts, error) {
	shared, err := cfg.remotes()
	if err != nil {
		return nil, err
	}
	return account.New(account.Config{
		GuardLoopback: !cfg.Settings.ACME.AllowLoopback,
		Pool:          shared.acme, Secrets: a.Client, ClusterResources: cfg.clusterResources(a.Process), Standing: shared.standing,
	}), nil
}

// types returns the issuers of all types, which work as the actor.
func (a Actor) types(cfg Config) (issuing.Config, issuertypes.Issuers, error) {
	shared, err := cfg.remotes()
	if err != nil {
		return issuing.Config{}, issuertypes.Issuers{}, err
	}
	accounts, err := a.accounts(cfg)
	if err != nil {
		return issuing.Config{}, issuertypes.Issuers{}, err
	}
	config := a.issuing(cfg)
	config.Others = shared.changes()
	return config, issuertypes.New(issuertypes.Config{
		Config: config, Accounts: accounts, ACME: cfg.Settings.ACME.AccountSettings, Answers: cfg.answers(), Vault: shared.vault, Further: shared.further,
		CopiedAnnotations: issuance.CopiedAnnotations(cfg.Settings.CertManager.CopiedAnnotationPrefixes).CopyFrom,
	}), nil
}

// answers returns how this process answers each type of challenge.
func (c Config) answers() issuingacme.Answers {
	answers := issuingacme.Answers{HTTP01: issuingacme.Listening, TLSALPN01: issuingacme.Listening}
	switch off := c.Settings.ACME.HTTP01.Off(); {
	case off && c.InCluster:
		answers.HTTP01 = issuingacme.ByPods
	case off:
		answers.HTTP01 = issuingacme.Unanswered
	}
	if c.Settings.ACME.TLSALPN01.Off() {
		answers.TLSALPN01 = issuingacme.Unanswered
	}
	return answers
}

func addOrders(a Actor, cfg Config) error {
	metrics, err := certmetrics.New(a.Metrics)
	if err != nil {
		return err
	}
	accounts, err := a.accounts(cfg)
	if err != nil {
		return err
	}
	return orders.Add(a.Manager, orders.Config{
		Client: a.Client, Versions: a.Versions, Events: a.Recorder(orders.Component), Metrics: metrics,
		Clients: func(ctx context.Context, issuer cmv1.GenericIssuer) (orders.Client, error) {
			return accounts.Of(ctx, issuer)
		},
		Suspect: accounts.Standing().Suspect,
	})
}

func addChallenges(a Actor, cfg Config) error {
	metrics, err := certmetrics.New(a.Metrics)
	if err != nil {
		return err
	}
	accounts, err := a.accounts(cfg)
	if err != nil {
		return err
	}
	solvers, err := a.solvers(cfg)
	if err != nil {
		return err
	}
	if err := a.Manager.Add(Everywhere{a.following(cfg.Responders)}); err != nil {
		return fmt.Errorf("adding the watcher of Challenges: %w", err)
	}
	return challenges.Add(a.Manager, challenges.Config{
		Client: a.Client, Secrets: a.Secrets, Versions: a.Versions, ClusterResources: cfg.clusterResources(a.Process),
		Settings: cfg.Settings.ACME.ChallengeSettings, Solvers: solvers, Events: a.Recorder(challenges.Component), Metrics: metrics,
		Clients: func(ctx context.Context, issuer cmv1.GenericIssuer) (challenges.Client, error) {
			return accounts.Of(ctx, issuer)
		},
		Suspect: accounts.Standing().Suspect,
	})
}

// following keeps the index of the responders up to date. It runs without the
// lease, too: an ACME server can ask any of several processes.
func (a Actor) following(r Responders) manager.RunnableFunc {
	return func(ctx context.Context) error {
		resource := worker.OneVersion(acmev1.SchemeGroupVersion, "challenges", a.Versions)
		resource.Follow(ctx, "Following Challenges", func(ctx context.Context, _ string) error {
			return r.Index.Follow(ctx, a.Manager.GetCache())
		})
		return nil
	}
}
