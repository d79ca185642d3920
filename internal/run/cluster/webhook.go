package cluster

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/controller/approvalseal"
	"github.com/certplane/certplane/internal/controller/webhookcert"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/frontend/admissionwebhook"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/run/controllermanager"
)

// webhookName is the name of the webhook's Service and Secret.
const webhookName = "certplane-webhook"

// When the webhook is served.
const (
	serveAuto   = "Auto"
	serveAlways = "Always"
	serveNever  = "Never"
)

// WebhookConfig is the stanza "webhook".
type WebhookConfig struct {
	// serve is Auto, Always or Never. With Auto, the webhook reviews objects of
	// cert-manager.io if one of their controllers is chosen, and Bundles if the
	// controller bundles is. It also reviews
	// Signers and certificate policies if the controller signers is chosen, and
	// TrustBundles if the controller trustbundles is, and
	// the process either runs in a pod, where the API can reach it, or already
	// reviews objects of cert-manager.io. Always does both, except for Bundles and
	// TrustBundles without their controllers. With Never,
	// cert-manager's webhook stays in place, and invalid Signers are stored and
	// report their errors in their status, and TrustBundles write no ClusterTrustBundles. Default: Auto.
	Serve string `json:"serve"`
	// bindAddress is the address of the webhook, HOST:PORT, by TLS. Its
	// certificate and the CA behind it are made and replaced automatically.
	// Default: 127.0.0.1:10250. Flag: --webhook-bind-address.
	BindAddress string `json:"bindAddress"`
	// clientCAFile is a PEM file of CAs. With it, the webhook accepts only
	// clients with a certificate of one of these CAs. docs/cluster.md explains
	// how to configure API servers to present one. Without it, all clients that
	// reach the port can request reviews, and so learn which users may approve
	// what. The file is read again when it changes. Default: none.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// clientNames are the common names that such certificates may have.
	// Default: any.
	ClientNames []string `json:"clientNames,omitempty"`
	// clientCIDRs are the addresses of the API servers, such as 10.0.0.0/28. With
	// them, "certplane manifests" adds a NetworkPolicy that keeps all
	// other clients from the webhook. Default: none.
	ClientCIDRs []string `json:"clientCIDRs,omitempty"`
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (c WebhookConfig) Validate() error {
	if known := []string{serveAuto, serveAlways, serveNever}; !slices.Contains(known, c.Serve) {
		return fmt.Errorf("webhook.serve: %q is not one of %v", c.Serve, known)
	}
	if c.BindAddress == frontend.Off {
		return fmt.Errorf("webhook.bindAddress: %q serves nothing: set webhook.serve to %s", frontend.Off, serveNever)
	}
	if len(c.ClientNames) > 0 && c.ClientCAFile == "" {
		return errors.New("webhook.clientNames: set webhook.clientCAFile also, or names are not verified")
	}
	for _, cidr := range c.ClientCIDRs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return fmt.Errorf("webhook.clientCIDRs: %q is not an address with the length of its prefix, such as 10.0.0.0/28", cidr)
		}
	}
	return frontend.CheckAddress("webhook.bindAddress", c.BindAddress)
}

// webhookServer returns the webhook, or nil if there is none.
func (c Config) webhookServer() (*admissionwebhook.Server, error) {
	if !c.ServesWebhook() {
		return nil, nil
	}
	server := &admissionwebhook.Server{Address: c.Webhook.BindAddress}
	if c.Webhook.ClientCAFile == "" {
		return server, nil
	}
	trusted, err := roots.File(c.Webhook.ClientCAFile, nil)
	if err != nil {
		return nil, fmt.Errorf("webhook.clientCAFile: %w", err)
	}
	server.Clients = admissionwebhook.Clients{Roots: trusted, Names: c.Webhook.ClientNames}
	return server, nil
}

// ServesWebhook reports whether there is a webhook.
func (c Config) ServesWebhook() bool {
	return c.AdmitsCertManager() || c.AdmitsSigners() || c.AdmitsBundles() || c.AdmitsTrustBundles()
}

// AdmitsBundles reports whether the webhook reviews Bundles.
func (c Config) AdmitsBundles() bool {
	return c.Webhook.Serve != serveNever && c.work().Chooses(rights.SpreadBundles)
}

// AdmitsCertManager reports whether the webhook reviews objects of
// cert-manager.io.
func (c Config) AdmitsCertManager() bool {
	if c.Webhook.Serve == serveAuto {
		return c.choosesCertManager()
	}
	return c.Webhook.Serve == serveAlways
}

// AdmitsSigners reports whether the webhook reviews Signers. A process outside
// of the cluster, which no Service leads to, does not listen for them by
// default.
func (c Config) AdmitsSigners() bool {
	return c.Webhook.Serve == serveAlways || c.reachable() && c.work().Chooses(rights.FollowSigners)
}

// AdmitsTrustBundles reports whether the webhook reviews TrustBundles.
func (c Config) AdmitsTrustBundles() bool {
	return (c.Webhook.Serve == serveAlways || c.reachable()) && c.work().Chooses(rights.WriteTrustBundles)
}

// reachable reports whether the webhook is served by default for more than cert-manager.io.
func (c Config) reachable() bool {
	return c.Webhook.Serve == serveAuto && (c.ClientConnection.Kubeconfig == "" || c.AdmitsCertManager())
}

// AdmitsPolicies reports whether the webhook decides by certificate policies,
// which are of the same API group as Signers.
func (c Config) AdmitsPolicies() bool { return c.AdmitsSigners() }

// WebhookObjects returns the names of the webhook's objects in the API. Its
// configurations are cluster-scoped, and the cluster may have another
// installation.
func (c Config) WebhookObjects() webhookcert.Objects {
	return webhookcert.Objects{
		Namespace: c.Namespace, Secret: webhookName, Service: webhookName, Configuration: webhookName + "." + c.Namespace,
	}
}

// SealSecret is the Secret with the key that seals approvals.
func (c Config) SealSecret() client.ObjectKey {
	return client.ObjectKey{Namespace: c.Namespace, Name: "certplane-approval-seal"}
}

// webhookActor returns the webhook's account, and a cache of the objects that it
// keeps.
func webhookActor(process controllermanager.Process, of string, watched cache.Options) (controllermanager.Actor, cache.Cache, error) {
	actor, err := process.Actor(rights.WebhookAccount)
	if err != nil {
		return actor, nil, err
	}
	changes, err := actor.NewCache(of, watched)
	return actor, changes, err
}

// keepSeal adds the controllers that keep the key which seals approvals, and publish
// those that verify them.
func keepSeal(process controllermanager.Process, secret client.ObjectKey, seals *policies.Seals) error {
	actor, changes, err := webhookActor(process, "the key that seals approvals", approvalseal.Watched(secret))
	if err != nil {
		return err
	}
	if err := approvalseal.Add(actor.Manager, approvalseal.Config{Client: actor.Client, Changes: changes, Secret: secret, Rand: rand.Reader, Seals: seals}); err != nil {
		return err
	}
	published, err := actor.NewCache("the keys that verify approvals", approvalseal.WatchedKeys(secret.Namespace))
	if err != nil {
		return err
	}
	return approvalseal.Publish(actor.Manager, approvalseal.PublishConfig{Client: actor.Client, Changes: published, Namespace: secret.Namespace, Seals: seals})
}

// keepCertificate adds the controller that keeps the webhook's certificate.
func keepCertificate(process controllermanager.Process, cfg Config, server *admissionwebhook.Server, work controllermanager.Config) error {
	objects := cfg.WebhookObjects()
	actor, changes, err := webhookActor(process, "the webhook's objects", objects.Watched())
	if err != nil {
		return err
	}
	issuing, err := controllermanager.Issuing(process.Metrics, work.RecordOwn)
	if err != nil {
		return err
	}
	keeps := webhookcert.Config{Client: actor.Client, Changes: changes, Objects: objects, Issuing: issuing, Use: server.Use}
	if cfg.AdmitsPolicies() {
		keeps.Subscribe, keeps.Calls = work.Policies.Subscribe, func() map[string]webhookcert.Calls {
			governed, known := work.Policies.Governed()
			if !known {
				return nil
			}
			return map[string]webhookcert.Calls{policies.GovernedWebhook: {Rules: governed.Rules, Condition: governed.Condition}}
		}
	}
	return webhookcert.Add(actor.Manager, keeps)
}
