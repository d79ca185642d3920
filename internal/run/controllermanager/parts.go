package controllermanager

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/controller/approving"
	"github.com/certplane/certplane/internal/controller/clean"
	"github.com/certplane/certplane/internal/controller/install"
	"github.com/certplane/certplane/internal/controller/issue"
	"github.com/certplane/certplane/internal/controller/nodelifecycle"
	"github.com/certplane/certplane/internal/controller/publish"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
)

func addApprover(a Actor, cfg Config) error {
	return approving.AddKubelets(a.Manager, approving.KubeletsConfig{
		Config:   approving.Config{Client: a.Client, Policies: cfg.Policies, Events: a.Events},
		Settings: cfg.Settings.Approval, Metrics: a.Metrics,
	})
}

func addCleaner(a Actor, cfg Config) error {
	return clean.Add(a.Manager, clean.Config{Client: a.Client, Settings: cfg.Settings.Cleaning, Recorded: cfg.Recorder.Recorded, Events: a.Events, Metrics: a.Metrics})
}

func addPodCleaner(a Actor, cfg Config) error {
	return clean.AddPods(a.Manager, clean.PodConfig{
		API: a.API, Client: a.Client, Versions: a.Versions, Settings: cfg.Settings.Cleaning, Recorded: cfg.Recorder.Recorded, Events: a.Events, Metrics: a.Metrics,
	})
}

// addReadyMade adds the controller that installs the ready-made Signers. It
// looks only at names and versions.
func addReadyMade(a Actor, cfg Config) error {
	signers, err := cfg.Settings.PodSigners.Signers()
	if err != nil {
		return err
	}
	return addInstaller(a, install.Config{Name: "declare", Kind: v1alpha1.GroupVersion.WithKind("Signer"), Objects: signers})
}

// addReadyMadePolicies does so for the ready-made policies.
func addReadyMadePolicies(a Actor, cfg Config) error {
	policies, err := cfg.Settings.Policy.Installed()
	if err != nil {
		return err
	}
	return addInstaller(a, install.Config{Name: "declarepolicies", Kind: v1alpha1.GroupVersion.WithKind("CertificatePolicy"), Objects: policies, Whole: true})
}

func addInstaller(a Actor, cfg install.Config) error {
	stored, err := a.NewCache(cfg.Kind.Kind, cache.Options{})
	if err != nil {
		return err
	}
	cfg.Client, cfg.Stored, cfg.Events = a.Client, stored, a.Events
	return install.Add(a.Manager, cfg)
}

func addPublisher(a Actor, cfg Config) error {
	configMaps, err := a.CacheOf(publish.Name)
	if err != nil {
		return err
	}
	rootCA, err := cfg.roots()
	if err != nil {
		return err
	}
	return publish.Add(a.Manager, publish.Config{
		Client: a.Client, ConfigMaps: configMaps, Roots: rootCA, Settings: cfg.Settings.Publishing, Events: a.Events, Metrics: a.Metrics,
	})
}

// OpenRoots returns the roots of the API server's certificate, or nil.
func (c Config) OpenRoots() (roots.Roots, error) {
	if path := c.Settings.Publishing.RootCAFile; path != "" {
		return roots.File(path, nil)
	}
	return c.RootCA, nil
}

// addNodeLifecycle adds the controller with its own cache: no other controller
// reads leases.
func addNodeLifecycle(a Actor, cfg Config) error {
	leases, err := a.NewCache("leases", cache.Options{
		DefaultTransform:  cache.TransformStripManagedFields(),
		DefaultNamespaces: map[string]cache.Config{corev1.NamespaceNodeLease: {}},
	})
	if err != nil {
		return err
	}
	return nodelifecycle.Add(a.Manager, nodelifecycle.Config{
		Client: a.Client, Leases: leases, Settings: cfg.Settings.NodeLifecycle, Events: a.Events, Metrics: a.Metrics,
	})
}

// addCertificates adds the controller that issues Certificates of
// cert-manager.io and writes Secrets.
func addCertificates(a Actor, cfg Config) error {
	metrics, err := certmetrics.New(a.Metrics)
	if err != nil {
		return err
	}
	accounts, err := a.accounts(cfg)
	if err != nil {
		return err
	}
	return issue.Add(a.Manager, issue.Config{
		Cache: a.Reader, API: a.API, Secrets: a.Secrets, Client: a.Client, Versions: a.Versions,
		Settings: cfg.Settings.CertManager.CertificateSettings, Events: a.Recorder, Metrics: metrics,
		RenewalInfo: accounts.RenewalInfo, Revoked: cfg.awaitRevoked(),
	})
}

// addWebhookSigners adds a controller for each signer that is a webhook.
func addWebhookSigners(a Actor, cfg Config) error {
	settings := cfg.Settings.Signing
	for i, w := range settings.Webhooks {
		endpoint, err := webhook.New(webhook.Config{Settings: w, Limits: settings.LimitsOf, Honoured: cfg.honoured, Metrics: a.Metrics})
		if err != nil {
			return fmt.Errorf("signing.webhooks[%d]: %w", i, err)
		}
		own := settings
		own.Concurrency = w.Calls()
		err = sign.Add(a.Manager, sign.Config{
			SignerName: w.SignerName,
			Selects:    func(name string) bool { return webhook.Choose(settings.Webhooks, name) == i },
			Sign:       endpoint, Policies: cfg.Policies, Records: cfg.records(), Client: a.Client, Settings: own, Events: a.Events, Metrics: a.Metrics,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
