package cluster

import (
	"github.com/certplane/certplane/internal/controllers"
)

// Controllers that need something of the cluster.
const (
	signer    = "sign"
	publisher = "publish"

	issuers         = "issuers"
	requests        = "certificaterequests"
	requestApprover = "certificaterequests-approver"
	certificates    = "certificates"
	issuersCSRs     = "certificatesigningrequests"
)

// work is what the controllers do, as far as the configuration says it.
func (c Config) work() controllers.Config {
	// Others may do the same: kube-controller-manager publishes, and may know
	// another CA; cert-manager answers what is of cert-manager.io.
	return controllers.Config{Settings: c.Settings, OnlyByName: []string{publisher, issuers, requests, requestApprover, issuersCSRs, certificates}}
}

// Accounts returns the service accounts that the chosen controllers act as.
func (c Config) Accounts() []string { return c.work().Accounts() }

// LacksCA tells whether the signers are to run and there is nothing to sign
// with.
func (c Config) LacksCA() bool {
	work := c.work()
	return work.Chooses(signer) && !work.HasCA() && len(c.Signing.Webhooks) == 0
}
