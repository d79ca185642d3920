package rights

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Kind is a kind of objects for which users need rights.
type Kind struct {
	Name string
	// Short is the short name of the resource.
	Short           string
	Group, Resource string
	// Namespaced is true if rights on the objects can be granted in a namespace.
	Namespaced bool
}

// The kinds of objects of tasks.
var (
	SigningRequests = Kind{"CertificateSigningRequest", "csr", certificates, "certificatesigningrequests", false}
	PodRequests     = Kind{"PodCertificateRequest", "pcr", certificates, "podcertificaterequests", true}
	IssuerRequests  = Kind{"CertificateRequest", "cr", certManager, "certificaterequests", true}
	TrustBundles    = Kind{"ClusterTrustBundle", "ctb", certificates, "clustertrustbundles", false}
	// Policies have no namespace, but the right to use one is checked in the namespace of
	// the request, if it has one.
	Policies = Kind{"CertificatePolicy", "cpol", certplane, "certificatepolicies", true}
	// Endpoints are the endpoints of the ACME server.
	Endpoints = Kind{"AcmeEndpoint", "", certplane, acmeEndpoints, false}
	// Revocations are written to revoke certificates of a signer.
	Revocations = Kind{"Revocation", "", certplane, "revocations", false}
)

// Is reports whether name refers to the kind: by its name, its short name or its
// resource.
func (k Kind) Is(name string) bool {
	name = strings.ToLower(name)
	return slices.Contains([]string{strings.ToLower(k.Name), k.Short, k.Resource}, name)
}

// The verbs of tasks. They are also verbs on signers, except for the first, and for the
// verbs on policies and endpoints of the ACME server.
const (
	TaskRequest = "request"
	TaskApprove = "approve"
	TaskSign    = "sign"
	TaskAttest  = "attest"
	TaskRevoke  = "revoke"
	TaskUse     = "use"

	TaskOverride = "override"

	TaskAutoApprove  = ACMEAutoApprove
	TaskPreauthorize = ACMEPreauthorize
)

// RevokeMany is the additional verb on signers to revoke many of their certificates by one
// Revocation.
const RevokeMany = TaskRevoke + "many"

// Task is an activity of people or programs with the objects of a kind. It requires
// several rights.
type Task struct {
	// Verb is the name of the task, and the verb on signers if these are checked.
	Verb string
	Kind Kind
	// Act is the right to do it. One of its verbs suffices.
	Act rbacv1.PolicyRule
	// Read is the right to read the objects, which programs need before they act. It has
	// no verbs if no object is read.
	Read rbacv1.PolicyRule
	// Signers is the API group of the signers on which the verb is required, or empty.
	Signers string
	// Many is true if the verb RevokeMany on signers is required, too.
	Many bool
	// Also are additional cluster-wide rights for the task, Beside additional rights in
	// the namespace of the requests.
	Also, Beside []rbacv1.PolicyRule
}

// Tasks returns all tasks. The first one of a verb and a group is its default.
func Tasks() []Task {
	return []Task{
		newTask(TaskRequest, SigningRequests, "create", "", ""),
		newTask(TaskRequest, IssuerRequests, "create", "", ""),
		approveSigningRequests(),
		approveIssuerRequests(),
		newTask(TaskSign, SigningRequests, "patch update", "status", certificates),
		newTask(TaskSign, PodRequests, "patch update", "status", certificates),
		// A user who may write the status may answer: cert-manager has no right to sign
		// for an issuer.
		newTask(TaskSign, IssuerRequests, "patch update", "status", ""),
		newTask(TaskAttest, TrustBundles, "create patch update", "", certificates),
		revokeCertificates(),
		{Verb: TaskUse, Kind: Policies, Act: allow(TaskUse, Policies.Group, Policies.Resource)},
		overridePolicies(),
		onEndpoints(TaskUse),
		onEndpoints(TaskAutoApprove),
		// Approving an account changes it.
		onEndpoints(TaskApprove, allow(read+" patch update", certplane, acmeAccounts)),
		onEndpoints(TaskPreauthorize),
	}
}

// onEndpoints returns the task of a verb on endpoints of the ACME server.
func onEndpoints(verb string, also ...rbacv1.PolicyRule) Task {
	return Task{Verb: verb, Kind: Endpoints, Act: allow(verb, Endpoints.Group, Endpoints.Resource), Also: also}
}

// approveSigningRequests includes the rights to read what "certplane explain csr" shows
// to approvers: Signers, which determine the certificate, policies, and the accounts that
// may approve and sign.
func approveSigningRequests() Task {
	t := newTask(TaskApprove, SigningRequests, "patch update", "approval", certificates)
	t.Also = []rbacv1.PolicyRule{readSigners, allow(read, certplane, policyKinds...), askForOthers}
	t.Beside = []rbacv1.PolicyRule{readEvents}
	return t
}

// approveIssuerRequests includes the same for requests to issuers.
func approveIssuerRequests() Task {
	t := newTask(TaskApprove, IssuerRequests, "patch update", "status", certManager)
	t.Also = []rbacv1.PolicyRule{
		allow(read, certplane, policyKinds...), allow(read, approverPolicy, "certificaterequestpolicies"),
		allow(read, certManager, "clusterissuers"), askForOthers,
	}
	t.Beside = []rbacv1.PolicyRule{allow(read, certManager, "issuers"), readEvents}
	return t
}

// revokeCertificates includes the right to read the inventory, in which "certplane revoke"
// finds certificates.
func revokeCertificates() Task {
	t := newTask(TaskRevoke, Revocations, "create", "", certificates)
	t.Also = []rbacv1.PolicyRule{readInventory}
	return t
}

// OfIssuers returns the task for issuers of cert-manager.io instead of other signers. Only
// the right to the signer differs.
func (t Task) OfIssuers() Task {
	t.Signers = certManager
	return t
}

// OnSignersBeside returns the right for the certificates of an issuer's
// CertificateSigningRequests, in addition to that for its CertificateRequests.
func (t Task) OnSignersBeside(names ...string) []rbacv1.PolicyRule {
	if t.Verb != TaskRevoke || t.Signers != certManager {
		return nil
	}
	rule := t.OnSigners(names...)
	rule.APIGroups = []string{certificates}
	return []rbacv1.PolicyRule{rule}
}

// overridePolicies includes the right to write the reason in an annotation of the
// request. Its specification is immutable.
func overridePolicies() Task {
	kind := Policies
	kind.Namespaced = false
	return Task{
		Verb: TaskOverride, Kind: kind, Act: allow(TaskOverride, kind.Group, kind.Resource),
		Also: []rbacv1.PolicyRule{
			allow("get patch", certificates, SigningRequests.Resource),
			allow("get patch", certManager, IssuerRequests.Resource),
		},
	}
}

// OnPolicies reports whether a verb of tasks is one on policies.
func OnPolicies(verb string) bool { return about(verb, Policies) }

// OnEndpoints reports whether a verb of tasks is one on endpoints of the ACME server.
func OnEndpoints(verb string) bool { return about(verb, Endpoints) }

// OnRequests reports whether a verb of tasks is about requests or roots of a signer.
func OnRequests(verb string) bool { return len(KindsOf(verb)) > 0 }

func about(verb string, kind Kind) bool {
	return slices.ContainsFunc(Tasks(), func(t Task) bool { return t.Verb == verb && t.Kind.Resource == kind.Resource })
}

// isNamed reports whether the right of the task is a right on named objects of its kind.
func (t Task) isNamed() bool {
	return t.Kind.Resource == Policies.Resource || t.Kind.Resource == Endpoints.Resource
}

func newTask(verb string, kind Kind, actions, subresource, signers string) Task {
	resource := kind.Resource
	if subresource != "" {
		resource += "/" + subresource
	}
	return Task{
		Verb: verb, Kind: kind,
		Act: allow(actions, kind.Group, resource), Read: allow(read, kind.Group, kind.Resource), Signers: signers,
	}
}

// taskOf returns a task of the table.
func taskOf(verb string, kind Kind) Task {
	t, _ := FindTask(verb, kind)
	return t
}

// FindTask returns the task of a verb with a kind.
func FindTask(verb string, kind Kind) (Task, bool) {
	for _, t := range Tasks() {
		if t.Verb == verb && t.Kind == kind {
			return t, true
		}
	}
	return Task{}, false
}

// KindsOf returns the kinds of requests, or of roots, with which the task of a verb can be
// done.
func KindsOf(verb string) []Kind {
	var kinds []Kind
	for _, t := range Tasks() {
		if t.Verb == verb && !t.isNamed() {
			kinds = append(kinds, t.Kind)
		}
	}
	return kinds
}

// OnObjects returns the rights of the task on objects of its kind, in a
// namespace or in all of them.
func (t Task) OnObjects() []rbacv1.PolicyRule {
	if len(t.Read.Verbs) == 0 {
		return []rbacv1.PolicyRule{t.Act}
	}
	if slices.Equal(t.Act.Resources, t.Read.Resources) {
		all := t.Read
		all.Verbs = slices.Concat(t.Act.Verbs, t.Read.Verbs)
		return []rbacv1.PolicyRule{all}
	}
	return []rbacv1.PolicyRule{t.Read, t.Act}
}

// OnSigners returns the right of the task on signers with these names, or on all signers.
// It can only be granted cluster-wide: signers have no namespace.
func (t Task) OnSigners(names ...string) rbacv1.PolicyRule {
	verbs := t.Verb
	if t.Many {
		verbs += " " + RevokeMany
	}
	return allowOn(verbs, t.Signers, "signers", names...)
}
