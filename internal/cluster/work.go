package cluster

import (
	"slices"

	"github.com/certplane/certplane/internal/controllers"
)

// Controllers that need something of the cluster.
const (
	signer    = "sign"
	publisher = "publish"
)

// work is what the controllers do, as far as the configuration says it.
func (c Config) work() controllers.Config {
	// kube-controller-manager publishes too, and may know another CA.
	return controllers.Config{Settings: c.Settings, OnlyByName: []string{publisher}}
}

// Accounts returns the service accounts that the chosen controllers act as.
func (c Config) Accounts() []string { return c.work().Accounts() }

// LacksCA tells whether the signers are to run and have no CA at all.
func (c Config) LacksCA() bool { return c.work().Chooses(signer) && !c.hasCA() }

// hasCA tells whether there is a CA for any signer.
func (c Config) hasCA() bool {
	for _, signer := range c.Signing.All() {
		if ca, _ := c.Signing.CAOf(signer.Name); !ca.IsZero() {
			return true
		}
	}
	return false
}

// CAFiles are the files of the signers' CAs.
func (c Config) CAFiles() []string {
	var files []string
	for _, signer := range c.Signing.All() {
		ca, _ := c.Signing.CAOf(signer.Name)
		for _, file := range []string{ca.CertFile, ca.KeyFile} {
			if file != "" && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	return files
}
