// Package node authorizes the requests that nodes make for their pods.
package node

import (
	"context"
	"fmt"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/apiserver/authz/rbac"
)

// Pods lists the pods of nodes. It may lag behind the store.
type Pods interface {
	// Runs reports whether the pod is bound to the node.
	Runs(node, namespace, pod string) bool
	// Uses reports whether a pod that is bound to the node refers to the
	// object. The mirror pods that a node has created itself do not count: they
	// would let the node refer to any object.
	Uses(node string, kind Kind, namespace, name string) bool
}

// Requests returns the node whose pods a PodCertificateRequest is for, or "" if no request
// of this name exists. It reads the store, so that a node can read a request that it has
// just written.
type Requests func(ctx context.Context, namespace, name string) (node string, err error)

// Kind is a kind of object that pods refer to.
type Kind string

// The kinds, by the names of their resources.
const (
	Secret         Kind = "secrets"
	ConfigMap      Kind = "configmaps"
	ServiceAccount Kind = "serviceaccounts"
)

// leaseNamespace is the namespace of the leases with which nodes show that they
// are alive.
const leaseNamespace = "kube-node-lease"

// Authorizer decides on requests of nodes and has no opinion on other requests. It never
// denies, so that a role can still allow more.
type Authorizer struct {
	pods     Pods
	requests Requests
	// rules are what nodes may do whatever runs on them, for resources without
	// a function in decisions.
	rules []rbacv1.PolicyRule
}

// New returns the authorizer.
func New(pods Pods, requests Requests, rules []rbacv1.PolicyRule) *Authorizer {
	return &Authorizer{pods: pods, requests: requests, rules: rules}
}

// Authorize implements authorizer.UnconditionalAuthorizer.
func (a *Authorizer) Authorize(ctx context.Context, request authorizer.Attributes) (authorizer.Decision, string, error) {
	node, isNode := nodeid.Of(request.GetUser())
	if !isNode {
		return authorizer.DecisionNoOpinion, "", nil
	}
	if node == "" {
		return authorizer.DecisionNoOpinion, fmt.Sprintf("unknown node for user %q", request.GetUser().GetName()), nil
	}
	refusal := a.refusal(node, request)
	if readsPodRequest(request) {
		var err error
		if refusal, err = a.readPodRequest(ctx, node, request); err != nil {
			return authorizer.DecisionNoOpinion, "", err
		}
	}
	switch refusal {
	case "":
		return authorizer.DecisionAllow, "", nil
	case noRule:
		return authorizer.DecisionNoOpinion, "", nil
	default:
		return authorizer.DecisionNoOpinion, refusal, nil
	}
}

// refusal returns the reason why a node may not do something, or "" if it may.
func (a *Authorizer) refusal(node string, request authorizer.Attributes) string {
	if request.IsResourceRequest() {
		resource := schema.GroupResource{Group: request.GetAPIGroup(), Resource: request.GetResource()}
		if decide, ok := decisions[resource]; ok {
			return decide(a, node, request)
		}
	}
	for i := range a.rules {
		if rbac.Allows(&a.rules[i], request) {
			return ""
		}
	}
	return noRule
}

// noRule is the reason for refusing a request that nodes never send. It is not
// shown to users: it would only repeat that they may not.
const noRule = "no rule"

// decisions are the resources whose rules are functions.
var decisions = map[schema.GroupResource]func(a *Authorizer, node string, request authorizer.Attributes) string{
	{Resource: "secrets"}: func(a *Authorizer, node string, r authorizer.Attributes) string { return a.readUsed(node, Secret, r) },
	{Resource: "configmaps"}: func(a *Authorizer, node string, r authorizer.Attributes) string {
		return a.readUsed(node, ConfigMap, r)
	},
	{Resource: "serviceaccounts"}:                      (*Authorizer).serviceAccount,
	{Resource: "nodes"}:                                func(_ *Authorizer, node string, r authorizer.Attributes) string { return ownNode(node, r) },
	{Resource: "pods"}:                                 (*Authorizer).pod,
	{Group: "coordination.k8s.io", Resource: "leases"}: func(_ *Authorizer, node string, r authorizer.Attributes) string { return ownLease(node, r) },
	podRequests:                                        func(_ *Authorizer, node string, r authorizer.Attributes) string { return podRequest(node, r) },
}

// readUsed lets a node read one object that a pod on it refers to. A list or a
// watch of one object also has its name.
func (a *Authorizer) readUsed(node string, kind Kind, r authorizer.Attributes) string {
	switch {
	case !oneOf(r.GetVerb(), "get", "list", "watch"):
		return "can only read resources of this type"
	case r.GetSubresource() != "":
		return "cannot read subresource"
	case r.GetNamespace() == "":
		return "can only read namespaced object of this type"
	case r.GetName() == "":
		return "No Object name found"
	case !a.pods.Uses(node, kind, r.GetNamespace(), r.GetName()):
		return unrelated(node)
	}
	return ""
}

func unrelated(node string) string {
	return fmt.Sprintf("no relationship found between node '%s' and this object", node)
}

// serviceAccount lets a node create tokens for the accounts of its pods, and
// read these accounts.
func (a *Authorizer) serviceAccount(node string, r authorizer.Attributes) string {
	switch {
	case r.GetSubresource() == "token" && r.GetVerb() != "create":
		return "can only create tokens for individual service accounts"
	case r.GetSubresource() == "" && r.GetVerb() != "get":
		return "can only get individual resources of this type"
	case !oneOf(r.GetSubresource(), "", "token"):
		return "cannot use this subresource of service accounts"
	case r.GetName() == "" || !a.pods.Uses(node, ServiceAccount, r.GetNamespace(), r.GetName()):
		return unrelated(node)
	}
	return ""
}

// pod lets a node read the pods that are bound to it and update their status. Admission
// checks the content of these updates.
func (a *Authorizer) pod(node string, r authorizer.Attributes) string {
	what := r.GetVerb()
	if r.GetSubresource() != "" {
		what += " " + r.GetSubresource()
	}
	switch what {
	case "get":
		if !a.pods.Runs(node, r.GetNamespace(), r.GetName()) {
			return unrelated(node)
		}
		return ""
	case "list", "watch":
		if !selectsNode(node, r) {
			return "can only list/watch pods with spec.nodeName field selector"
		}
		return ""
	case "create", "delete", "update status", "patch status", "create eviction":
		return ""
	}
	return noRule
}

var podRequests = schema.GroupResource{Group: "certificates.k8s.io", Resource: "podcertificaterequests"}

// podRequest lets a node request certificates for its pods.
func podRequest(node string, r authorizer.Attributes) string {
	switch {
	case r.GetSubresource() != "":
		return "nodes may not access subresources of podcertificaterequests"
	case r.GetVerb() == "create":
		return "" // admission checks the content
	case oneOf(r.GetVerb(), "list", "watch") && selectsNode(node, r):
		return ""
	case oneOf(r.GetVerb(), "list", "watch"):
		return "can only list/watch podcertificaterequests with spec.nodeName field selector"
	}
	return noRule
}

// readsPodRequest reports whether r reads one request by its name.
func readsPodRequest(r authorizer.Attributes) bool {
	resource := schema.GroupResource{Group: r.GetAPIGroup(), Resource: r.GetResource()}
	return r.IsResourceRequest() && resource == podRequests && r.GetSubresource() == "" && r.GetVerb() == "get"
}

// readPodRequest lets a node read the requests for its pods.
func (a *Authorizer) readPodRequest(ctx context.Context, node string, r authorizer.Attributes) (refusal string, err error) {
	if r.GetNamespace() == "" || r.GetName() == "" {
		return unrelated(node), nil
	}
	switch of, err := a.requests(ctx, r.GetNamespace(), r.GetName()); {
	case err != nil:
		return "", fmt.Errorf("finding the node of PodCertificateRequest %s/%s: %w", r.GetNamespace(), r.GetName(), err)
	case of != node:
		return unrelated(node), nil
	}
	return "", nil
}

// ownNode lets a node manage its own object. Admission checks whether an object
// that it writes is its own; it reads it by name before the object exists.
func ownNode(node string, r authorizer.Attributes) string {
	switch what := r.GetVerb() + " " + r.GetSubresource(); what {
	case "create ", "update ", "patch ", "update status", "patch status":
		return ""
	case "get ", "list ", "watch ":
		switch r.GetName() {
		case node:
			return ""
		case "":
			return fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", node)
		}
		return fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", node, r.GetName())
	}
	return noRule
}

// ownLease lets a node use its own lease to show that it is alive.
func ownLease(node string, r authorizer.Attributes) string {
	switch {
	case !oneOf(r.GetVerb(), "get", "create", "update", "patch", "delete"):
		return "can only get, create, update, patch, or delete a node lease"
	case r.GetNamespace() != leaseNamespace:
		return fmt.Sprintf("can only access leases in the %q system namespace", leaseNamespace)
	case r.GetVerb() != "create" && r.GetName() != node: // a request to create has no name
		return "can only access node lease with the same name as the requesting node"
	}
	return ""
}

// selectsNode reports whether a list is limited to objects on the node.
func selectsNode(node string, r authorizer.Attributes) bool {
	requirements, err := r.GetFieldSelector()
	if err != nil {
		return false
	}
	for _, requirement := range requirements {
		if requirement.Field == "spec.nodeName" && requirement.Operator == selection.Equals && requirement.Value == node {
			return true
		}
	}
	return false
}

func oneOf(value string, known ...string) bool { return slices.Contains(known, value) }
