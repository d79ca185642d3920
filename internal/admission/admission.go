// Package admission decides whether a user may make a request with this content.
// Authorization has checked only its address.
package admission

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/metrics"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Config is the stanza "admission" of the server's configuration.
type Config struct {
	// disabledPlugins switches admission plugins off by name. All are on by
	// default. Known, in the order in which they run (those that change objects
	// run before those that check them):
	//
	//   - NamespaceLifecycle: nothing can be created in a namespace that does
	//     not exist or is being deleted, and the namespaces default,
	//     kube-system and kube-public cannot be deleted. Without it, objects
	//     can be stored in namespaces that do not exist.
	//   - NodeRestriction: a node (a user system:node:NAME of the group
	//     system:nodes) can write its own Node and Lease, status and mirrors of
	//     the pods that are bound to it, tokens for these pods, and requests
	//     for certificates in its own name and in that of these pods. Other pods
	//     than mirrors it can create if it has the verb "host" on their service
	//     account and on the ConfigMaps and Secrets that they name. The holder
	//     of a bootstrap token for one node ("certplane token create --node")
	//     can request the client certificate of that node only. Without it,
	//     one node can pose as any other.
	//   - PodCertificateIdentity: a PodCertificateRequest, from any user, must
	//     be for a running pod, its node and its service account, and a volume
	//     of the pod must have a source for such a certificate. Without it,
	//     every user who may create podcertificaterequests gets certificates
	//     for any pod, and for pods that do not exist.
	//   - CertificateApproval: a write to certificatesigningrequests/approval
	//     also needs the verb "approve" on the resource "signers" of
	//     certificates.k8s.io, for the name of the request's signer or for its
	//     domain ("example.com/*"). Without it, every user who may update
	//     certificatesigningrequests/approval can approve for every signer.
	//   - CertificateSigning: a write to certificatesigningrequests/status that
	//     changes the certificate or a condition needs the verb "sign" in the
	//     same way. Without it, every user who may update
	//     certificatesigningrequests/status can put any certificate there.
	//   - ClusterTrustBundleAttest: a write of a trust bundle that names a
	//     signer needs the verb "attest" in the same way; deleting one needs
	//     nothing, and is answered with a warning. Without it, every user who
	//     may write clustertrustbundles chooses the trust anchors for every
	//     signer.
	//   - CertificateSubjectRestriction: certificates of the group
	//     system:masters, which may do everything, cannot be requested from the
	//     signer kubernetes.io/kube-apiserver-client. Without it, only the
	//     approver can prevent them.
	//   - CertificateRequestLifetime: a CertificateSigningRequest or
	//     PodCertificateRequest can be created with finalizers only by users
	//     who may update it. Without it, requesters can create requests that
	//     are never cleaned up.
	//   - CertManager: CertificateRequests have the identity of their creator;
	//     only users with the verb "approve" on the resource "signers" of
	//     cert-manager.io, for the issuer ("issuers.cert-manager.io/team.ca")
	//     or for all of its kind ("issuers.cert-manager.io/*"), can approve or
	//     deny them; and invalid objects of cert-manager.io and
	//     acme.cert-manager.io are refused. Without it, every user who may
	//     update certificaterequests/status can approve for every issuer, and
	//     requests can name any user as their creator.
	//   - Signer: a Signer whose fields contradict each other, whose
	//     expressions do not compile or whose signer name another Signer has
	//     cannot be stored. Without it, such a Signer shows the error in its
	//     status and signs nothing.
	//   - ACMEServer: only users with the verb "serve" on the resource
	//     "acmeendpoints" of certplane.dev can write accounts, account keys and
	//     orders of the ACME server. Writing an endpoint needs the verb
	//     "reference" on the signers that it names and the right to act as its
	//     ServiceAccount. Writing an external key needs "use" on the endpoint
	//     (and "preauthorize" if names need no challenge) and that right.
	//     Deciding about an account needs "approve" on the endpoint. Without it,
	//     every user who may write these objects can have certificates of any
	//     name approved and signed.
	//   - Revocation: a dry run of a Revocation fails like the creation itself if
	//     its creator may not revoke all its certificates, and Revocations cannot be
	//     deleted before their certificates have ended. Without it, dry runs of
	//     Revocations check nothing.
	//   - Bundle: a Bundle of trust.cert-manager.io with contradicting fields is
	//     refused. Without it, such a Bundle is stored and reports in its status
	//     why its targets are not written.
	//   - TrustBundle: writing the spec of a TrustBundle whose target is a
	//     ClusterTrustBundle needs the verbs create and update on that. Without
	//     it, such targets are not written.
	//   - CertificatePolicy: CertificatePolicies and CertificatePolicyExceptions
	//     that contradict themselves, or that give more than their authors may
	//     approve, are refused; so are requests for certificates that a policy
	//     certainly forbids, when they are created, and approvals that a policy
	//     forbids. Approvals that need more people become votes. Without it,
	//     there are no checks at create and at approval, and all users who may
	//     write policies can approve with them. The approver and the signers of
	//     this server still decide by the policies, but other signers sign any
	//     request that one person has approved, and approvals by several people
	//     are not possible.
	//   - MutatingAdmissionPolicy: objects are changed by the policies of this
	//     kind. Without this plugin and the three below, their objects can
	//     be stored but have no effect.
	//   - MutatingAdmissionWebhook: objects are changed by the webhooks of
	//     MutatingWebhookConfigurations.
	//   - ValidatingAdmissionPolicy: requests are refused by the policies of
	//     this kind.
	//   - ValidatingAdmissionWebhook: requests are refused by the webhooks of
	//     ValidatingWebhookConfigurations.
	//
	// Any other name is an error. Default: none.
	DisabledPlugins []string `json:"disabledPlugins,omitempty"`
}

// plugin is an admission check that can be switched off by its name.
type plugin struct {
	name string
	make func(authorizer.UnconditionalAuthorizer) admission.Interface
}

// TrustBundle is the name of the plugin that checks the authors of TrustBundles.
const TrustBundle = "TrustBundle"

// plugins are all checks in the order in which they run.
func plugins() []plugin {
	return []plugin{
		{"NamespaceLifecycle", newNamespaceLifecycle},
		{"NodeRestriction", newNodeRestriction},
		{"PodCertificateIdentity", newPodIdentity},
		{"CertificateApproval", newApproval},
		{"CertificateSigning", newSigning},
		{"ClusterTrustBundleAttest", newAttest},
		{"CertificateSubjectRestriction", newSubjectRestriction},
		{"CertificateRequestLifetime", newRequestLifetime},
		{"CertManager", newCertManager},
		{"Signer", newDeclaration},
		{"ACMEServer", newACMEServer},
		{"Revocation", newRevocation},
		{"Bundle", newBundle},
		{TrustBundle, newTrustBundle},
		{"CertificatePolicy", newCertificatePolicy},
		{"MutatingAdmissionPolicy", newMutatingPolicy},
		{"MutatingAdmissionWebhook", newMutatingWebhook},
		{"ValidatingAdmissionPolicy", newValidatingPolicy},
		{"ValidatingAdmissionWebhook", newValidatingWebhook},
	}
}

// Validate returns an error for plugins that do not exist.
func (c Config) Validate() error {
	var known []string
	for _, p := range plugins() {
		known = append(known, p.name)
	}
	for i, name := range c.DisabledPlugins {
		if !slices.Contains(known, name) {
			return fmt.Errorf("admission.disabledPlugins[%d]: unknown name %q; known: %s", i, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// New returns the plugins that cfg leaves on, joined into one. The plugins ask
// authz what a user may do with a signer. init gives them everything they need
// otherwise.
func New(cfg Config, authz authorizer.UnconditionalAuthorizer, init ...admission.PluginInitializer) (*Plugins, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if authz == nil {
		return nil, errors.New("admission needs an authorizer")
	}
	answers, configured := &answers{}, &configured{}
	registered := admission.NewPlugins()
	for _, p := range plugins() {
		if slices.Contains(cfg.DisabledPlugins, p.name) {
			continue
		}
		configured.plugins = append(configured.plugins, p.name)
		made := p.make(authz)
		answers.add(made)
		registered.Register(p.name, func(io.Reader) (admission.Interface, error) { return made, nil })
	}
	initializers := admission.PluginInitializers(init)
	initializers.Initialize(configured)
	// The library's chain calls plugins again after a later change if they request
	// that.
	chain, err := registered.NewFromPlugins(configured.plugins, noFiles{}, initializers,
		admission.Decorators{configured, admission.DecoratorFunc(metrics.WithControllerMetrics)})
	if err != nil {
		return nil, fmt.Errorf("making the admission plugins: %w", err)
	}
	if err := configured.ValidateInitialization(); err != nil {
		return nil, err
	}
	return &Plugins{metrics.WithStepMetrics(chain).(all), answers, configured}, nil
}

// noFiles returns no configuration files: no plugin has one.
type noFiles struct{}

func (noFiles) ConfigFor(string) (io.Reader, error) { return nil, nil }
