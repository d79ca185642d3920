package node

import (
	"context"
	"errors"
	"testing"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/certplane/certplane/internal/rights"
)

const (
	allow = authorizer.DecisionAllow
	none  = authorizer.DecisionNoOpinion
)

// world is a pod "p" of namespace "ns" that is bound to node "n" and refers to
// objects called "used".
type world struct{}

func (world) Runs(node, namespace, pod string) bool {
	return node == "n" && namespace == "ns" && pod == "p"
}

func (world) Uses(node string, _ Kind, namespace, name string) bool {
	return node == "n" && namespace == "ns" && name == "used"
}

// requestsOfN knows the request "mine" of namespace "ns", and returns an error
// for namespace "broken".
func requestsOfN(_ context.Context, namespace, name string) (string, error) {
	if namespace == "broken" {
		return "", errors.New("the store is away")
	}
	if namespace == "ns" && name == "mine" {
		return "n", nil
	}
	return "", nil
}

func TestAuthorize(t *testing.T) {
	tests := []struct {
		reason string
		what   string // verb resource[/subresource] [namespace/]name
		change func(*authorizer.AttributesRecord)
		want   authorizer.Decision
	}{
		{reason: "a Secret of a pod", what: "get secrets ns/used", want: allow},
		{reason: "a watch of one Secret", what: "watch secrets ns/used", want: allow},
		{reason: "another Secret", what: "get secrets ns/other", want: none},
		{reason: "the same name elsewhere", what: "get secrets other/used", want: none},
		{reason: "all Secrets", what: "list secrets ns/", want: none},
		{reason: "all Secrets of all namespaces", what: "list secrets /used", want: none},
		{reason: "writing a Secret", what: "update secrets ns/used", want: none},
		{reason: "deleting a Secret", what: "delete secrets ns/used", want: none},
		{reason: "part of a Secret", what: "get secrets/x ns/used", want: none},
		{reason: "a ConfigMap of a pod", what: "get configmaps ns/used", want: allow},
		{reason: "another ConfigMap", what: "get configmaps ns/other", want: none},

		{reason: "a token for a pod", what: "create serviceaccounts/token ns/used", want: allow},
		{reason: "a token for somebody else", what: "create serviceaccounts/token ns/other", want: none},
		{reason: "a token for nobody", what: "create serviceaccounts/token ns/", want: none},
		{reason: "reading a token", what: "get serviceaccounts/token ns/used", want: none},
		{reason: "the account of a pod", what: "get serviceaccounts ns/used", want: allow},
		{reason: "another account", what: "get serviceaccounts ns/other", want: none},
		{reason: "all accounts", what: "list serviceaccounts ns/", want: none},
		{reason: "changing an account", what: "update serviceaccounts ns/used", want: none},
		{reason: "impersonating an account", what: "impersonate serviceaccounts ns/used", want: none},

		{reason: "registering", what: "create nodes /", want: allow},
		{reason: "its own object", what: "get nodes /n", want: allow},
		{reason: "watching its own object", what: "watch nodes /n", want: allow},
		{reason: "another node", what: "get nodes /m", want: none},
		{reason: "all nodes", what: "list nodes /", want: none},
		{reason: "labels; admission looks whose", what: "patch nodes /n", want: allow},
		{reason: "status; admission looks whose", what: "update nodes/status /n", want: allow},
		{reason: "deleting itself", what: "delete nodes /n", want: none},
		{reason: "reaching itself", what: "get nodes/proxy /n", want: none},

		{reason: "a pod of its own", what: "get pods ns/p", want: allow},
		{reason: "a pod of another node", what: "get pods ns/q", want: none},
		{reason: "all pods", what: "list pods /", want: none},
		{reason: "the pods of its own", what: "list pods /", change: selector("spec.nodeName=n"), want: allow},
		{reason: "watching the pods of its own that run", what: "watch pods ns/", change: selector("spec.nodeName=n,status.phase=Running"), want: allow},
		{reason: "the pods of another node", what: "list pods /", change: selector("spec.nodeName=m"), want: none},
		{reason: "all pods but its own", what: "list pods /", change: selector("spec.nodeName!=n"), want: none},
		{reason: "mirroring a pod", what: "create pods ns/", want: allow},
		{reason: "deleting a pod", what: "delete pods ns/p", want: allow},
		{reason: "the status of a pod", what: "patch pods/status ns/p", want: allow},
		{reason: "changing a pod", what: "update pods ns/p", want: none},
		{reason: "evicting", what: "create pods/eviction ns/p", want: allow},
		{reason: "running a command", what: "create pods/exec ns/p", want: none},

		{reason: "its lease", what: "update leases kube-node-lease/n", change: group("coordination.k8s.io"), want: allow},
		{reason: "making its lease", what: "create leases kube-node-lease/", change: group("coordination.k8s.io"), want: allow},
		{reason: "another's lease", what: "get leases kube-node-lease/m", change: group("coordination.k8s.io"), want: none},
		{reason: "a lease elsewhere", what: "update leases kube-system/n", change: group("coordination.k8s.io"), want: none},
		{reason: "all leases", what: "list leases kube-node-lease/", change: group("coordination.k8s.io"), want: none},

		{reason: "asking for a certificate", what: "create certificatesigningrequests /", change: group("certificates.k8s.io"), want: allow},
		{reason: "waiting for it", what: "watch certificatesigningrequests /", change: group("certificates.k8s.io"), want: allow},
		{reason: "approving it", what: "update certificatesigningrequests/approval /x", change: group("certificates.k8s.io"), want: none},
		{reason: "being approved is for roles to say", what: "create certificatesigningrequests/selfnodeclient /", change: group("certificates.k8s.io"), want: none},
		{reason: "certificates for pods", what: "create podcertificaterequests ns/", change: group("certificates.k8s.io"), want: allow},
		{reason: "its own one", what: "get podcertificaterequests ns/mine", change: group("certificates.k8s.io"), want: allow},
		{reason: "its own one, watched by its name alone", what: "watch podcertificaterequests ns/mine", change: group("certificates.k8s.io"), want: none},
		{reason: "another's or none", what: "get podcertificaterequests ns/other", change: group("certificates.k8s.io"), want: none},
		{reason: "the same name elsewhere", what: "get podcertificaterequests other/mine", change: group("certificates.k8s.io"), want: none},
		{reason: "the status alone", what: "get podcertificaterequests/status ns/mine", change: group("certificates.k8s.io"), want: none},
		{reason: "changing it", what: "update podcertificaterequests ns/mine", change: group("certificates.k8s.io"), want: none},
		{reason: "patching it", what: "patch podcertificaterequests ns/mine", change: group("certificates.k8s.io"), want: none},
		{reason: "deleting it", what: "delete podcertificaterequests ns/mine", change: group("certificates.k8s.io"), want: none},
		{reason: "deleting all", what: "deletecollection podcertificaterequests ns/", change: group("certificates.k8s.io"), want: none},
		{reason: "those of its pods", what: "list podcertificaterequests /", change: certificatesOf("spec.nodeName=n"), want: allow},
		{reason: "those of its pods, from one signer", what: "watch podcertificaterequests ns/", change: certificatesOf("spec.nodeName=n,spec.signerName=a.b/c"), want: allow},
		{reason: "those of another node", what: "watch podcertificaterequests /", change: certificatesOf("spec.nodeName=m"), want: none},
		{reason: "those of all pods", what: "list podcertificaterequests /", change: group("certificates.k8s.io"), want: none},
		{reason: "deciding about them", what: "update podcertificaterequests/status ns/x", change: group("certificates.k8s.io"), want: none},
		{reason: "what pods are called", what: "list services /", want: allow},
		{reason: "trust", what: "list clustertrustbundles /", change: group("certificates.k8s.io"), want: allow},
		{reason: "telling what happened", what: "patch events ns/e", want: allow},
		{reason: "reading what happened", what: "list events ns/", want: none},
		{reason: "who calls the kubelet", what: "create tokenreviews /", change: group("authentication.k8s.io"), want: allow},
		{reason: "what he may do", what: "create subjectaccessreviews /", change: group("authorization.k8s.io"), want: allow},
		{reason: "anything else", what: "get clusterroles /x", change: group("rbac.authorization.k8s.io"), want: none},
		{reason: "the same name in another group", what: "get secrets ns/used", change: group("example.com"), want: none},
		{reason: "no resource", what: "get / /", change: func(a *authorizer.AttributesRecord) { a.ResourceRequest, a.Path = false, "/metrics" }, want: none},

		{reason: "the group alone makes no node", what: "get secrets ns/used", change: as("alice", user.NodesGroup), want: none},
		{reason: "the name alone makes no node", what: "get secrets ns/used", change: as("system:node:n"), want: none},
		{reason: "a node without a name", what: "create nodes /", change: as("system:node:", user.NodesGroup), want: none},
		{reason: "another node", what: "get secrets ns/used", change: as("system:node:m", user.NodesGroup), want: none},
	}
	a := New(world{}, requestsOfN, rights.NodeRules())
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			request := parse(t, tt.what)
			if tt.change != nil {
				tt.change(&request)
			}
			got, reason, err := a.Authorize(t.Context(), request)
			if got != tt.want || err != nil {
				t.Errorf("%s: %v (%s, %v), want %v", tt.what, got, reason, err, tt.want)
			}
		})
	}
}

// If a request cannot be looked up, the node gets an error and retries; it is
// not refused.
func TestPodRequestOfUnknownNode(t *testing.T) {
	request := parse(t, "get podcertificaterequests broken/x")
	request.APIGroup = "certificates.k8s.io"
	decision, _, err := New(world{}, requestsOfN, rights.NodeRules()).Authorize(t.Context(), request)
	if decision != none || err == nil {
		t.Errorf("%v, %v", decision, err)
	}
}

// certificatesOf adds a selector for certificate requests.
func certificatesOf(text string) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) {
		selector(text)(a)
		group("certificates.k8s.io")(a)
	}
}

func selector(text string) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) {
		a.FieldSelectorRequirements = fields.ParseSelectorOrDie(text).Requirements()
	}
}

func group(name string) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) { a.APIGroup = name }
}

func as(name string, groups ...string) func(*authorizer.AttributesRecord) {
	return func(a *authorizer.AttributesRecord) { a.User = &user.DefaultInfo{Name: name, Groups: groups} }
}
