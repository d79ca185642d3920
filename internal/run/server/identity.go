package server

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/google/uuid"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	tokenjwt "k8s.io/apiserver/pkg/authentication/token/jwt"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/rest"

	"github.com/certplane/certplane/internal/rights"
)

// identities holds the bearer tokens of this process's parts. The tokens are
// only in memory and change with each start.
type identities struct {
	tokens map[string]*user.DefaultInfo
	// server is the configuration with which components of this process connect to the API.
	server *rest.Config
	// accounts are the service accounts that parts act as.
	accounts map[string]*rest.Config
}

// newIdentities makes an identity for each service account.
func newIdentities(server *rest.Config, accounts []string) identities {
	ids := identities{tokens: map[string]*user.DefaultInfo{}, server: server, accounts: map[string]*rest.Config{}}
	for _, name := range accounts {
		ids.accounts[name] = ids.as(accountInfo(name))
	}
	return ids
}

// accountInfo is the user of a service account of this process in requests, in the form of
// all service accounts. The account has no object and so no UID; its UID is derived from the
// name, so that it is the same for every start and every server.
func accountInfo(name string) *user.DefaultInfo {
	info := (&serviceaccount.ServiceAccountInfo{
		Namespace:    rights.ServeNamespace,
		Name:         name,
		UID:          uuid.NewSHA1(uuid.NameSpaceURL, []byte("https://certplane.dev/serviceaccounts/"+rights.ServeNamespace+"/"+name)).String(),
		CredentialID: tokenjwt.CredentialIDForJTI(uuid.NewString()),
	}).UserInfo()
	return &user.DefaultInfo{
		Name: info.GetName(), UID: info.GetUID(), Extra: info.GetExtra(),
		Groups: append(info.GetGroups(), user.AllAuthenticated),
	}
}

// asServer returns a client configuration with all rights.
func (i identities) asServer() *rest.Config {
	return i.as(&user.DefaultInfo{Name: user.APIServerUser, Groups: []string{user.SystemPrivilegedGroup}})
}

// asAccount returns the client configuration of a service account.
func (i identities) asAccount(name string) (*rest.Config, error) {
	cfg, ok := i.accounts[name]
	if !ok {
		return nil, fmt.Errorf("no identity was made for the service account %s", name)
	}
	return cfg, nil
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
