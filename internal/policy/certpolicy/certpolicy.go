// Package certpolicy decides about requests for certificates by
// CertificatePolicies.
//
// Policies are compiled once into a Set. A decision depends only on the Set and
// an Input: it uses no clock, no API and no randomness. The API server, the
// approvers, the signers and the command line call the same Decide.
package certpolicy

import (
	"crypto/x509"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// Fact is something that a decision may need and that may not be known yet.
type Fact[T any] struct {
	// Known is set if Value is read from the API. A condition that reads an unknown
	// fact is open.
	Known bool
	// Value is nil if the object is known not to exist.
	Value *T
}

// Known returns a fact. nil means that there is none.
func Known[T any](value *T) Fact[T] { return Fact[T]{Known: true, Value: value} }

// Access is something that a requester may be allowed to do.
type Access struct {
	Verb, Group, Resource, Subresource, Name, Namespace string
}

// Facts are the input of a decision in addition to the request. Facts about a pod are
// in the Request itself.
type Facts struct {
	// Origin is how the request came to be.
	Origin Fact[v1alpha1.RequestOrigin]
	// Order is the order of an ACME client that the request was made for. It is known
	// if Origin is.
	Order *v1alpha1.ProvenOrder
	// Namespace is the namespace of the request; for a CertificateSigningRequest, of
	// the service account that requests it.
	Namespace Fact[metav1.ObjectMeta]
	// Node is the Node of a requester system:node:NAME, or of a pod.
	Node Fact[corev1.Node]
	// Owner is the Certificate that the request is for.
	Owner Fact[metav1.ObjectMeta]
	// Signer is whether the signer belongs to this program and therefore applies the
	// lifetimes of policies.
	Signer Fact[Signer]
	// BuiltIn is the name of the built-in policy that allows the request, such as
	// builtin:selfnodeclient; empty if none does.
	BuiltIn Fact[string]
	// Keys are the stored requests with the same key or of the same owner.
	Keys Fact[v1alpha1.StoredKeys]
	// Earlier are the requests that the request may renew.
	Earlier Fact[v1alpha1.EarlierRequests]
	// RequestPolicies is the decision of the CertificateRequestPolicies of
	// approver-policy; nil if they are not enforced.
	RequestPolicies *v1alpha1.RequestPoliciesRuling
	// Access holds the answers to the questions of match.access. A missing answer is
	// not known.
	Access map[Access]bool
	// Quotas holds the use of each quota. A missing quota is not known.
	Quotas map[Quota]QuotaUse
}

// Signer is what is known about the signer of a request.
type Signer struct {
	// Ours: the signer belongs to this program.
	Ours bool
}

// OwnSigner returns the fact that the signer is, or is not, of this program.
func OwnSigner(ours bool) Fact[Signer] { return Known(&Signer{Ours: ours}) }

// BuiltInPrefix begins the names of built-in policies, which are not objects.
const BuiltInPrefix = "builtin:"

// RequestPolicyPrefix begins the names of CertificateRequestPolicies among names of
// CertificatePolicies.
const RequestPolicyPrefix = approverpolicy.Resource + "." + approverpolicy.GroupName + "/"

// Input is the input of a decision.
type Input struct {
	Stage   v1alpha1.DecisionStage
	Request request.Request
	// NamesOnly: only the names, the usages and the lifetime of the request are known
	// yet, and not how the names were proven.
	NamesOnly bool
	Facts     Facts
	// Time is the time of the decision.
	Time time.Time
	// Patience is how long after the creation of the request an open condition
	// is violated. Zero means never.
	Patience time.Duration
	// Certificate is the finished certificate, before it is signed or as another CA has
	// signed it. Nil: the decision is about the content of the request, or about
	// Prospective.
	Certificate *x509.Certificate
	// Prospective is the certificate that a signer of this server would issue; nil if
	// it has the content that the request asks for.
	Prospective *x509.Certificate
	// Votes are the approvals of people whose seals verify.
	Votes []quorum.Vote
	// SealsUnknown: the request has approvals of people, and it is not known whether
	// their seals verify. It is never set by the server.
	SealsUnknown bool
}

// Needs are the facts that the policies for a request can read. Others need not
// be looked up.
type Needs struct {
	Origin, Namespace, Node, Owner, Pod, Services, Signer bool
	// BuiltIn: it matters whether a built-in policy allows the request.
	BuiltIn bool
	// Keys: a policy compares the key with those of stored requests.
	Keys bool
	// Earlier: a policy permits renewals without people, or reads what the request
	// renews.
	Earlier bool
	// Carried: a policy lets approvals of earlier orders of ACME clients count. They are
	// among the votes.
	Carried bool
	// Access is in the namespace of the request.
	Access []Access
}
