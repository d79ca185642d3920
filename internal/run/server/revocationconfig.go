package server

import "github.com/certplane/certplane/internal/frontend"

// RevocationConfig is the stanza "revocation".
type RevocationConfig struct {
	// webhook configures the webhook with which a kube-apiserver refuses revoked
	// certificates of this server. It presents the certificate of the API: its names are
	// those of serving.
	Webhook frontend.RevocationWebhookConfig `json:"webhook"`
}

func defaultRevocationConfig() RevocationConfig {
	return RevocationConfig{Webhook: frontend.DefaultRevocationWebhookConfig()}
}

func (c RevocationConfig) validate() error { return c.Webhook.Validate() }
