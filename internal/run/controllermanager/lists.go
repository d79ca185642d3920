package controllermanager

import (
	"context"
	"crypto/rand"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/controller/passon"
	"github.com/certplane/certplane/internal/controller/publishlists"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/steadyclock"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/rights"
)

// CAs returns the CAs whose certificates this process signs now, and former ones. complete is
// false while Signers are being opened.
func (c Config) CAs() (all []publishlists.CA, complete bool) {
	if c.Chooses(rights.Sign) {
		issuers, err := c.issuers()
		if err != nil { // then no controller runs
			return nil, false
		}
		for _, issuer := range issuers {
			if authority, err := issuer.ca.Current(); err == nil {
				all = append(all, publishlists.NewCA(issuer.name, authority))
			}
		}
	}
	c.issuerCAs.Range(func(signer, authority any) bool {
		all = append(all, publishlists.NewCA(signer.(string), authority.(*pki.Authority)))
		return true
	})
	if !c.followsSigners() {
		return all, true
	}
	for _, signer := range c.declared.All() {
		for _, former := range signer.Former {
			all = append(all, publishlists.CA{Signer: signer.Name, Lists: former.ListAuthority, Ends: former.Until})
		}
		if signer.CA == nil {
			continue
		}
		if authority, err := signer.CA(); err == nil {
			all = append(all, publishlists.NewCA(signer.Name, authority))
		}
	}
	return all, c.declared.Complete()
}

// knowCA notes the CA with which an issuer signs here. Those of ClusterIssuers have lists;
// those of Issuers do not, because users of a namespace could fill the store with them.
func (c Config) knowCA(issuer certmanager.Signer, ca *pki.Authority) {
	if ca == nil {
		c.Policies.KnowCA(issuer, nil)
		c.issuerCAs.Delete(issuer.String())
		return
	}
	c.Policies.KnowCA(issuer, ca.Certificate())
	if issuer.Kind == cmv1.ClusterIssuerKind {
		c.issuerCAs.Store(issuer.String(), ca)
	}
}

// revoked returns the revoked certificates; nil if they are not known.
func (c Config) revoked() *revocation.Index {
	if c.Revoked == nil {
		return nil
	}
	return c.Revoked.Revoked()
}

// awaitRevoked returns what returns the revoked certificates once all were read; nil if they are
// not known.
func (c Config) awaitRevoked() func(context.Context) (*revocation.Index, error) {
	if c.Revoked == nil {
		return nil
	}
	return func(ctx context.Context) (*revocation.Index, error) { return c.revoked(), c.Revoked.AwaitRead(ctx) }
}

// PublishesLists reports whether revocation lists are signed.
func (c Config) PublishesLists() bool { return !c.InCluster || c.Chooses(rights.PublishLists) }

func (c Config) inCluster() bool { return c.InCluster }

// addLists adds the controller of revocation lists of a cluster.
func addLists(a Actor, cfg Config) error {
	return a.AddLists(publishlists.Config{Store: cfg.Revoked, Lists: cfg.Lists, CAs: cfg.CAs, Settings: publishlists.DefaultSettings()}, cfg.Records)
}

// AddLists adds the controller of revocation lists, and sets in cfg what all processes have in
// common. records can be nil.
func (a Actor) AddLists(cfg publishlists.Config, records passon.Records) error {
	revocations, err := a.NewCache("Revocations", publishlists.Watched())
	if err != nil {
		return err
	}
	cfg.Rand, cfg.Clock, cfg.Metrics = rand.Reader, clock.RealClock{}, a.Metrics
	api := publishlists.APIConfig{Client: a.Client, Revocations: revocations, Events: a.Events, Steady: steadyclock.New()}
	if records != nil {
		api.Records = records.Each
	}
	return publishlists.Add(a.Manager, cfg, api)
}

// addListFiller adds the controller that fills ConfigMaps.
func addListFiller(a Actor, cfg Config) error {
	marked, err := a.NewCache("ConfigMaps for revocation lists", publishlists.WatchedConfigMaps())
	if err != nil {
		return err
	}
	return publishlists.AddFiller(a.Manager, publishlists.FillerConfig{
		Client: a.Client, ConfigMaps: marked, Lists: cfg.Lists, Events: a.Events, Clock: clock.RealClock{},
	})
}
