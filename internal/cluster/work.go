package cluster

import (
	"github.com/certplane/certplane/internal/controller/nodelifecycle"
	"github.com/certplane/certplane/internal/controllers"
)

// Controllers that need something of the cluster.
const (
	signer    = "sign"
	publisher = "publish"
	declared  = "signers"

	issuers         = "issuers"
	requests        = "certificaterequests"
	requestApprover = "certificaterequests-approver"
	certificates    = "certificates"
	issuersCSRs     = "certificatesigningrequests"
)

// ofCertManager are the controllers of cert-manager.io.
var ofCertManager = []string{issuers, requests, requestApprover, issuersCSRs, certificates}

// work is what the controllers do, as far as the configuration says it.
func (c Config) work() controllers.Config {
	// Others may do the same: kube-controller-manager publishes, and may know
	// another CA, and looks after nodes; cert-manager answers what is of cert-manager.io.
	return controllers.Config{Settings: c.Settings, OnlyByName: append([]string{publisher, nodelifecycle.Name}, ofCertManager...)}
}

// Accounts returns the service accounts that the chosen controllers and the
// webhook act as.
func (c Config) Accounts() []string {
	accounts := c.work().Accounts()
	if c.ServesWebhook() {
		accounts = append(accounts, WebhookAccount)
	}
	return accounts
}

// LacksCA tells whether the signers are to run and there is nothing to sign
// with.
func (c Config) LacksCA() bool {
	work := c.work()
	return work.Chooses(signer) && !work.HasCA() && len(c.Signing.Webhooks) == 0
}
