// Package acmetest is an ACME server (RFC 8555) for tests, in the process of the test. It
// verifies the signatures of clients, has its own CAs, and can be made to fail in any way.
package acmetest

import (
	"encoding/pem"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Options configure a server.
type Options struct {
	// ExternalAccounts, if not nil, are required of new accounts: MAC keys by
	// key identifier.
	ExternalAccounts map[string][]byte
	// Profiles maps names to descriptions; empty by default.
	Profiles map[string]string
	// TermsOfService is a URL; the server agrees to everything.
	TermsOfService string
	// CAAIdentities are listed in the directory.
	CAAIdentities []string
	// NoRenewalInfo and NoKeyChange take these out of the directory.
	NoRenewalInfo, NoKeyChange bool
	// NoContact leaves the contacts out of accounts, as Let's Encrypt does.
	NoContact bool
	// ChallengeTypes are offered for each name; by default http-01, dns-01 and
	// tls-alpn-01, and dns-01 alone for wildcards. Addresses never get dns-01.
	ChallengeTypes []string
	// ReuseAuthorizations lets new orders have the valid authorizations of the
	// account, and equal orders be the pending one.
	ReuseAuthorizations bool
	// Authorized makes new authorizations valid: nothing is to be proven.
	Authorized bool
	// NoRevocation takes revokeCert out of the directory.
	NoRevocation bool
	// Processing is how many times an order is shown as processing after it was
	// finalized.
	Processing int
	// RetryAfter, if not empty, is sent with orders, authorizations and challenges
	// that are pending or processing.
	RetryAfter string
	// Lifetime is the lifetime of certificates; by default 90 days.
	Lifetime time.Duration
	// Now is the clock; nil means the real one.
	Now func() time.Time
	// Validate, if not nil, decides about challenges that were accepted; by
	// default they are valid.
	Validate func(Validation) Verdict
	// Hook, if not nil, is called for each request; it can answer it.
	Hook func(Call) *Reply
	// Renewal, if not nil, returns when certificates should be renewed; the default is 60
	// to 62 days from now.
	Renewal func(certID string) (start, end time.Time)
}

// Kind is the purpose of a request.
type Kind string

// The kinds of requests.
const (
	Directory     Kind = "directory"
	NewNonce      Kind = "newNonce"
	NewAccount    Kind = "newAccount"  // creates an account
	FindAccount   Kind = "findAccount" // onlyReturnExisting
	Account       Kind = "account"     // reads, changes or deactivates an account
	NewOrder      Kind = "newOrder"
	Order         Kind = "order"
	Authorization Kind = "authorization" // reads or deactivates one
	Challenge     Kind = "challenge"
	Finalize      Kind = "finalize"
	Certificate   Kind = "certificate"
	KeyChange     Kind = "keyChange"
	RenewalInfo   Kind = "renewalInfo"
	RevokeCert    Kind = "revokeCert"
	Other         Kind = ""
)

// Call is a request that the server got.
type Call struct {
	Kind   Kind
	Method string
	URL    string
	Header http.Header
	// Payload is the signed payload; empty for a POST-as-GET.
	Payload []byte
	// N is 1 for the first request of a kind.
	N int
}

// Reply replaces the answer to a request. The zero value answers as without it.
type Reply struct {
	// Lost ends the connection without an answer.
	Lost bool
	// Acts makes the server do what was asked before it sends this.
	Acts bool
	// Acted, if not nil, is called before the answer is sent, after the server has
	// done what was asked, if it does.
	Acted func()
	// Status, if not 0, replaces the answer with Problem or Body.
	Status  int
	Problem *rfc8555.Problem
	// Body is sent with the Content-Type of Header, by default text/html.
	Body string
	// Header is set in the answer. A nil value removes a header, such as
	// Location.
	Header http.Header
	// Wait, if not nil, delays the answer until it is closed.
	Wait <-chan struct{}
}

// Validation is a challenge that was accepted.
type Validation struct {
	Identifier       rfc8555.Identifier
	Wildcard         bool
	Type             string
	Token            string
	KeyAuthorization string
}

// Verdict is the outcome of a validation. The zero value is a success.
type Verdict struct {
	// Pending means that the challenge is processing; it is asked again when it
	// or its authorization is read.
	Pending bool
	// Problem, if not nil, is why the challenge is invalid.
	Problem *rfc8555.Problem
}

// Server is a running server.
type Server struct {
	t    testing.TB
	http *httptest.Server
	cas  authorities

	mu             sync.Mutex
	closed         *sync.Cond // is told when a connection is closed
	connections    int        // that are open
	options        Options
	calls          []Call
	count          map[Kind]int
	next           int
	nonces         map[string]bool
	accounts       map[string]*account // by path
	orders         map[string]*order
	authorizations map[string]*authorization
	certificates   map[string][]byte
	revoked        map[string]int // the reasons, by serial number
}

// Start starts a server, which ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Lifetime == 0 {
		o.Lifetime = 90 * 24 * time.Hour
	}
	s := &Server{
		t: t, options: o, cas: newAuthorities(t), count: map[Kind]int{}, nonces: map[string]bool{},
		accounts: map[string]*account{}, orders: map[string]*order{}, authorizations: map[string]*authorization{},
		certificates: map[string][]byte{}, revoked: map[string]int{},
	}
	s.closed = sync.NewCond(&s.mu)
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.http.Config.ErrorLog, s.http.Config.ConnState = quiet(), s.connection
	s.http.StartTLS()
	t.Cleanup(s.http.Close)
	return s
}

// connection counts connections.
func (s *Server) connection(_ net.Conn, state http.ConnState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch state {
	case http.StateNew:
		s.connections++
	case http.StateClosed:
		s.connections--
		s.closed.Broadcast()
	}
}

// AwaitDisconnection waits until no client is connected. If all clients have
// ended, nothing that they have asked for is done later.
func (s *Server) AwaitDisconnection() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.connections > 0 {
		s.closed.Wait()
	}
}

// Directory returns the URL of the directory.
func (s *Server) Directory() string { return s.http.URL + pathDirectory }

// CABundle returns the root of the server's own TLS certificate, in PEM.
func (s *Server) CABundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.http.Certificate().Raw})
}

// Roots returns the root of the default chains, in PEM. Its common name is
// RootName.
func (s *Server) Roots() []byte { return s.cas.root.pem() }

// AlternateRoots returns the root of the alternate chains, in PEM. Its common
// name is AlternateRootName.
func (s *Server) AlternateRoots() []byte { return s.cas.alternate.pem() }

// Change changes the options while the server runs.
func (s *Server) Change(change func(*Options)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.options)
}

// Calls returns the requests of these kinds, in order; of all if there are none.
func (s *Server) Calls(kinds ...Kind) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []Call
	for _, c := range s.calls {
		if len(kinds) == 0 || slices.Contains(kinds, c.Kind) {
			found = append(found, c)
		}
	}
	return found
}

// Count returns how many requests of a kind came.
func (s *Server) Count(kind Kind) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.count[kind]
}

// Accounts returns the URLs and the contacts of the accounts that are valid.
func (s *Server) Accounts() map[string][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string][]string{}
	for path, a := range s.accounts {
		if a.Status == rfc8555.StateValid {
			found[s.http.URL+path] = slices.Clone(a.Contact)
		}
	}
	return found
}

// ForgetAccounts removes all accounts.
func (s *Server) ForgetAccounts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.accounts)
}

// Revoked returns the reason codes of the revoked certificates, by their serial numbers.
func (s *Server) Revoked() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.revoked)
}

// OrderState is an order of the server.
type OrderState struct {
	// Names are the values of the identifiers.
	Names []string
	// Status is a state of RFC 8555.
	Status string
	// Signed is set once a certificate was signed for it.
	Signed bool
}

// Orders returns all orders, in any order.
func (s *Server) Orders() []OrderState {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []OrderState
	for _, o := range s.orders {
		state := OrderState{Status: o.Status, Signed: o.made != ""}
		for _, id := range o.Identifiers {
			state.Names = append(state.Names, id.Value)
		}
		all = append(all, state)
	}
	return all
}

// SetOrder changes the state of the order with a URL, and its error.
func (s *Server) SetOrder(url, status string, problem *rfc8555.Problem) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.orders[s.path(url)]
	if !ok {
		s.t.Errorf("unknown order %s", url)
		return
	}
	o.Status, o.Error = status, problemOf(problem)
}

// SetAuthorization changes the state of the authorization with a URL.
func (s *Server) SetAuthorization(url, status string) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.authorizations[s.path(url)]
	if !ok {
		s.t.Errorf("unknown authorization %s", url)
		return
	}
	a.Status = status
}

// RateLimited is a reply with status 429. retryAfter can be empty.
func RateLimited(retryAfter, detail string) *Reply {
	r := Refused(http.StatusTooManyRequests, rfc8555.ProblemRateLimited, detail)
	if retryAfter != "" {
		r.Header = http.Header{"Retry-After": {retryAfter}}
	}
	return r
}

// Refused is a reply with a problem, whose type is without rfc8555.Namespace.
func Refused(status int, problem, detail string) *Reply {
	return &Reply{Status: status, Problem: &rfc8555.Problem{Type: rfc8555.Namespace + problem, Detail: detail}}
}

// algorithms are the algorithms that clients may sign with.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}
