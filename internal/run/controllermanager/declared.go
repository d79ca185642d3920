package controllermanager

import (
	"crypto/x509"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/controller/podsign"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/controller/signers"
	"github.com/certplane/certplane/internal/controller/trust"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/policy/rollover"
)

// addDeclared adds the controller that follows Signer objects.
func addDeclared(a Actor, cfg Config) error {
	builtIn, err := cfg.builtIn()
	if err != nil {
		return err
	}
	return signers.Add(a.Manager, signers.Config{
		Cache: a.Reader, API: a.API, Client: a.Client, Namespace: a.Namespace, Versions: a.Versions, Signers: cfg.declared,
		BuiltIn: builtIn, Honoured: cfg.honoured, Issuing: cfg.signing(), Revoked: cfg.revoked(), Taken: cfg.delegatedTo, Settings: cfg.Settings.DeclaredSigners, Events: a.Events, Metrics: a.Metrics,
	})
}

// builtIn returns the CA of the signer of API clients, or nil.
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

// delegatedTo returns the name of the configured webhook that signs for a
// signer name.
func (c Config) delegatedTo(signerName string) string {
	webhooks := c.Settings.Signing.Webhooks
	if i := webhook.Choose(webhooks, signerName); i >= 0 {
		return "the webhook " + webhooks[i].URL + " of the configuration"
	}
	return ""
}

// addDeclaredSigners adds the controller that signs CertificateSigningRequests
// for declared signers: one for all of them.
func addDeclaredSigners(a Actor, cfg Config) error {
	set := cfg.declared
	return sign.Add(a.Manager, sign.Config{
		SignerName: "declared",
		Selects: func(name string) bool {
			signer := set.Find(name)
			return signer != nil && signer.Serves(v1alpha1.CertificateSigningRequests)
		},
		Several: true, Sign: set.SignCSR, Policies: cfg.Policies, Records: cfg.records(), Changes: sign.AnyChange(set.Changes.Subscribe),
		Answered: set.Count, OnCreate: a.OnCreate, SignsOnCreate: func(name string) bool { return set.Find(name).IssuesOnCreate() },
		Client: a.Client, Settings: cfg.Settings.Signing, Events: a.Events, Metrics: a.Metrics,
	})
}

// addPodSigners adds the controller that signs PodCertificateRequests for
// declared signers.
func addPodSigners(a Actor, cfg Config) error {
	return podsign.Add(a.Manager, podsign.Config{
		Cache: a.Reader, Client: a.Client, Versions: a.Versions, Signers: cfg.declared, Policies: cfg.Policies, Records: cfg.records(), OnCreate: a.OnCreate,
		Settings: cfg.Settings.PodSigning, Events: a.Events, Metrics: a.Metrics,
	})
}

// declaredRoots returns the declared signers whose roots are published.
func (c Config) declaredRoots() []trust.Signer {
	var trusted []trust.Signer
	for _, signer := range c.declared.All() {
		if signer.Publish {
			trusted = append(trusted, trust.Signer{
				Signer: rollover.Signer{Name: signer.Name, Overlap: signer.Overlap, Declared: true, Distrusted: signer.Distrusted},
				Roots:  func() []*x509.Certificate { return signer.Roots },
			})
		}
	}
	return trusted
}
