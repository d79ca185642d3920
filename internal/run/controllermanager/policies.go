package controllermanager

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/controller/approving"
	"github.com/certplane/certplane/internal/controller/policystatus"
	"github.com/certplane/certplane/internal/issuing/signer"
	"github.com/certplane/certplane/internal/issuing/signer/webhook"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/approval"
	"github.com/certplane/certplane/internal/policy/request"
	"github.com/certplane/certplane/internal/rights"
)

// PolicyReader is how the policies of an API are read.
type PolicyReader struct {
	API    *rest.Config
	Mapper func(*rest.Config, *http.Client) (meta.RESTMapper, error)
	// Remote means that the API is another process, so that its answers about users are
	// cached for some seconds.
	Remote bool
	// Defined means that the API has the kinds, or will have them soon.
	Defined bool
	// Namespace is the namespace of the controllers' accounts and of the objects that count
	// quotas.
	Namespace string
	// Seals opens and seals the approvals of people.
	Seals *policies.Seals
	// Metrics registers the metrics of decisions.
	Metrics prometheus.Registerer
}

// OpenPolicies returns the Policies of a process, which its admission, approvers
// and signers share.
func (c Config) OpenPolicies(from PolicyReader) (*policies.Policies, error) {
	var builtIn []string
	for _, name := range signer.Names() {
		if webhook.Choose(c.Settings.Signing.Webhooks, name) < 0 && c.Chooses(rights.Sign) {
			builtIn = append(builtIn, name)
		}
	}
	own := request.ServiceAccount(from.Namespace, rights.IssueCertificates.Account)
	return policies.New(policies.Config{
		API: from.API, Mapper: from.Mapper, Defined: from.Defined, KeepAnswers: from.Remote, Settings: c.Settings.Policy, Seals: from.Seals, Metrics: from.Metrics, Namespace: from.Namespace,
		Controllers: []string{own.Username}, Certificates: c.requesterForCertificates(own),
		BuiltIn: builtIn, Kubelets: approval.Policy{Strict: c.Settings.Approval.Strict},
	})
}

// requesterForCertificates returns the user who makes the requests for Certificates: own if
// the controller runs here, otherwise the first user that the settings name.
func (c Config) requesterForCertificates(own request.Requester) policies.CertificateRequester {
	by := policies.CertificateRequester{User: own, Copied: c.Settings.CertManager.CopiedAnnotationPrefixes}
	if others := c.Settings.Policy.CertificateControllers; !c.Chooses(rights.IssueCertificates) && len(others) > 0 {
		by.User = request.User(others[0])
	}
	return by
}

func addPolicyStatus(a Actor, cfg Config) error {
	return policystatus.Add(a.Manager, policystatus.Config{Client: a.Client, Policies: cfg.Policies, Events: a.Events})
}

func addRequestPolicyStatus(a Actor, cfg Config) error {
	return policystatus.AddRequestPolicies(a.Manager, policystatus.Config{Client: a.Client, Policies: cfg.Policies, Events: a.Events})
}

func addPolicyApprover(a Actor, cfg Config) error {
	return approving.AddByPolicy(a.Manager, approving.Config{Client: a.Client, OnCreate: a.OnCreate, Policies: cfg.Policies, Events: a.Events})
}
