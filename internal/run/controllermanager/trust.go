package controllermanager

import (
	"crypto/x509"

	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/controller/trust"
	"github.com/certplane/certplane/internal/controller/trustbundles"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/policy/rollover"
	"github.com/certplane/certplane/internal/rights"
)

// apiServerSigner is the name under which the roots of the API server's own
// certificate are published.
const apiServerSigner = "kubernetes.io/kube-apiserver-serving"

func addTrust(a Actor, cfg Config) error {
	signers, err := trustedSigners(cfg)
	if err != nil || len(signers) == 0 && !cfg.Chooses(rights.FollowSigners) {
		return err
	}
	return trust.Add(a.Manager, trust.Config{
		API: a.API, Client: a.Client, Signers: signers, More: cfg.declaredRoots, Complete: cfg.declared.Complete,
		Events: a.Events, Metrics: a.Metrics, Versions: a.Versions,
	})
}

func addTrustBundles(a Actor, cfg Config) error {
	defaults, err := roots.OpenPackage(cfg.Settings.TrustManager.DefaultPackage)
	if err != nil {
		return err
	}
	return trustbundles.Add(a.Manager, trustbundles.Config{
		API: a.API, Client: a.Client, Versions: a.Versions, ClusterResources: cfg.clusterResources(a.Process),
		DefaultCAs: defaults, Admitted: cfg.AdmitsTrustBundles, Settings: cfg.Settings.TrustBundles,
		Events: a.Recorder(trustbundles.Component), Clock: clock.RealClock{},
	})
}

// trustedSigners returns the signers whose certificates this process issues,
// and the API server's signer if this process already publishes its roots.
func trustedSigners(cfg Config) ([]trust.Signer, error) {
	signers, err := issuingSigners(cfg)
	if err != nil || !cfg.Chooses(rights.Publish) {
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
	if !cfg.Chooses(rights.Sign) {
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

// anchors returns the certificates that a relying party must trust to verify certificates
// that a signer issues now. A certificate without a chain needs its CA among them. The root
// above is for verifiers that accept only a root as the end of a chain.
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
