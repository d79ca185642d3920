package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"github.com/certplane/certplane/internal/controller/inject"
	"github.com/certplane/certplane/internal/controllers"
	"github.com/certplane/certplane/internal/frontend"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/rights"
	"github.com/certplane/certplane/internal/roots"
	"github.com/certplane/certplane/internal/webhook"
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
	// serve says when there is a webhook: Auto, for cert-manager.io if one of its
	// controllers is chosen, and for Signers if the controller signers is chosen
	// and the process runs in a pod, where the API reaches it, or is a webhook for
	// cert-manager.io anyway; Always, for both; or Never, where cert-manager's
	// stays: bad Signers are stored then and say so in their status.
	// Default: Auto.
	Serve string `json:"serve"`
	// bindAddress is the address of the webhook, HOST:PORT, by TLS. Its
	// certificate and the CA behind it are made and replaced by themselves.
	// Default: 127.0.0.1:10250. Flag: --webhook-bind-address.
	BindAddress string `json:"bindAddress"`
	// clientCAFile is a PEM file of CAs. With it, the webhook takes connections
	// only of clients that have a certificate of one of them, as API servers do
	// that are configured so; docs/cluster.md says how. Without it, whoever
	// reaches the port can ask for reviews, and so learn who may approve what.
	// Changes of the file are followed. Default: none.
	ClientCAFile string `json:"clientCAFile,omitempty"`
	// clientNames are the common names that such certificates may have.
	// Default: any.
	ClientNames []string `json:"clientNames,omitempty"`
	// clientCIDRs are the addresses of the API servers, such as 10.0.0.0/28. With
	// them, "certplane manifests" adds a NetworkPolicy that lets nobody else
	// reach the webhook. Default: none.
	ClientCIDRs []string `json:"clientCIDRs,omitempty"`
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (c WebhookConfig) Validate() error {
	if known := []string{serveAuto, serveAlways, serveNever}; !slices.Contains(known, c.Serve) {
		return fmt.Errorf("webhook.serve: %q is none of %v", c.Serve, known)
	}
	if c.BindAddress == off {
		return fmt.Errorf("webhook.bindAddress: %q serves nothing: set webhook.serve to %s", off, serveNever)
	}
	if len(c.ClientNames) > 0 && c.ClientCAFile == "" {
		return errors.New("webhook.clientNames: set webhook.clientCAFile too, or names are not verified")
	}
	for _, cidr := range c.ClientCIDRs {
		if _, err := netip.ParsePrefix(cidr); err != nil {
			return fmt.Errorf("webhook.clientCIDRs: %q is not an address with the length of its prefix, such as 10.0.0.0/28", cidr)
		}
	}
	return checkAddress("webhook.bindAddress", c.BindAddress)
}

// clients returns the clients that the webhook answers.
func (c WebhookConfig) clients() (webhook.Clients, error) {
	if c.ClientCAFile == "" {
		return webhook.Clients{}, nil
	}
	trusted, err := roots.File(c.ClientCAFile, nil)
	if err != nil {
		return webhook.Clients{}, fmt.Errorf("webhook.clientCAFile: %w", err)
	}
	return webhook.Clients{Roots: trusted, Names: c.ClientNames}, nil
}

// ServesWebhook reports whether there is a webhook.
func (c Config) ServesWebhook() bool { return c.AdmitsCertManager() || c.AdmitsSigners() }

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
	if c.Webhook.Serve == serveAuto {
		inPod := c.ClientConnection.Kubeconfig == ""
		return c.work().Chooses(rights.FollowSigners) && (inPod || c.AdmitsCertManager())
	}
	return c.Webhook.Serve == serveAlways
}

// WebhookObjects returns the names of the webhook's objects in the API. Its
// configurations are cluster-scoped, and the cluster may have another
// installation.
func (c Config) WebhookObjects() inject.Objects {
	return inject.Objects{
		Namespace: c.Namespace, Secret: webhookName, Service: webhookName, Configuration: webhookName + "." + c.Namespace,
	}
}

// newWebhook returns the webhook's front end, and adds to the process the
// controller that keeps its certificate.
func newWebhook(cfg Config, process controllers.Process) (frontend.FrontEnd, error) {
	actor, err := process.Actor(rights.WebhookAccount)
	if err != nil {
		return frontend.FrontEnd{}, err
	}
	reviews, err := kubernetes.NewForConfig(actor.API)
	if err != nil {
		return frontend.FrontEnd{}, fmt.Errorf("making the client of the webhook: %w", err)
	}
	signers, err := dynamic.NewForConfig(actor.API)
	if err != nil {
		return frontend.FrontEnd{}, fmt.Errorf("making the client of the webhook: %w", err)
	}
	metrics, err := webhook.NewMetrics(process.Metrics)
	if err != nil {
		return frontend.FrontEnd{}, fmt.Errorf("registering the metrics of the webhook: %w", err)
	}
	issuing, err := controllers.Issuing(process.Metrics)
	if err != nil {
		return frontend.FrontEnd{}, err
	}
	clients, err := cfg.Webhook.clients()
	if err != nil {
		return frontend.FrontEnd{}, err
	}
	server := &webhook.Server{Address: cfg.Webhook.BindAddress, Handler: webhook.New(reviews, signers, metrics), Metrics: metrics, Clients: clients}
	return frontend.FrontEnd{Name: "webhook", Serve: server.Start, Ready: server.Ready}, keepCertificate(actor, cfg.WebhookObjects(), issuing, server)
}

func keepCertificate(actor controllers.Actor, objects inject.Objects, issuing pki.Issuing, server *webhook.Server) error {
	watched := objects.Watched()
	watched.Scheme, watched.Mapper = actor.Manager.GetScheme(), actor.Manager.GetRESTMapper()
	changes, err := cache.New(actor.API, watched)
	if err != nil {
		return fmt.Errorf("making the cache of the webhook's objects: %w", err)
	}
	if err := actor.Manager.Add(everywhere{changes}); err != nil {
		return fmt.Errorf("adding the cache of the webhook's objects: %w", err)
	}
	return inject.Add(actor.Manager, inject.Config{Client: actor.Client, Changes: changes, Objects: objects, Issuing: issuing, Use: server.Use})
}
