// Package admission decides whether a user may make a request with this
// content. Authorization has decided only about its address.
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
	//   - ACMEServer: only who has the verb "serve" on the resource
	//     "acmeendpoints" of certplane.dev can write accounts, account keys and
	//     orders of the ACME server; who writes an endpoint needs the verb
	//     "reference" on the signers that it names and the right to act as its
	//     ServiceAccount; who writes an external key, "use" on the endpoint
	//     ("preauthorize" too, if names need no challenge) and that right; and
	//     who decides about an account, "approve" on the endpoint. Without it,
	//     every user who may write these objects can have certificates of any
	//     name approved and signed.
	//   - CertificatePolicy: CertificatePolicies and CertificatePolicyExceptions
	//     that contradict themselves, or that give more than their authors may
	//     approve, are refused; so are requests for certificates that a policy
	//     certainly forbids, when they are created, and approvals that a policy
	//     forbids or for which people are missing: these become votes. Switched
	//     off, it takes the checks at create and at approval with it, and whoever
	//     may write policies approves by them: the approver and the signers of
	//     this server still decide by the policies, but a signer elsewhere signs
	//     whatever one person has approved, and nobody can give one approval of
	//     several.
	//   - MutatingAdmissionPolicy: objects are changed as the policies of this
	//     kind say. Without this plugin and the three below, their objects can
	//     be stored but have no effect.
	//   - MutatingAdmissionWebhook: objects are changed as the webhooks of
	//     MutatingWebhookConfigurations say.
	//   - ValidatingAdmissionPolicy: requests are refused as the policies of
	//     this kind say.
	//   - ValidatingAdmissionWebhook: requests are refused as the webhooks of
	//     ValidatingWebhookConfigurations say.
	//
	// Any other name is an error. Default: none.
	DisabledPlugins []string `json:"disabledPlugins,omitempty"`
}

// plugin is an admission check that can be switched off by its name.
type plugin struct {
	name string
	make func(authorizer.UnconditionalAuthorizer) admission.Interface
}

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
func New(cfg Config, authz authorizer.UnconditionalAuthorizer, init ...admission.PluginInitializer) (admission.Interface, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if authz == nil {
		return nil, errors.New("admission needs an authorizer")
	}
	var names []string
	registered := admission.NewPlugins()
	for _, p := range plugins() {
		if slices.Contains(cfg.DisabledPlugins, p.name) {
			continue
		}
		names = append(names, p.name)
		registered.Register(p.name, func(io.Reader) (admission.Interface, error) { return p.make(authz), nil })
	}
	// The library's chain calls plugins again that ask for it after a later
	// change.
	chain, err := registered.NewFromPlugins(names, noFiles{}, admission.PluginInitializers(init), admission.DecoratorFunc(metrics.WithControllerMetrics))
	if err != nil {
		return nil, fmt.Errorf("making the admission plugins: %w", err)
	}
	return metrics.WithStepMetrics(chain), nil
}

// noFiles reports that no plugin has a configuration file of its own.
type noFiles struct{}

func (noFiles) ConfigFor(string) (io.Reader, error) { return nil, nil }
