package acmeserver

import (
	"net/http"
	"strings"

	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/api/rfc8555"
)

// root is the first part of all paths.
const root = "/acme/"

// resource is a kind of URL.
type resource struct {
	// name is that in logs and metrics.
	name string
	// path is relative to the endpoint's; * stands for one part, which is an argument.
	path string
	// get answers GET and HEAD without authentication, post answers POST of a
	// message that signer has signed. A resource has one of them.
	get, post func(*call) (*answer, error)
	signer    jws.Signer
	// fresh is set if the account is read from the API, whatever the payload is.
	fresh bool
}

// services answer calls, each of its resources.
type services struct {
	pages          *pages
	accounts       *accounts
	keys           *accountKeys
	orders         *orders
	authorizations *authorizations
	certificates   *certificates
}

// resources returns all. The order does not matter: paths differ.
func (s services) resources() []resource {
	return []resource{
		{name: "directory", path: "directory", get: s.pages.directory},
		{name: "new-nonce", path: "new-nonce", get: s.pages.newNonce},
		{name: "renewal-info", path: "renewal-info/*", get: s.certificates.renewalInfo},
		{name: "roots", path: "roots.pem", get: s.pages.roots},
		{name: "help", path: "help/account/*", get: s.pages.helpAccount},
		{name: "new-account", path: "new-account", post: s.accounts.newAccount, signer: jws.NewKey},
		{name: "account", path: "acct/*", post: s.accounts.accountResource, signer: jws.OnAccount},
		{name: "orders", path: "acct/*/orders", post: s.accounts.listOrders, signer: jws.OnAccount},
		{name: "key-change", path: "key-change", post: s.keys.keyChange, signer: jws.OnAccount, fresh: true},
		{name: "new-order", path: "new-order", post: s.orders.newOrder, signer: jws.OnAccount, fresh: true},
		{name: "order", path: "order/*", post: s.orders.orderResource, signer: jws.OnAccount},
		{name: "finalize", path: "order/*/finalize", post: s.orders.finalize, signer: jws.OnAccount, fresh: true},
		{name: "authz", path: "authz/*/*", post: s.authorizations.authzResource, signer: jws.OnAccount},
		{name: "chall", path: "chall/*/*/*", post: s.authorizations.challengeResource, signer: jws.OnAccount},
		{name: "cert", path: "cert/*", post: s.certificates.certificate, signer: jws.OnAccount},
		{name: "cert", path: "cert/*/*", post: s.certificates.certificate, signer: jws.OnAccount},
		{name: "revoke-cert", path: "revoke-cert", post: s.certificates.revokeCert, signer: jws.Anybody, fresh: true},
	}
}

// find returns the resource of a path relative to the endpoint's, and its arguments. It
// neither cleans paths nor redirects clients: a redirected POST loses its body.
func find(resources []resource, path string) (*resource, []string) {
	parts := strings.Split(path, "/")
	for i := range resources {
		if args, ok := match(strings.Split(resources[i].path, "/"), parts); ok {
			return &resources[i], args
		}
	}
	return nil, nil
}

func match(pattern, parts []string) (args []string, ok bool) {
	if len(pattern) != len(parts) {
		return nil, false
	}
	for i, part := range parts {
		switch {
		case pattern[i] == "*" && part != "":
			args = append(args, part)
		case pattern[i] != part:
			return nil, false
		}
	}
	return args, true
}

// route answers a request.
func (x *exchange) route() (*answer, error) {
	if x.resource == nil {
		return nil, notFound()
	}
	allowed := "POST, OPTIONS"
	if x.resource.get != nil {
		allowed = "GET, HEAD, OPTIONS"
	}
	x.header.Set("Access-Control-Allow-Methods", allowed)
	switch isRead := x.r.Method == http.MethodGet || x.r.Method == http.MethodHead; {
	case x.r.Method == http.MethodOptions:
		return x.preflight(), nil
	case isRead && x.resource.get != nil:
		return x.read()
	case x.r.Method == http.MethodPost && x.resource.post != nil:
		return x.act()
	}
	x.header.Set("Allow", allowed)
	return nil, problem(http.StatusMethodNotAllowed, rfc8555.ProblemMalformed, "the method %s is not allowed here, only %s", rfc8555.Quote(x.r.Method), allowed)
}

func (x *exchange) read() (*answer, error) {
	if err := x.takeAddress(); err != nil {
		return nil, err
	}
	if err := x.findEndpoint(); err != nil {
		return nil, err
	}
	return x.resource.get(x.call)
}

func (x *exchange) act() (*answer, error) {
	if err := x.checkAddress(); err != nil {
		return nil, err
	}
	if err := x.findEndpoint(); err != nil {
		return nil, err
	}
	if err := x.authenticate(); err != nil {
		if !x.authenticated {
			_ = x.takeAddress() // it counts for the next request
		}
		return nil, err
	}
	if x.account == nil {
		if err := x.takeAddress(); err != nil {
			return nil, err
		}
	}
	return x.resource.post(x.call)
}

// preflight answers browsers, which ask before they send (Fetch standard).
func (x *exchange) preflight() *answer {
	x.header.Set("Access-Control-Allow-Headers", "Content-Type")
	x.header.Set("Access-Control-Max-Age", "86400")
	return &answer{status: http.StatusNoContent}
}

// notFound is the answer for resources that do not exist and for resources of other
// accounts, so that clients cannot tell the two apart.
func notFound() error {
	return problem(http.StatusNotFound, rfc8555.ProblemMalformed, "there is no such resource")
}
