// Package target parses the target of a right, such as the approval of requests to a
// signer.
package target

import (
	"fmt"
	"slices"
	"strings"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/policy/requests"
	"github.com/certplane/certplane/internal/rights"
)

// AnySigner stands for all signers.
const AnySigner = "*"

// Target is a task with its objects.
type Target struct {
	rights.Task
	// Signer is the name of the signer, DOMAIN/NAME or DOMAIN/*, or AnySigner.
	// For policies and endpoints it is empty.
	Signer string
	// Policy is the name of the policy, Endpoint the name of the endpoint of the ACME
	// server.
	Policy, Endpoint string
	// Namespace is the namespace of the requests, or empty for all namespaces.
	Namespace string
}

// Parse returns the task of a verb for a signer. The kind is empty for the usual one:
// CertificateRequests to an issuer of cert-manager.io, and CertificateSigningRequests or
// ClusterTrustBundles otherwise. The namespace is empty for all namespaces, or the
// namespace of an Issuer.
func Parse(verb, signer, kind, namespace string) (Target, error) {
	signer = SignerName(signer)
	if err := checkSigner(signer); err != nil {
		return Target{}, err
	}
	task, err := findTask(verb, signer, kind)
	if err != nil {
		return Target{}, err
	}
	t := Target{Task: task, Signer: signer, Namespace: namespace}
	if !task.Kind.Namespaced && namespace != "" {
		return Target{}, fmt.Errorf("--namespace %s: %ss have no namespace: omit the flag", namespace, task.Kind.Name)
	}
	if own := t.issuerNamespace(); own != "" {
		if namespace != "" && namespace != own {
			return Target{}, fmt.Errorf("--namespace %s: CertificateRequests to %s are in the namespace of the Issuer, %s", namespace, signer, own)
		}
		t.Namespace = own
	}
	return t, nil
}

// Policy returns the target of a verb on a policy: to use it in one namespace or in all,
// or to override it, for which the namespace must be empty.
func Policy(verb, policy, namespace string) (Target, error) {
	name := strings.TrimPrefix(policy, rights.Policies.Resource+"/")
	if name == "" || strings.Contains(name, "/") {
		return Target{}, fmt.Errorf("%q is not the name of a CertificatePolicy", policy)
	}
	for _, task := range rights.Tasks() {
		if task.Verb == verb {
			return Target{Task: task, Policy: name, Namespace: namespace}, nil
		}
	}
	return Target{}, fmt.Errorf("%q is not a verb for policies", verb)
}

// Endpoint returns the target of a verb on an endpoint of the ACME server.
func Endpoint(verb, endpoint string) (Target, error) {
	name := strings.TrimPrefix(endpoint, rights.Endpoints.Resource+"/")
	if name == "" || strings.Contains(name, "/") {
		return Target{}, fmt.Errorf("%q is not the name of an AcmeEndpoint", endpoint)
	}
	task, ok := rights.FindTask(verb, rights.Endpoints)
	if !ok {
		return Target{}, fmt.Errorf("%q is not a verb for AcmeEndpoints", verb)
	}
	return Target{Task: task, Endpoint: name}, nil
}

// ObjectName returns the name of the target's policy or endpoint, or empty for requests.
func (t Target) ObjectName() string { return t.Policy + t.Endpoint }

// findTask returns the task with a kind, or with the usual kind if none is
// given.
func findTask(verb, signer, kind string) (rights.Task, error) {
	kinds := rights.KindsOf(verb)
	if kind == "" {
		usual := kinds[0]
		_, isIssuer := certmanager.ParseSignerName(sample(signer))
		if isIssuer && slices.Contains(kinds, rights.IssuerRequests) {
			usual = rights.IssuerRequests
		}
		task, _ := rights.FindTask(verb, usual)
		if isIssuer && verb == rights.TaskRevoke {
			task = task.OfIssuers()
		}
		return task, nil
	}
	for _, known := range kinds {
		if known.Is(kind) {
			task, _ := rights.FindTask(verb, known)
			return task, nil
		}
	}
	return rights.Task{}, fmt.Errorf("--kind %q cannot be for %q: want %s", kind, verb, kindNames(kinds))
}

func kindNames(kinds []rights.Kind) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	return strings.Join(names, " or ")
}

// Kinds returns the names of all kinds that Parse accepts for a verb.
func Kinds(verb string) []string {
	var names []string
	for _, k := range rights.KindsOf(verb) {
		names = append(names, k.Name)
	}
	return names
}

// issuerNamespace returns the namespace of the Issuer if only requests of that
// namespace can name it.
func (t Target) issuerNamespace() string {
	issuer, ok := certmanager.ParseSignerName(t.Signer)
	if !ok || t.Kind != rights.IssuerRequests || strings.HasSuffix(t.Signer, "/*") {
		return ""
	}
	return issuer.Namespace
}

// NamespaceBeside returns the namespace of objects that belong to the requests, such as
// their Events, or empty for all namespaces. Events of objects without a namespace are in
// "default".
func (t Target) NamespaceBeside() string {
	if !t.Kind.Namespaced {
		return metav1.NamespaceDefault
	}
	return t.Namespace
}

// Issuer returns the Issuer or ClusterIssuer that is the signer.
func (t Target) Issuer() (certmanager.Signer, bool) {
	if strings.HasSuffix(t.Signer, "/*") {
		return certmanager.Signer{}, false
	}
	return certmanager.ParseSignerName(t.Signer)
}

// UsualKind reports whether the kind is Parse's default.
func (t Target) UsualKind() bool {
	usual, err := findTask(t.Verb, t.Signer, "")
	return t.ObjectName() != "" || err == nil && usual.Kind == t.Kind
}

// SignerNames returns the resource names that grant a right to the signer: its own name
// and the name for its whole domain. It returns none for all signers.
func (t Target) SignerNames() []string {
	domain, _, _ := strings.Cut(t.Signer, "/")
	switch all := domain + "/*"; t.Signer {
	case AnySigner:
		return nil
	case all:
		return []string{all}
	default:
		return []string{t.Signer, all}
	}
}

// String describes the task.
func (t Target) String() string {
	text := ""
	switch {
	case t.Endpoint != "":
		text = fmt.Sprintf(onEndpoint[t.Verb], t.Endpoint)
	case t.Policy != "":
		text = t.Verb + " the CertificatePolicy " + t.Policy
	case t.NeedsReference():
		text = fmt.Sprintf("create %ss for %s", t.Kind.Name, t.signerText())
	case t.Verb == rights.TaskRequest && t.Kind != rights.IssuerRequests:
		text = fmt.Sprintf("create %ss for any signer", t.Kind.Name)
	case t.Verb == rights.TaskRequest:
		text = fmt.Sprintf("create %ss to any issuer", t.Kind.Name)
	case t.Verb == rights.TaskRevoke && t.Many:
		text = "revoke any number of certificates of " + t.signerText()
	case t.Verb == rights.TaskRevoke:
		text = "revoke certificates of " + t.signerText()
	case t.Verb == rights.TaskAttest:
		text = fmt.Sprintf("write %ss of %s", t.Kind.Name, t.signerText())
	case t.Signers == "":
		text = fmt.Sprintf("%s %ss to any issuer", t.Verb, t.Kind.Name)
	default:
		text = fmt.Sprintf("%s %ss for %s", t.Verb, t.Kind.Name, t.signerText())
	}
	if t.Namespace != "" {
		text += " in the namespace " + t.Namespace
	}
	return text
}

// onEndpoint describes the verbs on endpoints.
var onEndpoint = map[string]string{
	rights.TaskUse:          "create ACME accounts and orders at the AcmeEndpoint %s",
	rights.TaskAutoApprove:  "get certificates from the AcmeEndpoint %s without a person",
	rights.TaskApprove:      "approve and revoke accounts of the AcmeEndpoint %s",
	rights.TaskPreauthorize: "exempt names from challenges at the AcmeEndpoint %s",
}

func (t Target) signerText() string {
	if domain, isAll := strings.CutSuffix(t.Signer, "/*"); isAll {
		return "all signers of " + domain
	}
	if t.Signer == AnySigner {
		return "all signers"
	}
	return t.Signer
}

// Reference returns the additional right that CertificateSigningRequests to an Issuer
// need (one of its resource names suffices), and its namespace, empty for all. The rule
// has no verbs for other targets.
func (t Target) Reference() (rule rbacv1.PolicyRule, namespace string) {
	if t.Verb != rights.TaskRequest || t.Kind != rights.SigningRequests {
		return rule, ""
	}
	issuer, _ := t.Issuer()
	if t.Signer == allIssuers {
		issuer = certmanager.Signer{Kind: cmv1.IssuerKind, Namespace: "*", Name: "*"}
	}
	for _, access := range requests.References(issuer) {
		rule.Verbs, rule.APIGroups, rule.Resources = []string{access.Verb}, []string{access.Group}, []string{access.Resource}
		rule.ResourceNames = append(rule.ResourceNames, access.Name)
		namespace = access.Namespace
	}
	return rule, strings.TrimSuffix(namespace, "*")
}

// NeedsReference reports whether Reference returns a right.
func (t Target) NeedsReference() bool {
	rule, _ := t.Reference()
	return len(rule.Verbs) > 0
}

// allIssuers are all Issuers of all namespaces.
const allIssuers = "issuers." + certmanager.Group + "/*"

// WhoCan returns the command that lists the users who may do the task, without the
// program's name.
func (t Target) WhoCan() []string {
	if t.Endpoint != "" {
		return []string{"who-can", t.Verb, "--endpoint", t.Endpoint}
	}
	words := []string{"who-can", t.Verb, t.Signer + t.Policy}
	if t.Many {
		words = append(words, "--many")
	}
	if !t.UsualKind() {
		words = append(words, "--kind", t.Kind.Name)
	}
	if t.Namespace != "" && t.issuerNamespace() == "" {
		words = append(words, "--namespace", t.Namespace)
	}
	return words
}
