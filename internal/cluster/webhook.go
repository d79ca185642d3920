package cluster

import (
	"fmt"
	"slices"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/certplane/certplane/internal/controller/inject"
	"github.com/certplane/certplane/internal/webhook"
)

const (
	// WebhookAccount serves the admission webhook: it asks who may approve, and
	// keeps the webhook's certificate.
	WebhookAccount = "cert-manager-webhook"

	// webhookName is that of the webhook's Service and Secret.
	webhookName = "certplane-webhook"
)

// When the webhook is served.
const (
	serveAuto   = "Auto"
	serveAlways = "Always"
	serveNever  = "Never"
)

// WebhookConfig is the stanza "webhook".
type WebhookConfig struct {
	// serve says when there is a webhook: Auto, if a controller of
	// cert-manager.io is chosen; Always; or Never, where cert-manager's stays.
	// Default: Auto.
	Serve string `json:"serve"`
	// bindAddress is the address of the webhook, HOST:PORT, by TLS. Its
	// certificate and the CA behind it are made and replaced by themselves.
	// Default: 127.0.0.1:10250. Flag: --webhook-bind-address.
	BindAddress string `json:"bindAddress"`
}

// Validate reports the first value that cannot work, by its field.
func (c WebhookConfig) Validate() error {
	if known := []string{serveAuto, serveAlways, serveNever}; !slices.Contains(known, c.Serve) {
		return fmt.Errorf("webhook.serve: %q is none of %v", c.Serve, known)
	}
	if c.BindAddress == off {
		return fmt.Errorf("webhook.bindAddress: %q serves nothing: set webhook.serve to %s", off, serveNever)
	}
	return checkAddress("webhook.bindAddress", c.BindAddress)
}

// ServesWebhook tells whether there is a webhook.
func (c Config) ServesWebhook() bool {
	switch c.Webhook.Serve {
	case serveAlways:
		return true
	case serveNever:
		return false
	}
	return slices.ContainsFunc(ofCertManager, c.work().Chooses)
}

// WebhookObjects are what the webhook consists of in the API. Its configurations
// are of the whole cluster, in which there may be another installation.
func (c Config) WebhookObjects() inject.Objects {
	return inject.Objects{
		Namespace: c.Namespace, Secret: webhookName, Service: webhookName, Configuration: webhookName + "." + c.Namespace,
	}
}

// addWebhook adds the webhook to mgr: a server in each process, and what keeps
// its certificate.
func addWebhook(mgr ctrl.Manager, cfg Config, as func(string) (*rest.Config, error)) error {
	own, err := as(WebhookAccount)
	if err != nil {
		return err
	}
	reviews, err := kubernetes.NewForConfig(own)
	if err != nil {
		return fmt.Errorf("making the client of the webhook: %w", err)
	}
	server := &webhook.Server{Address: cfg.Webhook.BindAddress, Handler: webhook.New(reviews)}
	if err := mgr.Add(server); err != nil {
		return fmt.Errorf("adding the webhook: %w", err)
	}
	if err := mgr.AddReadyzCheck("webhook", server.Ready); err != nil {
		return fmt.Errorf("adding the webhook's probe: %w", err)
	}
	return keepCertificate(mgr, cfg.WebhookObjects(), own, server)
}

func keepCertificate(mgr ctrl.Manager, objects inject.Objects, own *rest.Config, server *webhook.Server) error {
	watched := objects.Watched()
	watched.Scheme, watched.Mapper = mgr.GetScheme(), mgr.GetRESTMapper()
	changes, err := cache.New(own, watched)
	if err != nil {
		return fmt.Errorf("making the cache of the webhook's objects: %w", err)
	}
	if err := mgr.Add(everywhere{changes}); err != nil {
		return fmt.Errorf("adding the cache of the webhook's objects: %w", err)
	}
	writer, err := client.New(own, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()})
	if err != nil {
		return fmt.Errorf("making the client of the webhook: %w", err)
	}
	return inject.Add(mgr, inject.Config{Client: writer, Changes: changes, Objects: objects, Use: server.Use})
}

// everywhere runs with and without the lease.
type everywhere struct{ manager.Runnable }

var _ manager.LeaderElectionRunnable = everywhere{}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }
