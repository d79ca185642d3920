package controllermanager

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/rights"
)

// addSigners adds a signer for each name that has a CA. All of them use one
// account, and each has its own queue.
func addSigners(a Actor, cfg Config) error {
	issuers, err := cfg.issuers()
	if err != nil {
		return err
	}
	for _, issuer := range issuers {
		ca, _ := cfg.Settings.Signing.CAOf(issuer.name)
		err := sign.AddBuiltIn(a.Manager, sign.BuiltIn{
			CA: issuer.ca, Alone: issuer.alone, Issuing: cfg.signing(), Account: a.reference(),
			Config: sign.Config{
				SignerName: issuer.name, Client: a.Client, OnCreate: a.OnCreate, SignsOnCreate: func(string) bool { return ca.Key == "" }, Policies: cfg.Policies, Records: cfg.records(), Settings: cfg.Settings.Signing, Events: a.Events, Metrics: a.Metrics,
			},
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reference returns a reference to the account for Events.
func (a Actor) reference() *corev1.ObjectReference {
	if a.Namespace == "" {
		return nil
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "ServiceAccount", Namespace: a.Namespace, Name: a.Account}
}

// HasCA reports whether any signer has a CA.
func (c Config) HasCA() bool {
	return c.CA != nil || slices.ContainsFunc(c.Settings.Signing.All(), func(signer sign.SignerSettings) bool {
		ca, _ := c.Settings.Signing.CAOf(signer.Name)
		return !ca.IsZero()
	})
}

// openTimeout is how long it may take to find a CA's key.
const openTimeout = 30 * time.Second

// builtIn is a built-in signer that has a CA.
type builtIn struct {
	name string
	ca   sign.CA
	// alone means that its certificates come without the CAs above, because no
	// CA is configured: relying parties trust the generated CA itself.
	alone bool
}

// ofClients reports whether a built-in signer's certificates are for clients of the API,
// which must accept its CA.
func (b builtIn) ofClients() bool {
	return b.name == certificatesv1.KubeAPIServerClientSignerName || b.name == certificatesv1.KubeAPIServerClientKubeletSignerName
}

// allHonoured returns the CAs whose client certificates the API accepts: those of Honoured
// and those of the signers of the API's clients.
func (c Config) allHonoured() []*x509.Certificate {
	var cas []*x509.Certificate
	if c.Honoured != nil {
		cas = c.Honoured()
	}
	if !c.Chooses(rights.Sign) {
		return cas
	}
	issuers, err := c.issuers()
	if err != nil { // then no controller runs
		return cas
	}
	for _, issuer := range issuers {
		if !issuer.ofClients() {
			continue
		}
		if authority, err := issuer.ca.Current(); err == nil {
			cas = append(cas, authority.Certificate())
		}
	}
	return cas
}

// openIssuers returns the built-in signers that have a CA and are not webhooks.
func openIssuers(p Process, cfg Config) ([]builtIn, error) {
	var issuers []builtIn
	opened := map[keystore.Settings]sign.CA{}
	for _, signer := range cfg.Settings.Signing.All() {
		if webhook.Choose(cfg.Settings.Signing.Webhooks, signer.Name) >= 0 {
			continue // its CA is external
		}
		ca, err := p.openCA(signer.Name, cfg, opened)
		if err != nil {
			return nil, err
		}
		if ca == nil {
			klog.InfoS("Leaving a signer's requests to others: no CA is configured for it", "signer", signer.Name)
			continue
		}
		issuer := builtIn{name: signer.Name, ca: ca, alone: signer.CA.IsZero()}
		if err := cfg.tellOf(issuer); err != nil {
			return nil, err
		}
		issuers = append(issuers, issuer)
	}
	return issuers, nil
}

// tellOf makes the API accept the CA of a signer of its clients.
func (c Config) tellOf(issuer builtIn) error {
	if c.Honour == nil || !issuer.ofClients() {
		return nil
	}
	authority, err := issuer.ca.Current()
	if err != nil {
		return err
	}
	c.Honour(authority)
	if changes, ok := issuer.ca.(interface {
		Subscribe(func(*pki.Authority)) (cancel func())
	}); ok {
		changes.Subscribe(c.Honour) // as long as the CA is open
	}
	return nil
}

// openCA returns the CA of a signer, or nil. Signers with the same CA share one
// that is open already.
func (p Process) openCA(signerName string, cfg Config, opened map[keystore.Settings]sign.CA) (sign.CA, error) {
	settings, field := cfg.Settings.Signing.CAOf(signerName)
	if settings.IsZero() {
		return cfg.CA, nil
	}
	if ca, ok := opened[settings]; ok {
		return ca, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	ca, err := keystore.Open(ctx, settings, keystore.Options{Name: field, Metrics: p.Metrics})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	opened[settings] = ca
	return ca, p.Follow(ca)
}

// Follow makes a CA follow its files while the manager runs.
func (p Process) Follow(ca *keystore.Store) error {
	if err := p.Manager.Add(followed{ca}); err != nil {
		return fmt.Errorf("adding the watcher of a CA's files: %w", err)
	}
	return nil
}

type followed struct{ *keystore.Store }

// Start implements manager.Runnable.
func (f followed) Start(ctx context.Context) error {
	defer f.Close()
	return f.Store.Start(ctx)
}
