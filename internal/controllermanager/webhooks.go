package controllermanager

import (
	"fmt"

	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/signer/webhook"
)

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
			Sign:       endpoint, Client: a.Client, Settings: own, Events: a.Events, Metrics: a.Metrics,
		})
		if err != nil {
			return err
		}
	}
	return nil
}
