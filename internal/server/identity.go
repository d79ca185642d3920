package server

import (
	"crypto/rand"
	"encoding/base64"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"
)

// The parts of this process that call the API, each as itself. What a service
// account may do is in its bootstrap ClusterRole, system:controller:<name>.
const (
	cacheAccount      = "controller-cache"
	csrSignerAccount  = "csr-signer"
	aggregatorAccount = "clusterrole-aggregation-controller"
	namespaceAccount  = "namespace-controller"
	accountAccount    = "service-account-controller"
	publisherAccount  = "root-ca-cert-publisher"
)

// identities holds the bearer tokens of this process's parts. The tokens live
// in memory alone and change with each start.
type identities struct {
	tokens map[string]*user.DefaultInfo
	// server is how anybody in this process reaches the API.
	server *rest.Config
}

func newIdentities(server *rest.Config) identities {
	return identities{tokens: map[string]*user.DefaultInfo{}, server: server}
}

// asServer returns a client configuration with all rights.
func (i identities) asServer() *rest.Config {
	return i.as(&user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
}

// asAccount returns a client configuration for a service account of namespace
// kube-system.
func (i identities) asAccount(name string) *rest.Config {
	const namespace = "kube-system"
	return i.as(&user.DefaultInfo{
		Name:   serviceaccount.MakeUsername(namespace, name),
		Groups: append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated),
	})
}

func (i identities) as(who *user.DefaultInfo) *rest.Config {
	token := newToken()
	i.tokens[token] = who
	cfg := rest.CopyConfig(i.server)
	cfg.BearerToken = token
	cfg.UserAgent = "certplane/" + who.Name
	return cfg
}

// newToken returns 256 random bits.
func newToken() string {
	raw := make([]byte, 32)
	rand.Read(raw) // never fails: crypto/rand ends the process instead
	return base64.RawURLEncoding.EncodeToString(raw)
}
