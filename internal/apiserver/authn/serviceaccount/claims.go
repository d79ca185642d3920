// Package serviceaccount issues and verifies the tokens of service accounts.
// They are JSON Web Tokens with the format of kube-apiserver (KEP-1205).
package serviceaccount

import (
	"context"
	"time"

	"github.com/golang-jwt/jwt/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Claims are the claims of a token.
type Claims struct {
	jwt.RegisteredClaims
	// Kubernetes names the service account and the objects that the token is bound to.
	Kubernetes Binding `json:"kubernetes.io"`
}

// Binding names the objects that a token depends on.
type Binding struct {
	// Namespace is the namespace of the service account, the pod and the secret.
	Namespace string `json:"namespace,omitempty"`
	// Account is the service account.
	Account Ref `json:"serviceaccount"`
	// At most one of Pod and Secret is set. Without them, Node is the object that the token
	// is bound to; with Pod, it is the node of the pod.
	Pod    *Ref `json:"pod,omitempty"`
	Secret *Ref `json:"secret,omitempty"`
	Node   *Ref `json:"node,omitempty"`
	// WarnAfter is when a token that lives longer than asked for should have
	// been replaced.
	WarnAfter *jwt.NumericDate `json:"warnafter,omitempty"`
}

// Ref refers to one object by UID, not just by name.
type Ref struct {
	Name string    `json:"name,omitempty"`
	UID  types.UID `json:"uid,omitempty"`
}

// Kind is a kind of object that tokens depend on, by its plural name.
type Kind string

// The kinds.
const (
	Accounts Kind = "serviceaccounts"
	Pods     Kind = "pods"
	Secrets  Kind = "secrets"
	Nodes    Kind = "nodes"
)

// Lookup returns an object, or a NotFound API error. If the result has another
// UID than ref, it must be as current as possible.
type Lookup func(ctx context.Context, kind Kind, namespace string, ref Ref) (metav1.Object, error)

// requirement is an object that must exist for a token to be valid.
type requirement struct {
	kind      Kind
	namespace string
	ref       Ref
}

// requirements returns the objects that must exist, the service account first.
// The node of a pod is not among them: the token ends with the pod.
func (b Binding) requirements() []requirement {
	all := []requirement{{Accounts, b.Namespace, b.Account}}
	if b.Secret != nil {
		all = append(all, requirement{Secrets, b.Namespace, *b.Secret})
	}
	if b.Pod != nil {
		all = append(all, requirement{Pods, b.Namespace, *b.Pod})
	}
	if b.Node != nil && b.Pod == nil {
		all = append(all, requirement{Nodes, "", *b.Node})
	}
	return all
}

// isStale reports whether the token is older than its requested lifetime.
func (b Binding) isStale(now time.Time) bool {
	return b.WarnAfter != nil && now.After(b.WarnAfter.Time)
}

// user returns the user of a valid token.
func (c Claims) user() user.Info {
	return c.Kubernetes.user(tokenjwt.CredentialIDForJTI(c.ID))
}

// user returns the user of a valid credential.
func (b Binding) user(credentialID string) user.Info {
	info := serviceaccount.ServiceAccountInfo{
		Namespace:    b.Namespace,
		Name:         b.Account.Name,
		UID:          string(b.Account.UID),
		CredentialID: credentialID,
	}
	if b.Pod != nil {
		info.PodName, info.PodUID = b.Pod.Name, string(b.Pod.UID)
	}
	if b.Node != nil {
		info.NodeName, info.NodeUID = b.Node.Name, string(b.Node.UID)
	}
	return info.UserInfo()
}
