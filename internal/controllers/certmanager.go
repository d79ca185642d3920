package controllers

import (
	"cmp"
	"fmt"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/events"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/collector/certmetrics"
	"github.com/certplane/certplane/internal/controller/issue"
	"github.com/certplane/certplane/internal/controller/issuers"
	"github.com/certplane/certplane/internal/controller/requestapprove"
	"github.com/certplane/certplane/internal/controller/requestsign"
	"github.com/certplane/certplane/internal/controller/sign"
	"github.com/certplane/certplane/internal/secretwatch"
	"github.com/certplane/certplane/internal/signer/issuer"
)

// The accounts that work for cert-manager.io.
const (
	issuersAccount  = "cert-manager-issuers"
	requestsAccount = "cert-manager-certificaterequests"
	// csrIssuersAccount signs CertificateSigningRequests for issuers.
	csrIssuersAccount = "cert-manager-certificatesigningrequests"
	// requestApproverAccount approves and cannot sign.
	requestApproverAccount = "cert-manager-certificaterequests-approver"
)

// Groups returns the API groups, of those whose kinds clusters do not have by
// themselves, that an account works with.
func Groups(account string) []string {
	switch account {
	case SignerManagerAccount:
		return []string{v1alpha1.GroupName}
	case issuersAccount, requestsAccount, requestApproverAccount, csrIssuersAccount, certificatesAccount:
		return []string{cmv1.SchemeGroupVersion.Group, acmev1.SchemeGroupVersion.Group}
	default:
		return nil
	}
}

// CertManagerSettings is the stanza "certManager".
type CertManagerSettings struct {
	// clusterResourceNamespace is the namespace of the Secrets that
	// ClusterIssuers name. Whoever may write Secrets there can replace the CAs of
	// the whole cluster. Default: cert-manager in "certplane serve", which makes
	// this namespace, or kube-system with a store that an older version has made;
	// in "certplane controllers" that of the controllers' service accounts.
	ClusterResourceNamespace string `json:"clusterResourceNamespace,omitempty"`
	// outliveCA lets certificates of CA issuers end after their CA, as
	// cert-manager does: no verifier takes them from the CA's end on. Default:
	// false, which has them end with their CA, says so by an Event, and renews
	// them in time.
	OutliveCA bool `json:"outliveCA,omitempty"`
	// reviewCAs has certificaterequests-approver leave requests for CA
	// certificates (isCA, or the usage cert sign) to a person or another approver:
	// who has a CA below yours can issue for any name. Default: false, which
	// approves them like all others, as cert-manager does.
	ReviewCAs bool `json:"reviewCAs,omitempty"`

	issue.CertificateSettings `json:",inline"`
}

func defaultCertManagerSettings() CertManagerSettings {
	return CertManagerSettings{CertificateSettings: issue.DefaultCertificateSettings()}
}

// Validate reports the first value that cannot work, by its field.
func (s CertManagerSettings) Validate() error {
	namespace := s.ClusterResourceNamespace
	if problems := validation.IsDNS1123Label(namespace); namespace != "" && len(problems) > 0 {
		return fmt.Errorf("certManager.clusterResourceNamespace: %q cannot be a namespace: %s", namespace, problems[0])
	}
	return s.CertificateSettings.Validate()
}

// clusterResources is where the Secrets of ClusterIssuers are.
func (p Process) clusterResources(cfg Config) string {
	return cmp.Or(cfg.Settings.CertManager.ClusterResourceNamespace, p.Namespace)
}

// rules hold for all CA issuers.
func (c Config) rules() issuer.Rules {
	return issuer.Rules{Honoured: c.honoured, OutliveCA: c.Settings.CertManager.OutliveCA}
}

// secrets returns what tells an account of changes of Secrets.
func (p Process) secrets(account string) (*secretwatch.Watcher, error) {
	cfg, err := p.As(account)
	if err != nil {
		return nil, err
	}
	return secretwatch.New(cfg)
}

// addIssuers adds what looks after Issuers and after ClusterIssuers.
func addIssuers(p Process, cfg Config) error {
	writer, err := p.Client(issuersAccount)
	if err != nil {
		return err
	}
	recorders, err := p.Recorders(issuersAccount)
	if err != nil {
		return err
	}
	versions, err := p.Versions(issuersAccount)
	if err != nil {
		return err
	}
	secrets, err := p.secrets(issuersAccount)
	if err != nil {
		return err
	}
	metrics, err := certmetrics.New(p.Metrics)
	if err != nil {
		return err
	}
	for _, kind := range []string{cmv1.IssuerKind, cmv1.ClusterIssuerKind} {
		err := issuers.Add(p.Manager, issuers.Config{
			Kind: kind, Client: writer, Secrets: secrets, Versions: versions,
			ClusterResources: p.clusterResources(cfg), Events: recorders(issuers.Component(kind)), Metrics: metrics,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func addRequests(p Process, cfg Config) error {
	writer, err := p.Client(requestsAccount)
	if err != nil {
		return err
	}
	recorders, err := p.Recorders(requestsAccount)
	if err != nil {
		return err
	}
	versions, err := p.Versions(requestsAccount)
	if err != nil {
		return err
	}
	secrets, err := p.secrets(requestsAccount)
	if err != nil {
		return err
	}
	syncs, err := certmetrics.New(p.Metrics)
	if err != nil {
		return err
	}
	tell := map[certmanager.IssuerType]events.EventRecorder{}
	for _, t := range []certmanager.IssuerType{certmanager.NoType, certmanager.TypeCA, certmanager.TypeSelfSigned} {
		tell[t] = recorders(requestsign.Component(t))
	}
	return requestsign.Add(p.Manager, requestsign.Config{
		Client: writer, Secrets: secrets, Versions: versions,
		ClusterResources: p.clusterResources(cfg), Rules: cfg.rules(), Issuing: cfg.issuing, Events: tell, Metrics: p.Metrics, Syncs: syncs,
	})
}

// addCSRIssuers adds what signs CertificateSigningRequests for issuers: one
// controller for all of them.
func addCSRIssuers(p Process, cfg Config) error {
	writer, err := p.Client(csrIssuersAccount)
	if err != nil {
		return err
	}
	recorders, err := p.Recorders(csrIssuersAccount)
	if err != nil {
		return err
	}
	versions, err := p.Versions(csrIssuersAccount)
	if err != nil {
		return err
	}
	secrets, err := p.secrets(csrIssuersAccount)
	if err != nil {
		return err
	}
	issuers := requestsign.NewCSRs(requestsign.CSRConfig{
		Cache: p.Manager.GetCache(), Client: writer, Secrets: secrets, Versions: versions,
		ClusterResources: p.clusterResources(cfg), Rules: cfg.rules(), Issuing: cfg.issuing,
	})
	if err := p.Manager.Add(issuers); err != nil {
		return fmt.Errorf("adding what follows issuers for CertificateSigningRequests: %w", err)
	}
	return sign.Add(p.Manager, sign.Config{
		SignerName: "cert-manager.io", Selects: requestsign.IsIssuer, Several: true, Sign: issuers.Sign, Changes: issuers.Subscribe,
		IssuedEvent: requestsign.EventIssued, AwaitedEvent: requestsign.EventAwaitsCSR,
		Client: writer, Settings: cfg.Settings.Signing, Events: recorders(csrIssuersAccount), Metrics: p.Metrics,
	})
}

func addRequestApprover(p Process, cfg Config) error {
	writer, err := p.Client(requestApproverAccount)
	if err != nil {
		return err
	}
	recorders, err := p.Recorders(requestApproverAccount)
	if err != nil {
		return err
	}
	versions, err := p.Versions(requestApproverAccount)
	if err != nil {
		return err
	}
	metrics, err := certmetrics.New(p.Metrics)
	if err != nil {
		return err
	}
	return requestapprove.Add(p.Manager, requestapprove.Config{
		Client: writer, Versions: versions, ReviewCAs: cfg.Settings.CertManager.ReviewCAs,
		Events: recorders(requestapprove.Component), Metrics: metrics,
	})
}
