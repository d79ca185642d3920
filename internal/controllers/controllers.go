// Package controllers is the composition root of the certificate controllers:
// "certplane controllers" runs them against any Kubernetes API, "certplane
// serve" against its own.
package controllers

import (
	"crypto/rand"
	"fmt"
	"slices"
	"sync"

	"github.com/certplane/certplane/internal/controller/approve"
	"github.com/certplane/certplane/internal/controller/clean"
	"github.com/certplane/certplane/internal/controller/declare"
	"github.com/certplane/certplane/internal/controller/nodelifecycle"
	"github.com/certplane/certplane/internal/controller/podsign"
	"github.com/certplane/certplane/internal/controller/publish"
	"github.com/certplane/certplane/internal/controller/requestapprove"
	"github.com/certplane/certplane/internal/controller/requestsign"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/controller/signers"
	"github.com/certplane/certplane/internal/controller/trust"
	"github.com/certplane/certplane/internal/ledger"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/roots"
	"github.com/certplane/certplane/internal/signer"
	"github.com/certplane/certplane/internal/signer/declared"
)

// The service accounts as which controllers call the API.
const (
	// CacheAccount reads what all controllers share.
	CacheAccount = "controller-cache"

	// WebhookSignerAccount signs with what webhooks answer. For which signers
	// depends on the configuration.
	WebhookSignerAccount = "csr-webhook-signer"

	// SignerManagerAccount keeps the CAs of declared signers.
	SignerManagerAccount = "signer-manager"

	csrApproverAccount = "csr-approver"
	csrSignerAccount   = "csr-signer"
	publisherAccount   = "root-ca-cert-publisher"
	// declaredAccount signs for declared signers.
	declaredAccount = "declared-signer"
)

// Settings are the stanzas of a configuration file that rule the controllers.
type Settings struct {
	// controllers chooses which controllers run: "*" is all that are on by
	// default, "name" turns one on and "-name" turns one off. The names are
	// approve (requests of kubelets that need no person), sign (the built-in
	// signers), signers (follows Signer objects, and signs for them), podsign
	// (signs pods' requests for them; needs signers), declare (installs the
	// Signers that podSigners names), clean (deletes requests
	// that have had their time), trust (the signers' roots, where the API has
	// trust bundles), issuers (says on Issuers of
	// cert-manager.io whether they can sign), certificaterequests (answers the
	// requests to them), certificaterequests-approver (approves all of these,
	// whoever asks: turn it off where somebody else decides),
	// certificatesigningrequests (answers those that name Issuers), certificates
	// (issues and renews Certificates into Secrets), publish
	// (kube-root-ca.crt in every namespace) and node-lifecycle-controller (says of
	// nodes that have gone silent that they are not ready). Those of
	// cert-manager.io and the last two are on by default in "certplane serve" only,
	// because in clusters others may do the same: cert-manager and
	// kube-controller-manager. Default: ["*"].
	// Flag: --controllers.
	Controllers []string `json:"controllers"`
	// approval rules which requests are approved without a person.
	Approval approve.Settings `json:"approval"`
	// signing rules what the built-in signers issue.
	Signing sign.Settings `json:"signing"`
	// declaredSigners rules what happens to the CAs of Signer objects.
	DeclaredSigners signers.Settings `json:"declaredSigners"`
	// podSigning rules how PodCertificateRequests are signed.
	PodSigning podsign.Settings `json:"podSigning"`
	// podSigners says which ready-made Signers there are.
	PodSigners declare.Settings `json:"podSigners"`
	// cleaning says when requests are deleted.
	Cleaning clean.Settings `json:"cleaning"`
	// publishing says which roots of the API server are published.
	Publishing publish.Settings `json:"publishing"`
	// trust says which roots of the signers are published.
	Trust trust.Settings `json:"trust"`
	// certManager rules what happens to the objects of cert-manager.io.
	CertManager CertManagerSettings `json:"certManager"`
	// nodeLifecycle rules when nodes count as dead.
	NodeLifecycle nodelifecycle.Settings `json:"nodeLifecycle"`
}

// DefaultSettings returns what applies when nothing is said.
func DefaultSettings() Settings {
	return Settings{
		Controllers:     []string{"*"},
		Approval:        approve.DefaultSettings(),
		Signing:         sign.DefaultSettings(),
		DeclaredSigners: signers.DefaultSettings(),
		PodSigning:      podsign.DefaultSettings(),
		PodSigners:      declare.DefaultSettings(),
		Cleaning:        clean.DefaultSettings(),
		Publishing:      publish.DefaultSettings(),
		Trust:           trust.DefaultSettings(),
		CertManager:     defaultCertManagerSettings(),
		NodeLifecycle:   nodelifecycle.DefaultSettings(),
	}
}

// Validate reports the first value that cannot work, by its field.
func (s Settings) Validate() error {
	if err := checkSelection(s.Controllers); err != nil {
		return fmt.Errorf("controllers: %w", err)
	}
	for _, stanza := range []interface{ Validate() error }{s.Approval, s.Signing, s.DeclaredSigners, s.PodSigning, s.PodSigners, s.Cleaning, s.Publishing, s.CertManager, s.NodeLifecycle} {
		if err := stanza.Validate(); err != nil {
			return err
		}
	}
	return s.Trust.Validate(signer.Names())
}

// Config says what the controllers work with.
type Config struct {
	Settings Settings
	// CA signs for the signers for which Settings name none. If it is nil too,
	// such signers do not run.
	CA sign.CA
	// RootCA is what the certificate of the API server chains to, unless
	// Settings name a file. Nil if nobody knows.
	RootCA roots.Roots
	// OnlyByName are controllers that "*" does not choose.
	OnlyByName []string
	// Honoured are CAs whose client certificates the API honours, as far as they
	// are known besides those of the signers that run here. It can be nil.
	Honoured signer.Honoured
	// Honour, if there is one, is told of each CA with which a signer of the API's
	// clients signs: of those of now, and of those that replace them.
	Honour func(*pki.Authority)

	// What several controllers need is opened when the first one asks.
	issuers func() ([]builtIn, error)
	roots   func() (roots.Roots, error)
	// issuing is what signers sign with besides their CAs.
	issuing pki.Issuing
	// declared are the signers of Signer objects.
	declared *declared.Set
	// honoured are all CAs whose client certificates the API honours, as far as
	// they are known.
	honoured signer.Honoured
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
	{"sign", WebhookSignerAccount, addWebhookSigners},
	{"signers", SignerManagerAccount, addDeclared},
	{"signers", declaredAccount, addDeclaredSigners},
	{"podsign", declaredAccount, addPodSigners},
	{"declare", readyMadeAccount, addReadyMade},
	{"clean", cleanerAccount, addCleaner},
	{"clean", podCleanerAccount, addPodCleaner},
	{"publish", publisherAccount, addPublisher},
	{"trust", trustAccount, addTrust},
	{"issuers", issuersAccount, addIssuers},
	{requestsign.Name, requestsAccount, addRequests},
	{requestsign.CSRName, csrIssuersAccount, addCSRIssuers},
	{requestapprove.Name, requestApproverAccount, addRequestApprover},
	{"certificates", certificatesAccount, addCertificates},
	{nodelifecycle.Name, nodeAccount, addNodeLifecycle},
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
		if c.runs(line) && !slices.Contains(accounts, line.account) {
			accounts = append(accounts, line.account)
		}
	}
	return accounts
}

// Add adds the chosen controllers to the manager of p.
func Add(p Process, cfg Config) error {
	cfg.issuers = sync.OnceValues(func() ([]builtIn, error) { return openIssuers(p, cfg) })
	cfg.roots = sync.OnceValues(cfg.OpenRoots)
	cfg.declared = &declared.Set{}
	record, err := ledger.New(p.Metrics)
	if err != nil {
		return err
	}
	cfg.issuing = pki.Issuing{Rand: rand.Reader, Record: record}
	cfg.honoured = cfg.allHonoured
	for _, c := range all {
		if !cfg.runs(c) {
			continue
		}
		if err := c.add(p, cfg); err != nil {
			return fmt.Errorf("adding the %s controller: %w", c.name, err)
		}
	}
	return nil
}

// runs tells whether a controller is chosen and has anything to do.
func (c Config) runs(line controller) bool {
	if !c.Chooses(line.name) {
		return false
	}
	switch line.account {
	case csrSignerAccount:
		return c.HasCA()
	case WebhookSignerAccount:
		return len(c.Settings.Signing.Webhooks) > 0
	case readyMadeAccount:
		return len(c.Settings.PodSigners.Install) > 0
	case declaredAccount:
		return c.Chooses("signers")
	case trustAccount:
		return c.Chooses("sign") && c.HasCA() || c.Chooses("publish") || c.Chooses("signers")
	default:
		return true
	}
}
