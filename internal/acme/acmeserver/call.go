package acmeserver

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/jws"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// call is a request of a client to a resource. Fields below message are set once its
// message is verified; they are empty for GET and HEAD.
type call struct {
	r *http.Request
	// ctx outlives the connection: what was begun is finished.
	ctx     context.Context
	now     time.Time
	address netip.Addr
	shared  bool // by many clients

	externalURL  string // Config.ExternalURL
	endpointName string
	endpoint     *acmeorder.Endpoint
	resource     *resource // nil if there is none at the path
	args         []string  // of the path

	message *jws.Message
	// account is the account that has signed; nil if the message contains the key.
	account       *v1alpha1.AcmeAccount
	authenticated bool
	cost          int // of the signature of a stranger, in that of the usual keys
	facts         acmeorder.AccountFacts
	fresh         bool // the account was read from the API

	order string // its name, for the log
}

// url returns a URL of the endpoint.
func (c *call) url(parts ...string) string {
	return c.externalURL + root + c.endpointName + "/" + strings.Join(parts, "/")
}

// options returns the deviations that the endpoint tolerates in messages.
func (c *call) options() jws.Options {
	tolerates := func(t v1alpha1.AcmeTolerance) bool { return slices.Contains(c.endpoint.Spec().Tolerate, t) }
	return jws.Options{
		MoreAlgorithms: tolerates(v1alpha1.AcmeTolerateMoreAlgorithms), LargeRSA: tolerates(v1alpha1.AcmeTolerateLargeRSA),
		ShortECDSASignatures: tolerates(v1alpha1.AcmeTolerateShortECDSASignatures),
	}
}

// requestURL returns the URL of the request below a base. The path is the one that was
// sent.
func (c *call) requestURL(base string) string {
	u := base + c.r.URL.EscapedPath()
	if c.r.URL.RawQuery != "" || c.r.URL.ForceQuery {
		u += "?" + c.r.URL.RawQuery
	}
	return u
}

// helpURL is the page for an account that waits for its approval.
func (c *call) helpURL(account string) string { return c.url("help", "account", account) }

// ownAccount refuses URLs of accounts other than the one that has signed.
func (c *call) ownAccount() error {
	if c.args[0] != c.account.Name {
		return notFound()
	}
	return nil
}

// stillInForce checks the current stored state of the account.
func (c *call) stillInForce(a *v1alpha1.AcmeAccount) error {
	facts := c.facts
	facts.Account = a
	return asError(facts.Problem())
}

// position returns where in its order the authorization or challenge of the URL is.
func (c *call) position(o *v1alpha1.AcmeOrder) (at acmeorder.Position, err error) {
	all := []int{len(o.Status.Authorizations)}
	into := []*int{&at.Authorization, &at.Challenge}
	for i, text := range c.args[1:] {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n >= all[i] || strconv.Itoa(n) != text {
			return at, notFound()
		}
		*into[i] = n
		if i == 0 {
			all = append(all, len(o.Status.Authorizations[n].Challenges))
		}
	}
	return at, nil
}

// chainNumber returns the number of the chain in the path of a request: 0 for the default,
// -1 if no chain has that name.
func (c *call) chainNumber() int {
	if len(c.args) < 2 {
		return 0
	}
	n, err := strconv.Atoi(c.args[1])
	if err != nil || n < 1 || strconv.Itoa(n) != c.args[1] {
		return -1
	}
	return n
}

func (c *call) chainURL(order string, n int) string {
	if n == 0 {
		return c.url("cert", order)
	}
	return c.url("cert", order, strconv.Itoa(n))
}

// decode decodes base64url of a payload.
func (c *call) decode(text string) ([]byte, error) {
	return jws.DecodeBase64URL(text, slices.Contains(c.endpoint.Spec().Tolerate, v1alpha1.AcmeToleratePaddedBase64))
}
