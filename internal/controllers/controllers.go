// Package controllers is the composition root of the certificate controllers:
// "certplane controllers" runs them against any Kubernetes API, "certplane
// serve" against its own.
package controllers

import (
	"crypto/x509"
	"fmt"
	"slices"

	"github.com/certplane/certplane/internal/controller/approve"
	"github.com/certplane/certplane/internal/controller/publish"
	"github.com/certplane/certplane/internal/controller/sign"
)

// The service accounts as which controllers call the API.
const (
	// CacheAccount reads what all controllers share.
	CacheAccount = "controller-cache"

	csrApproverAccount   = "csr-approver"
	csrSignerAccount     = "csr-signer"
	webhookSignerAccount = "csr-webhook-signer"
	publisherAccount     = "root-ca-cert-publisher"
)

// Settings are the stanzas of a configuration file that rule the controllers.
type Settings struct {
	// controllers chooses which controllers run: "*" is all that are on by
	// default, "name" turns one on and "-name" turns one off. The names are
	// approve (requests of kubelets that need no person), sign (the signers)
	// and publish (kube-root-ca.crt in every namespace; on by default in
	// "certplane serve" only, because in clusters kube-controller-manager does
	// it). Default: ["*"].
	Controllers []string `json:"controllers"`
	// approval rules which requests are approved without a person.
	Approval approve.Settings `json:"approval"`
	// signing rules what the built-in signers issue.
	Signing sign.Settings `json:"signing"`
}

// DefaultSettings returns what applies when nothing is said.
func DefaultSettings() Settings {
	return Settings{
		Controllers: []string{"*"},
		Approval:    approve.DefaultSettings(),
		Signing:     sign.DefaultSettings(),
	}
}

// Validate reports the first value that cannot work, by its field.
func (s Settings) Validate() error {
	if err := checkSelection(s.Controllers); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	if err := s.Approval.Validate(); err != nil {
		return err
	}
	return s.Signing.Validate()
}

// Config says what the controllers work with.
type Config struct {
	Settings Settings
	// CA signs for the signers for which Settings name none. If it is nil too,
	// such signers do not run.
	CA sign.CA
	// RootCA is what the certificate of the API server chains to.
	RootCA []*x509.Certificate
	// OnlyByName are controllers that "*" does not choose.
	OnlyByName []string
}

// controller is a line of the table of controllers.
type controller struct {
	name    string
	account string
	add     func(Process, Config) error
}

// all are the controllers by the names that users know them by.
var all = []controller{
	{"approve", csrApproverAccount, addApprover},
	{"sign", csrSignerAccount, addSigners},
	{"sign", webhookSignerAccount, addWebhookSigners},
	{"publish", publisherAccount, addPublisher},
}

// Accounts returns the service accounts that the controllers act as.
func Accounts() []string {
	accounts := []string{CacheAccount}
	for _, c := range all {
		accounts = append(accounts, c.account)
	}
	return slices.Compact(accounts)
}

// Accounts returns the service accounts that the chosen controllers act as.
func (c Config) Accounts() []string {
	accounts := []string{CacheAccount}
	for _, line := range all {
		if c.Chooses(line.name) && !slices.Contains(accounts, line.account) {
			accounts = append(accounts, line.account)
		}
	}
	return accounts
}

// Add adds the chosen controllers to the manager of p.
func Add(p Process, cfg Config) error {
	for _, c := range all {
		if !cfg.Chooses(c.name) {
			continue
		}
		if err := c.add(p, cfg); err != nil {
			return fmt.Errorf("adding the %s controller: %w", c.name, err)
		}
	}
	return nil
}

func addPublisher(p Process, cfg Config) error {
	writer, err := p.Client(publisherAccount)
	if err != nil {
		return err
	}
	configMaps, err := p.CacheOf(publish.Name)
	if err != nil {
		return err
	}
	return publish.Add(p.Manager, publish.Config{Client: writer, ConfigMaps: configMaps, CA: cfg.RootCA})
}
