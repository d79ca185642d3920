package controllermanager

import (
	"cmp"
	"fmt"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/controller/approving"
	"github.com/certplane/certplane/internal/controller/certificateshim"
	"github.com/certplane/certplane/internal/controller/issue"
	"github.com/certplane/certplane/internal/controller/issuers"
	"github.com/certplane/certplane/internal/controller/passon"
	"github.com/certplane/certplane/internal/controller/requestsign"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/issuing/certmetrics"
	"github.com/certplane/certplane/internal/issuing/signer/vault"
	"github.com/certplane/certplane/internal/policy/shim"
)

// CertManagerSettings is the stanza "certManager".
type CertManagerSettings struct {
	// clusterResourceNamespace is the namespace of the Secrets that
	// ClusterIssuers name. Users who may write Secrets there can replace the CAs
	// of the whole cluster. Default in "certplane serve": cert-manager, which the
	// server creates, or kube-system for a store that an older version created.
	// Default in "certplane controllers": the namespace of the controllers'
	// service accounts.
	ClusterResourceNamespace string `json:"clusterResourceNamespace,omitempty"`
	// outliveCA lets certificates of CA issuers end after their CA, as
	// cert-manager does, although no verifier accepts them after the CA's end.
	// Default: false, which makes them end with their CA, reports that by an
	// Event, and renews them in time.
	OutliveCA bool `json:"outliveCA,omitempty"`
	// reviewCAs makes certificaterequests-approver leave requests for CA
	// certificates (isCA, or the usage cert sign) to a person or another
	// approver, because the holder of a CA below yours can issue for any name.
	// Default: false, which approves them like all others, as cert-manager does.
	ReviewCAs bool `json:"reviewCAs,omitempty"`

	// vault configures connections to Vault servers.
	Vault vault.Settings `json:"vault"`
	// venafi configures connections to servers of CyberArk Certificate Manager,
	// in programs with Venafi issuers.
	Venafi VenafiSettings `json:"venafi"`
	// ingressShim configures the Certificates of Ingresses in "certplane controllers".
	IngressShim shim.IngressSettings `json:"ingressShim"`
	// gatewayShim configures the Certificates of Gateways in "certplane controllers".
	GatewayShim shim.GatewaySettings `json:"gatewayShim"`

	issue.CertificateSettings `json:",inline"`
}

func defaultCertManagerSettings() CertManagerSettings {
	return CertManagerSettings{
		Vault: vault.DefaultSettings(), Venafi: defaultVenafiSettings(), CertificateSettings: issue.DefaultCertificateSettings(),
		IngressShim: shim.DefaultIngressSettings(), GatewayShim: shim.DefaultGatewaySettings(),
	}
}

// Validate returns an error for the first invalid value, with the name of its
// field.
func (s CertManagerSettings) Validate() error {
	namespace := s.ClusterResourceNamespace
	if problems := validation.IsDNS1123Label(namespace); namespace != "" && len(problems) > 0 {
		return fmt.Errorf("certManager.clusterResourceNamespace: %q cannot be a namespace: %s", namespace, problems[0])
	}
	if err := s.Vault.Validate(); err != nil {
		return err
	}
	if err := s.Venafi.Validate(); err != nil {
		return err
	}
	if err := s.GatewayShim.Validate(); err != nil {
		return err
	}
	return s.CertificateSettings.Validate()
}

// clusterResources returns the namespace of the Secrets of ClusterIssuers.
func (c Config) clusterResources(p Process) string {
	return cmp.Or(c.Settings.CertManager.ClusterResourceNamespace, p.Namespace)
}

// issuing returns what issuers need in the name of an actor.
func (a Actor) issuing(cfg Config) issuing.Config {
	return issuing.Config{
		Client: a.Client, Secrets: a.Secrets, Versions: a.Versions,
		ClusterResources: cfg.clusterResources(a.Process),
		Rules:            issuing.Rules{Honoured: cfg.honoured, OutliveCA: cfg.Settings.CertManager.OutliveCA}, Issuing: cfg.issuing,
	}
}

// addIssuers adds the controllers for Issuers and for ClusterIssuers.
func addIssuers(a Actor, cfg Config) error {
	metrics, err := certmetrics.New(a.Metrics)
	if err != nil {
		return err
	}
	config, types, err := a.types(cfg)
	if err != nil {
		return err
	}
	for _, kind := range []string{cmv1.IssuerKind, cmv1.ClusterIssuerKind} {
		err := issuers.Add(a.Manager, issuers.Config{Config: config, Issuers: types, Kind: kind, KnowCA: cfg.knowCA, Events: a.Recorder(issuers.Component(kind)), Metrics: metrics})
		if err != nil {
			return err
		}
	}
	return nil
}

func addRequests(a Actor, cfg Config) error {
	syncs, err := certmetrics.New(a.Metrics)
	if err != nil {
		return err
	}
	tell := map[certmanager.IssuerType]events.EventRecorder{certmanager.NoType: a.Recorder(requestsign.Component)}
	config, types, err := a.types(cfg)
	if err != nil {
		return err
	}
	for _, t := range types.Table {
		tell[t.Name] = a.Recorder(t.Component)
	}
	revocations, err := a.NewCache("Revocations", passon.Watched())
	if err != nil {
		return err
	}
	err = passon.Add(a.Manager, passon.Config{Client: a.Client, Revocations: revocations, Records: cfg.Records, Issuers: types, Versions: a.Versions, Events: a.Events})
	if err != nil {
		return err
	}
	return requestsign.Add(a.Manager, requestsign.Config{Config: config, Issuers: types, Policies: cfg.Policies, Records: cfg.records(), OnCreate: a.OnCreate, Events: tell, Metrics: a.Metrics, Syncs: syncs})
}

// addCSRIssuers adds the controller that signs CertificateSigningRequests for
// issuers: one for all of them.
func addCSRIssuers(a Actor, cfg Config) error {
	config, types, err := a.types(cfg)
	if err != nil {
		return err
	}
	issuers := requestsign.NewCSRs(requestsign.CSRConfig{Config: config, Issuers: types, Cache: a.Manager.GetCache()})
	if err := a.Manager.Add(issuers); err != nil {
		return fmt.Errorf("adding the watcher of issuers for CertificateSigningRequests: %w", err)
	}
	return sign.Add(a.Manager, sign.Config{
		SignerName: "cert-manager.io", Selects: requestsign.IsIssuer, Several: true, Sign: issuers.Sign, Policies: cfg.Policies, Records: cfg.records(), Changes: issuers.Subscribe,
		IssuedEvent: requestsign.EventIssued, AwaitedEvent: requestsign.EventAwaitsCSR,
		Client: a.Client, OnCreate: a.OnCreate, Settings: cfg.Settings.Signing, Events: a.Recorder(a.Account), Metrics: a.Metrics,
	})
}

func addRequestApprover(a Actor, cfg Config) error {
	metrics, err := certmetrics.New(a.Metrics)
	if err != nil {
		return err
	}
	leases, err := a.NewCache("the Leases of approver-policy", approving.LeaseCache())
	if err != nil {
		return err
	}
	return approving.AddDefault(a.Manager, approving.DefaultConfig{
		Config:    approving.Config{Client: a.Client, Versions: a.Versions, Policies: cfg.Policies, OnCreate: a.OnCreate, Events: a.Recorder(approving.DefaultComponent)},
		ReviewCAs: cfg.Settings.CertManager.ReviewCAs, Leases: leases, Metrics: metrics,
	})
}

func addIngressShim(a Actor, cfg Config) error {
	return a.addShim(cfg, certificateshim.AddIngresses)
}

func addGatewayShim(a Actor, cfg Config) error {
	return a.addShim(cfg, certificateshim.AddGateways)
}

// addShim adds a controller that creates Certificates.
func (a Actor) addShim(cfg Config, add func(ctrl.Manager, certificateshim.Config) error) error {
	metrics, err := certmetrics.New(a.Metrics)
	if err != nil {
		return err
	}
	settings := cfg.Settings.CertManager
	return add(a.Manager, certificateshim.Config{
		Cache: a.Reader, Client: a.Client, Namespaces: a.Manager.GetCache(), Versions: a.Versions,
		Ingress: settings.IngressShim, Gateway: settings.GatewayShim, Events: a.Recorder, Metrics: metrics,
	})
}
