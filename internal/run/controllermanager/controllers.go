// Package controllermanager is the composition root of the certificate
// controllers: "certplane controllers" runs them against any Kubernetes API,
// "certplane serve" against its own.
package controllermanager

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/acme/acmeserver/listener"
	"github.com/certplane/certplane/internal/controller/approving"
	"github.com/certplane/certplane/internal/controller/bundles"
	"github.com/certplane/certplane/internal/controller/cainject"
	"github.com/certplane/certplane/internal/controller/clean"
	"github.com/certplane/certplane/internal/controller/install"
	"github.com/certplane/certplane/internal/controller/nodelifecycle"
	"github.com/certplane/certplane/internal/controller/passon"
	"github.com/certplane/certplane/internal/controller/podsign"
	"github.com/certplane/certplane/internal/controller/publish"
	"github.com/certplane/certplane/internal/controller/publishlists"
	"github.com/certplane/certplane/internal/controller/record"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/controller/signers"
	"github.com/certplane/certplane/internal/controller/trust"
	"github.com/certplane/certplane/internal/controller/trustbundles"
	"github.com/certplane/certplane/internal/issuing/roots"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/declared"
	"github.com/certplane/certplane/internal/issuing/signlog"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/rights"
)

// Settings are the stanzas of a configuration file that configure the
// controllers.
type Settings struct {
	// controllers selects the controllers that run: "*" selects all that are on
	// by default, "name" turns one on and "-name" turns one off. "@set" stands for
	// the names of several; an entry for one of them overrides it. In a cluster,
	// other programs such as cert-manager and kube-controller-manager may do the
	// work of some controllers: "*" does not select those there. Default: ["*"].
	// Flag: --controllers.
	Controllers Selection `json:"controllers"`
	// approval selects the requests that are approved without a person.
	Approval approving.Settings `json:"approval"`
	// policy configures how CertificatePolicies are enforced.
	Policy policies.Settings `json:"policy"`
	// signing configures what the built-in signers issue.
	Signing sign.Settings `json:"signing"`
	// declaredSigners configures what happens to the CAs of Signer objects.
	DeclaredSigners signers.Settings `json:"declaredSigners"`
	// podSigning configures how PodCertificateRequests are signed.
	PodSigning podsign.Settings `json:"podSigning"`
	// podSigners selects the ready-made Signers.
	PodSigners install.SignerSettings `json:"podSigners"`
	// cleaning sets when requests are deleted.
	Cleaning clean.Settings `json:"cleaning"`
	// publishing selects the roots of the API server to publish.
	Publishing publish.Settings `json:"publishing"`
	// trust selects the roots of the signers to publish.
	Trust trust.Settings `json:"trust"`
	// certManager configures the controllers of cert-manager.io objects.
	CertManager CertManagerSettings `json:"certManager"`
	// caInjector configures the controller cainjector.
	CAInjector cainject.Settings `json:"caInjector"`
	// trustManager configures the controller bundles, and defaultCAs of TrustBundles.
	TrustManager bundles.Settings `json:"trustManager"`
	// trustBundles configures the controller trustbundles.
	TrustBundles trustbundles.Settings `json:"trustBundles"`
	// acme configures how certificates are obtained from ACME servers.
	ACME ACMESettings `json:"acme"`
	// acmeServer configures the ACME server in this process, for the endpoints
	// that AcmeEndpoints declare.
	ACMEServer listener.Settings `json:"acmeServer"`
	// nodeLifecycle sets when nodes count as dead.
	NodeLifecycle nodelifecycle.Settings `json:"nodeLifecycle"`

	// OpenIssuers are for the types of issuers that this program has in addition
	// to the common types.
	OpenIssuers []OpenIssuers `json:"-"`
}

// DefaultSettings returns the defaults.
func DefaultSettings() Settings {
	return Settings{
		Controllers:     Selection{everything},
		Approval:        approving.DefaultSettings(),
		Policy:          policies.DefaultSettings(),
		Signing:         sign.DefaultSettings(),
		DeclaredSigners: signers.DefaultSettings(),
		PodSigning:      podsign.DefaultSettings(),
		PodSigners:      install.DefaultSignerSettings(),
		Cleaning:        clean.DefaultSettings(),
		Publishing:      publish.DefaultSettings(),
		Trust:           trust.DefaultSettings(),
		CertManager:     defaultCertManagerSettings(),
		CAInjector:      cainject.DefaultSettings(),
		TrustBundles:    trustbundles.DefaultSettings(),
		ACME:            defaultACMESettings(),
		ACMEServer:      listener.DefaultSettings(),
		NodeLifecycle:   nodelifecycle.DefaultSettings(),
	}
}

// Validate returns errors for the invalid values, with the names of their fields:
// for the first one of each stanza.
func (s Settings) Validate() error {
	var all []error
	if err := checkSelection(s.Controllers); err != nil {
		all = append(all, fmt.Errorf("controllers: %w", err))
	}
	for _, stanza := range []interface{ Validate() error }{s.Approval, s.Policy, s.Signing, s.DeclaredSigners, s.PodSigning, s.PodSigners, s.Cleaning, s.Publishing, s.CertManager, s.CAInjector, s.TrustManager, s.TrustBundles, s.ACME, s.ACMEServer, s.NodeLifecycle} {
		all = append(all, stanza.Validate())
	}
	return errors.Join(append(all, s.Trust.Validate(signer.Names()))...)
}

// Config configures the controllers.
type Config struct {
	Settings Settings
	// CA signs for signers whose CA is not in Settings. If it is nil, such
	// signers do not run.
	CA sign.CA
	// RootCA is the root of the API server's certificate, unless Settings name
	// a file. It is nil if the root is unknown.
	RootCA roots.Roots
	// InCluster makes "*" leave out the controllers that must be named in
	// clusters.
	InCluster bool
	// AdmitsTrustBundles means that admission checks the authors of TrustBundles.
	AdmitsTrustBundles bool
	// Policies decide about requests. If it is nil, no policy is enforced.
	Policies *policies.Policies
	// Keepers are the controllers that only "certplane serve" runs.
	Keepers []Part
	// Honoured returns the known CAs whose client certificates the API accepts,
	// in addition to the CAs of the signers that run here. It can be nil.
	Honoured signer.Honoured
	// Honour, if not nil, is called with each CA of a signer of the API's
	// clients: with the present ones, and with their replacements.
	Honour func(*pki.Authority)
	// Responders answer the validations of ACME servers. They are the front ends
	// of the process.
	Responders Responders
	// ACMEServer is the ACME server, in this process or another.
	ACMEServer ACMEServer
	// FrontProxy, if not nil, returns the client certificate that identifies this
	// API server to others.
	FrontProxy func() (*tls.Certificate, error)

	// Revoked is what is revoked, and Lists are the revocation lists that are signed from
	// it.
	Revoked publishlists.Store
	Lists   publishlists.Lists
	// Records, if not nil, is the inventory of the API.
	Records passon.Records

	// Interlocks make controllers wait for Leases of other programs.
	Interlocks []*Interlock

	// Recorder, if not nil, is the inventory of a cluster.
	Recorder *record.Recorder

	// RecordOwn, if not nil, records the certificates that controllers make for the
	// program itself, and the CAs of signers.
	RecordOwn pki.Recorder
	// Status is what certificates of signers tell about their revocation.
	Status pki.StatusInfo

	// What several controllers need is opened when the first of them needs it.
	issuers func() ([]builtIn, error)
	remotes func() (remotes, error)
	roots   func() (roots.Roots, error)
	// issuing is what signers sign with in addition to their CAs.
	issuing pki.Issuing
	// declared are the signers of Signer objects.
	declared *declared.Set
	// issuerCAs are the CAs of ClusterIssuers (*pki.Authority), by the name of the signer.
	issuerCAs *sync.Map
	// honoured returns all known CAs whose client certificates the API accepts.
	honoured signer.Honoured
}

// Part is a controller and the function that adds it to a process.
type Part struct {
	rights.Controller
	// Due reports whether the controller has anything to do; nil means always.
	Due func(Config) bool
	Add func(Actor, Config) error
}

// parts are the controllers that users can choose, in the order in which they
// are added.
var parts = []Part{
	{rights.Approve, nil, addApprover},
	{rights.ApproveByPolicy, nil, addPolicyApprover},
	{rights.Sign, Config.HasCA, addSigners},
	{rights.SignByWebhook, Config.delegates, addWebhookSigners},
	{rights.FollowSigners, nil, addDeclared},
	{rights.SignDeclared, nil, addDeclaredSigners},
	{rights.SignPods, Config.followsSigners, addPodSigners},
	{rights.InstallSigners, Config.installsSigners, addReadyMade},
	{rights.InstallPolicies, Config.installsPolicies, addReadyMadePolicies},
	{rights.PolicyStatus, nil, addPolicyStatus},
	{rights.RequestPolicyStatus, Config.hasRequestPolicies, addRequestPolicyStatus},
	{rights.Record, nil, addRecorder},
	{rights.Clean, nil, addCleaner},
	{rights.CleanPods, nil, addPodCleaner},
	{rights.Publish, nil, addPublisher},
	{rights.Trust, Config.hasRoots, addTrust},
	{rights.CheckIssuers, nil, addIssuers},
	{rights.AnswerRequests, nil, addRequests},
	{rights.AnswerCSRs, nil, addCSRIssuers},
	{rights.ApproveRequests, nil, addRequestApprover},
	{rights.IssueCertificates, nil, addCertificates},
	{rights.ProcessOrders, nil, addOrders},
	{rights.SolveChallenges, nil, addChallenges},
	{rights.InjectCAs, nil, addCAInjector},
	{rights.SpreadBundles, nil, addBundles},
	{rights.ShimIngresses, nil, addIngressShim},
	{rights.ShimGateways, nil, addGatewayShim},
	{rights.WriteTrustBundles, nil, addTrustBundles},
	{rights.ServeACMEOrders, Config.hasACMEServer, addACMEOrders},
	{rights.ValidateACME, Config.hasACMEServer, addACMEValidator},
	{rights.ApproveACME, Config.hasACMEServer, addACMEApprover},
	{rights.CleanACME, Config.hasACMEServer, addACMECleaner},
	{rights.KeepACMEEndpoints, Config.hasACMEServer, addACMEEndpoints},
	{rights.KeepACMECertificate, Config.keepsACMECertificate, addACMECertificate},
	{rights.PublishLists, Config.inCluster, addLists},
	{rights.FillConfigMaps, Config.PublishesLists, addListFiller},
	{rights.NodeLifecycle, nil, addNodeLifecycle},
}

// Accounts returns the service accounts that the chosen controllers use.
func (c Config) Accounts() []string {
	accounts := []string{rights.CacheAccount}
	for _, part := range c.running() {
		if !slices.Contains(accounts, part.Account) {
			accounts = append(accounts, part.Account)
		}
	}
	return accounts
}

// Issuing returns the dependencies for issuing certificates: the recorder of
// signed certificates, whose metrics are registered with metrics. own records
// certificates of the program itself; it can be nil.
func Issuing(metrics prometheus.Registerer, own pki.Recorder) (pki.Issuing, error) {
	record, err := signlog.New(metrics, own)
	return pki.Issuing{Rand: rand.Reader, Record: record}, err
}

// signing returns the dependencies for issuing certificates to clients.
func (c Config) signing() pki.Issuing {
	by := c.issuing
	by.Status = c.Status
	return by
}

// Add adds the chosen controllers to the manager of p, each as its account.
func Add(p Process, cfg Config) error {
	cfg.issuers = sync.OnceValues(func() ([]builtIn, error) { return openIssuers(p, cfg) })
	cfg.remotes = sync.OnceValues(func() (remotes, error) { return openRemotes(p, cfg) })
	cfg.roots = sync.OnceValues(cfg.OpenRoots)
	cfg.declared = &declared.Set{Order: cfg.Policies.Orders().Of}
	cfg.issuerCAs = &sync.Map{}
	var err error
	if cfg.issuing, err = Issuing(p.Metrics, cfg.RecordOwn); err != nil {
		return err
	}
	cfg.issuing.Refuse = func(ca *x509.Certificate) error { return cfg.revoked().RevokedCA(ca) }
	cfg.honoured = cfg.allHonoured
	for _, part := range cfg.running() {
		actor, err := p.Actor(part.Account)
		for _, i := range cfg.Interlocks {
			if slices.Contains(i.of.Waiting(), part.Name) {
				actor.Manager = interlocked{actor.Manager, i}
			}
		}
		if err == nil {
			err = part.Add(actor, cfg)
		}
		if err != nil {
			return fmt.Errorf("adding the %s controller: %w", part.Name, err)
		}
	}
	return nil
}

// running returns the controllers that are chosen and have anything to do.
func (c Config) running() []Part {
	running := slices.Clone(c.Keepers)
	for _, part := range parts {
		if c.Chooses(part.Controller) && (part.Due == nil || part.Due(c)) {
			running = append(running, part)
		}
	}
	return running
}

func (c Config) hasRequestPolicies() bool { return c.Settings.Policy.CertificateRequestPolicies }
func (c Config) delegates() bool          { return len(c.Settings.Signing.Webhooks) > 0 }
func (c Config) followsSigners() bool     { return c.Chooses(rights.FollowSigners) }
func (c Config) installsSigners() bool    { return len(c.Settings.PodSigners.Install) > 0 }
func (c Config) installsPolicies() bool   { return len(c.Settings.Policy.Install) > 0 }

// hasACMEServer reports whether the ACME server has any work. The API of "certplane
// serve" always has its kinds; in clusters they are installed with a server.
func (c Config) hasACMEServer() bool { return !c.InCluster || c.Settings.ACMEServer.ExternalURL != "" }

// hasRoots reports whether there may be roots to publish.
func (c Config) hasRoots() bool {
	return c.Chooses(rights.Sign) && c.HasCA() || c.Chooses(rights.Publish) || c.followsSigners()
}
