package controllers

import (
	"crypto/x509"

	"github.com/certplane/certplane/internal/controller/trust"
	"github.com/certplane/certplane/internal/policy/rollover"
)

const (
	// trustAccount is the service account of the trust bundle publisher.
	trustAccount = "trust-bundle-publisher"
	// apiServerSigner is who the API server's own certificate is said to be
	// signed by.
	apiServerSigner = "kubernetes.io/kube-apiserver-serving"
)

func addTrust(p Process, cfg Config) error {
	signers, err := trustedSigners(cfg)
	if err != nil || len(signers) == 0 && !cfg.Chooses("signers") {
		return err
	}
	writer, recorder, err := p.Actor(trustAccount)
	if err != nil {
		return err
	}
	api, err := p.As(trustAccount)
	if err != nil {
		return err
	}
	versions, err := p.Versions(trustAccount)
	if err != nil {
		return err
	}
	return trust.Add(p.Manager, trust.Config{
		API: api, Client: writer, Signers: signers, More: cfg.declaredRoots, Complete: cfg.declared.Complete,
		Events: recorder, Metrics: p.Metrics, Versions: versions,
	})
}

// trustedSigners are those whose certificates this process issues, and the API
// server's, if this process publishes its roots anyway.
func trustedSigners(cfg Config) ([]trust.Signer, error) {
	signers, err := issuingSigners(cfg)
	if err != nil || !cfg.Chooses("publish") {
		return signers, err
	}
	rootCA, err := cfg.roots()
	if err != nil || rootCA == nil {
		return signers, err
	}
	return append(signers, trust.Signer{
		Signer: rollover.Signer{Name: apiServerSigner, Overlap: cfg.Settings.Publishing.Overlap.Duration, Exclusive: true},
		Roots:  rootCA,
	}), nil
}

func issuingSigners(cfg Config) ([]trust.Signer, error) {
	if !cfg.Chooses("sign") {
		return nil, nil
	}
	issuers, err := cfg.issuers()
	if err != nil {
		return nil, err
	}
	var signers []trust.Signer
	for _, issuer := range issuers {
		anchors, err := cfg.Settings.Trust.Roots(issuer.name, issuer.anchors)
		if err != nil {
			return nil, err
		}
		signers = append(signers, trust.Signer{
			Signer: rollover.Signer{Name: issuer.name, Overlap: cfg.Settings.Trust.Overlap.Duration},
			Roots:  anchors,
		})
	}
	return signers, nil
}

// anchors are what somebody has to trust to verify what a signer issues now. A
// certificate that comes alone needs its CA there; the root above is for
// verifiers that take no other for an end.
func (b builtIn) anchors() []*x509.Certificate {
	authority, err := b.ca.Current()
	if err != nil {
		return nil
	}
	anchors := []*x509.Certificate{authority.Anchor()}
	if b.alone && !authority.Certificate().Equal(authority.Anchor()) {
		anchors = append(anchors, authority.Certificate())
	}
	return anchors
}
