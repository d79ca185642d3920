package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/signer/webhook"
)

// addSigners adds a signer for each name that has a CA: all of them are one
// account, and each has a queue of its own.
func addSigners(p Process, cfg Config) error {
	writer, err := p.Client(csrSignerAccount)
	if err != nil {
		return err
	}
	recorder, err := p.Recorder(csrSignerAccount)
	if err != nil {
		return err
	}
	for _, signer := range cfg.Settings.Signing.All() {
		if webhook.Choose(cfg.Settings.Signing.Webhooks, signer.Name) >= 0 {
			continue
		}
		ca, err := cfg.cas.of(signer.Name, cfg)
		if err != nil {
			return err
		}
		if ca == nil {
			klog.InfoS("Leaving a signer's requests to others: no CA is configured for it", "signer", signer.Name)
			continue
		}
		err = sign.Add(p.Manager, sign.Config{
			SignerName: signer.Name, Client: writer, CA: ca, Settings: cfg.Settings.Signing,
			Events: recorder, Account: p.reference(csrSignerAccount), Metrics: p.Metrics,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// reference names an account in events.
func (p Process) reference(account string) *corev1.ObjectReference {
	if p.Namespace == "" {
		return nil
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "ServiceAccount", Namespace: p.Namespace, Name: account}
}

// HasCA tells whether any signer has a CA.
func (c Config) HasCA() bool {
	return c.CA != nil || slices.ContainsFunc(c.Settings.Signing.All(), func(signer sign.SignerSettings) bool {
		ca, _ := c.Settings.Signing.CAOf(signer.Name)
		return !ca.IsZero()
	})
}

// openTimeout is how long a CA's key may take to be found.
const openTimeout = 30 * time.Second

// openCAs are the configured CAs, each opened once.
type openCAs struct {
	process Process
	opened  map[keystore.Settings]sign.CA
}

// of returns the CA of a signer, or nil.
func (o openCAs) of(signerName string, cfg Config) (sign.CA, error) {
	settings, field := cfg.Settings.Signing.CAOf(signerName)
	if settings.IsZero() {
		return cfg.CA, nil
	}
	if ca, ok := o.opened[settings]; ok {
		return ca, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), openTimeout)
	defer cancel()
	ca, err := keystore.Open(ctx, settings, keystore.Options{Name: field, Metrics: o.process.Metrics})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	o.opened[settings] = ca
	return ca, o.process.Follow(ca)
}

// Follow has a CA follow its files while the manager runs.
func (p Process) Follow(ca *keystore.Store) error {
	if err := p.Manager.Add(followed{ca}); err != nil {
		return fmt.Errorf("adding what follows a CA's files: %w", err)
	}
	return nil
}

type followed struct{ *keystore.Store }

// Start implements manager.Runnable.
func (f followed) Start(ctx context.Context) error {
	defer f.Close()
	return f.Store.Start(ctx)
}
