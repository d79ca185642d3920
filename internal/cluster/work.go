package cluster

import (
	"slices"

	"github.com/certplane/certplane/internal/controllermanager"
	"github.com/certplane/certplane/internal/rights"
)

// work returns what the controllers do according to the configuration.
func (c Config) work() controllermanager.Config {
	return controllermanager.Config{Settings: c.Settings, InCluster: true}
}

// Accounts returns the service accounts that the chosen controllers and the
// webhook act as.
func (c Config) Accounts() []string {
	accounts := c.work().Accounts()
	if c.ServesWebhook() {
		accounts = append(accounts, rights.WebhookAccount)
	}
	return accounts
}

// choosesCertManager reports whether a controller of cert-manager.io is chosen.
func (c Config) choosesCertManager() bool {
	return slices.ContainsFunc(rights.Controllers(), func(controller rights.Controller) bool {
		return controller.OfCertManager() && c.work().Chooses(controller)
	})
}

// LacksCA reports whether the signers are to run without a CA to sign with.
func (c Config) LacksCA() bool {
	work := c.work()
	return work.Chooses(rights.Sign) && !work.HasCA() && len(c.Signing.Webhooks) == 0
}
