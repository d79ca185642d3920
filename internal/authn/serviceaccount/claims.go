// Package serviceaccount issues and verifies the tokens of service accounts,
// which are JSON Web Tokens as kube-apiserver makes them (KEP-1205).
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

// Claims are what a token says.
type Claims struct {
	jwt.RegisteredClaims
	// Kubernetes says whose the token is and what it is bound to.
	Kubernetes Binding `json:"kubernetes.io"`
}

// Binding names the objects that a token depends on.
type Binding struct {
	// Namespace is that of the service account, the pod and the secret.
	Namespace string `json:"namespace,omitempty"`
	// Account is the service account.
	Account Ref `json:"serviceaccount"`
	// At most one of Pod and Secret is set. Node is what the token is bound to
	// if it stands alone, else where the pod runs.
	Pod    *Ref `json:"pod,omitempty"`
	Secret *Ref `json:"secret,omitempty"`
	Node   *Ref `json:"node,omitempty"`
	// WarnAfter is when a token that lives longer than asked for should have
	// been replaced.
	WarnAfter *jwt.NumericDate `json:"warnafter,omitempty"`
}

// Ref names one object, not just any of its name.
type Ref struct {
	Name string    `json:"name,omitempty"`
	UID  types.UID `json:"uid,omitempty"`
}

// Kind is a kind of object that tokens depend on, by its plural.
type Kind string

// The kinds.
const (
	Accounts Kind = "serviceaccounts"
	Pods     Kind = "pods"
	Secrets  Kind = "secrets"
	Nodes    Kind = "nodes"
)

// Lookup finds an object, or returns a NotFound API error. An answer with
// another UID than that of ref must be as new as it can be.
type Lookup func(ctx context.Context, kind Kind, namespace string, ref Ref) (metav1.Object, error)

// requirement is an object that must exist for a token to be valid.
type requirement struct {
	kind      Kind
	namespace string
	ref       Ref
}

// requirements lists them, the service account first. The node of a pod is
// not among them: the pod's end is what ends the token.
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

// isStale reports whether the token outlived what was asked for.
func (b Binding) isStale(now time.Time) bool {
	return b.WarnAfter != nil && now.After(b.WarnAfter.Time)
}

// user is who a valid token stands for.
func (c Claims) user() user.Info {
	return c.Kubernetes.user(tokenjwt.CredentialIDForJTI(c.ID))
}

// user is who a valid credential stands for.
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
