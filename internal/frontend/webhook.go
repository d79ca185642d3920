package frontend

import (
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/frontend/admissionwebhook"
	"github.com/certplane/certplane/internal/rights"
)

// openWebhook returns the admission webhook, which asks the API as its own
// account.
func openWebhook(p Process, cfg Config) (FrontEnd, error) {
	if cfg.Webhook == nil {
		return FrontEnd{}, nil
	}
	api, err := p.As(rights.WebhookAccount)
	if err != nil {
		return FrontEnd{}, err
	}
	reviews, err := kubernetes.NewForConfig(api)
	if err != nil {
		return FrontEnd{}, fmt.Errorf("making its client: %w", err)
	}
	signers, err := dynamic.NewForConfig(api)
	if err != nil {
		return FrontEnd{}, fmt.Errorf("making its client: %w", err)
	}
	metrics, err := admissionwebhook.NewMetrics(p.Metrics)
	if err != nil {
		return FrontEnd{}, fmt.Errorf("registering its metrics: %w", err)
	}
	server := cfg.Webhook
	server.Handler, server.Metrics = admissionwebhook.New(reviews, signers, cfg.Policies, metrics), metrics
	return FrontEnd{Serve: server.Start, Ready: server.Ready}, nil
}
