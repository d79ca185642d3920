package frontend

import (
	"context"
	"fmt"

	"github.com/certplane/certplane/internal/frontend/admissionwebhook"
	"github.com/certplane/certplane/internal/frontend/revocationwebhook"
	"github.com/certplane/certplane/internal/issuing/roots"
)

// RevocationWebhookConfig is the stanza "revocation.webhook".
type RevocationWebhookConfig struct {
	// listen is the address of the authorization webhook, HOST:PORT, by TLS, that refuses
	// users of revoked client certificates at a kube-apiserver: see "certplane manifests
	// --revocation-webhook". What it tells, revocation lists tell everybody. Default: "0",
	// none.
	Listen string `json:"listen"`
	// clientCAFile is a PEM file of CAs. With it, the webhook accepts only clients with a
	// certificate of one of these CAs. The file is read again when it changes. Default:
	// none; then all clients that reach the port are answered.
	ClientCAFile string `json:"clientCAFile,omitempty"`
}

// DefaultRevocationWebhookConfig serves none.
func DefaultRevocationWebhookConfig() RevocationWebhookConfig {
	return RevocationWebhookConfig{Listen: Off}
}

// Off reports whether there is no webhook.
func (c RevocationWebhookConfig) Off() bool { return c.Listen == Off || c.Listen == "" }

const revocationListen = "revocation.webhook.listen"

// Validate returns an error for the first invalid value, with the name of its field.
func (c RevocationWebhookConfig) Validate() error {
	if c.Off() {
		if c.ClientCAFile != "" {
			return fmt.Errorf("revocation.webhook.clientCAFile: set %s also", revocationListen)
		}
		return nil
	}
	return CheckAddress(revocationListen, c.Listen)
}

// Open returns the server of the webhook, nil if there is none. It listens when await has
// returned.
func (c RevocationWebhookConfig) Open(await func(context.Context) error) (*admissionwebhook.Server, error) {
	if c.Off() {
		return nil, nil
	}
	server := &admissionwebhook.Server{Address: c.Listen, Field: revocationListen, Await: await, HTTP2: true}
	if c.ClientCAFile == "" {
		return server, nil
	}
	trusted, err := roots.File(c.ClientCAFile, nil)
	if err != nil {
		return nil, fmt.Errorf("revocation.webhook.clientCAFile: %w", err)
	}
	server.Clients = admissionwebhook.Clients{Roots: trusted}
	return server, nil
}

func openRevocations(p Process, cfg Config) (FrontEnd, error) {
	if cfg.Revocations == nil {
		return FrontEnd{}, nil
	}
	metrics, err := revocationwebhook.NewMetrics(p.Metrics)
	if err != nil {
		return FrontEnd{}, fmt.Errorf("registering its metrics: %w", err)
	}
	server := cfg.Revocations
	server.Handler = revocationwebhook.New(cfg.Revoked, p.Now, metrics)
	return FrontEnd{Serve: server.Start, Ready: server.Ready}, nil
}
