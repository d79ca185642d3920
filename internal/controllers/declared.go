package controllers

import (
	"crypto/x509"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/controller/podsign"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/controller/signers"
	"github.com/certplane/certplane/internal/controller/trust"
	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/signer/webhook"
)

// addDeclared adds what follows Signer objects.
func addDeclared(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(SignerManagerAccount)
	if err != nil {
		return err
	}
	api, err := p.As(SignerManagerAccount)
	if err != nil {
		return err
	}
	reader, err := p.As(CacheAccount)
	if err != nil {
		return err
	}
	versions, err := p.Versions(SignerManagerAccount)
	if err != nil {
		return err
	}
	builtIn, err := cfg.builtIn()
	if err != nil {
		return err
	}
	return signers.Add(p.Manager, signers.Config{
		Cache: reader, API: api, Client: writer, Namespace: p.Namespace, Versions: versions, Signers: cfg.declared,
		BuiltIn: builtIn, Honoured: cfg.honoured, Issuing: cfg.issuing, Taken: cfg.delegatedTo, Settings: cfg.Settings.DeclaredSigners, Events: recorder, Metrics: p.Metrics,
	})
}

// builtIn is the CA of the signer of API clients, or nil.
func (c Config) builtIn() (signers.CA, error) {
	issuers, err := c.issuers()
	if err != nil {
		return nil, err
	}
	for _, issuer := range issuers {
		if issuer.name == certificatesv1.KubeAPIServerClientSignerName {
			return issuer.ca, nil
		}
	}
	return nil, nil
}

// delegatedTo names the webhook of the configuration that signs for a name.
func (c Config) delegatedTo(signerName string) string {
	webhooks := c.Settings.Signing.Webhooks
	if i := webhook.Choose(webhooks, signerName); i >= 0 {
		return "the webhook " + webhooks[i].URL + " of the configuration"
	}
	return ""
}

// addDeclaredSigners adds what signs CertificateSigningRequests for declared
// signers: one controller for all of them.
func addDeclaredSigners(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(declaredAccount)
	if err != nil {
		return err
	}
	set := cfg.declared
	return sign.Add(p.Manager, sign.Config{
		SignerName: "declared",
		Selects: func(name string) bool {
			signer := set.Find(name)
			return signer != nil && signer.Serves(v1alpha1.CertificateSigningRequests)
		},
		Several: true, Sign: set.SignCSR, Changes: sign.AnyChange(set.Changes.Subscribe),
		Answered: set.Count,
		Client:   writer, Settings: cfg.Settings.Signing, Events: recorder, Metrics: p.Metrics,
	})
}

// addPodSigners adds what signs PodCertificateRequests for declared signers.
func addPodSigners(p Process, cfg Config) error {
	writer, recorder, err := p.Actor(declaredAccount)
	if err != nil {
		return err
	}
	reader, err := p.As(CacheAccount)
	if err != nil {
		return err
	}
	versions, err := p.Versions(declaredAccount)
	if err != nil {
		return err
	}
	return podsign.Add(p.Manager, podsign.Config{
		Cache: reader, Client: writer, Versions: versions, Signers: cfg.declared,
		Settings: cfg.Settings.PodSigning, Events: recorder, Metrics: p.Metrics,
	})
}

// declaredRoots are the declared signers whose roots are published.
func (c Config) declaredRoots() []trust.Signer {
	var trusted []trust.Signer
	for _, signer := range c.declared.All() {
		if signer.Publish {
			trusted = append(trusted, trust.Signer{
				Signer: rollover.Signer{Name: signer.Name, Overlap: signer.Overlap, Declared: true},
				Roots:  func() []*x509.Certificate { return signer.Roots },
			})
		}
	}
	return trusted
}
