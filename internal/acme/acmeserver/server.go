// Package acmeserver is the HTTP side of the ACME server (RFC 8555). It checks what
// clients send and writes what they have asked for into AcmeAccounts and AcmeOrders.
// It signs, approves and validates nothing: controllers do.
package acmeserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/acmeserver/attempts"
	"github.com/certplane/certplane/internal/acme/acmeserver/nonce"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/acmeorder"
)

// Config configures a Server.
type Config struct {
	// ExternalURL is the base of all URLs, https://HOST[:PORT]. The host of a
	// request is not looked at.
	ExternalURL string
	// FormerURLs are earlier ones, which clients may still sign for.
	FormerURLs []string
	// Client reads and writes the API, past caches.
	Client client.Client
	// Cache caches AcmeEndpoints, AcmeExternalKeys, AcmeAccounts, AcmeOrders and Signers.
	// New adds indexes to it, so it must not be shared with another Server.
	Cache cache.Cache
	// Requester is the username with which requests for certificates are made,
	// by tokens of the accounts' ServiceAccounts. If it is not empty, ServiceAccounts
	// for which it may make no tokens get no accounts.
	Requester string
	// RefusedByPolicy returns the problem of an order that certificate policies forbid
	// for certain; nil if they do not. Without a certificate request only names count.
	// It can be nil.
	RefusedByPolicy func(context.Context, acmeorder.Planned) *rfc8555.Problem
	// Signer returns the facts about the signer or the issuer of a profile, for an account
	// in a namespace. If it is nil, nothing is known of signers, and certificate requests
	// are checked as if signers copied them.
	Signer func(ctx context.Context, profile *v1alpha1.AcmeProfile, namespace string) (acmeorder.SignerFacts, error)
	// Roots returns the roots of the server's own certificate, in PEM; nil if
	// these are not served.
	Roots func() []byte
	// Address returns from where a request comes, and whether many clients share this
	// address, so that limits per address do not hold; nil: its connection's address,
	// which they do not.
	Address func(*http.Request) (address netip.Addr, shared bool)
	// RedeemElsewhere asks another process of the server to redeem a nonce that it
	// has made; nil: there is none.
	RedeemElsewhere func(ctx context.Context, process nonce.Instance, text string) bool
	// Attempts makes the first attempt of a challenge while the client waits; it can be
	// nil.
	Attempts *attempts.Desk
	// Sole: no other process serves the API's accounts. Their latest orders are then counted
	// in memory, and certificates are obtained before orders are stored as processing.
	Sole bool
	// Lend has the controllers of the process read an order, until end is called, in the
	// place of the stored one of its version. It is nil if they are elsewhere.
	Lend func(client.Object) (end func())
	// Events records refusals; it can be nil.
	Events events.EventRecorder
	// Metrics registers the metrics; it can be nil.
	Metrics prometheus.Registerer
	// Now must have a monotonic reading, as time.Now has.
	Now func() time.Time
}

// Server answers ACME clients. It is an http.Handler, safe for concurrent use.
type Server struct {
	Config
	resources     []resource
	authenticator *authenticator
	store         *store
	nonces        *nonce.Nonces
	metrics       *metrics
	limits        *limits
	draining      atomic.Bool
}

// New returns a server whose cache has not to be started yet.
func New(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{Config: cfg}
	var err error
	if s.nonces, err = nonce.New(cfg.Now); err != nil {
		return nil, fmt.Errorf("making the nonces: %w", err)
	}
	if s.metrics, err = newMetrics(cfg.Metrics); err != nil {
		return nil, fmt.Errorf("registering the metrics of the ACME server: %w", err)
	}
	if s.store, err = newStore(ctx, cfg); err != nil {
		return nil, err
	}
	s.limits = newLimits(cfg.Now, s.metrics.limited)
	s.authenticator = newAuthenticator(cfg, s.store, s.nonces, s.metrics.nonces)
	answering, err := s.newServices(ctx)
	if err != nil {
		return nil, err
	}
	s.resources = answering.resources()
	return s, nil
}

// newServices returns what answers the calls of clients.
func (s *Server) newServices(ctx context.Context) (services, error) {
	states, err := newCounts(s.Metrics)
	if err != nil {
		return services{}, fmt.Errorf("registering the metrics of the ACME server: %w", err)
	}
	counts, err := newAccountCounts(ctx, s.Cache)
	if err != nil {
		return services{}, err
	}
	finishing, err := newFinishing(ctx, s.Cache, states)
	if err != nil {
		return services{}, err
	}
	reviews, events := newReviews(s.Config), eventRecorder{s.Events}
	keys := &accountKeys{store: s.store, now: s.Now}
	return services{
		pages: &pages{nonces: s.nonces, draining: &s.draining, ownRoots: s.Roots},
		accounts: &accounts{
			store: s.store, keys: keys, bindings: &bindings{store: s.store, events: events}, reviews: reviews, limits: s.limits, counts: counts,
		},
		keys: keys,
		orders: &orders{
			store: s.store, reviews: reviews, events: events, finishing: finishing, limited: s.metrics.limited,
			policies: s.RefusedByPolicy, signer: s.Signer, atOnce: s.newAtOnce(), sole: s.Sole, announced: lru.New(keptAnnounced), now: s.Now,
		},
		authorizations: &authorizations{store: s.store, attempts: s.Attempts},
		certificates:   &certificates{store: s.store, events: events},
	}, nil
}

// Instance names this process in the nonces that it makes.
func (s *Server) Instance() nonce.Instance { return s.nonces.Instance() }

// Redeem redeems a nonce for another process of the server.
func (s *Server) Redeem(text string) bool {
	outcome, _ := s.nonces.Redeem(text)
	return outcome == nonce.Valid
}

// Drain stops handing out nonces on request, because the server is about to stop.
// Exchanges that have begun continue.
func (s *Server) Drain() { s.draining.Store(true) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	// Handling continues when the client disconnects.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), handlingTimeout)
	defer cancel()
	x := s.newExchange(ctx, w, r)
	a, err := x.answer()
	if err != nil {
		a = x.refusal(err)
	}
	x.send(a)
	x.report(a)
}

// answer turns panics into errors, so that their answers also have all headers.
func (x *exchange) answer() (a *answer, err error) {
	defer func() {
		if r := recover(); r != nil {
			stack := make([]byte, 4<<10)
			a, err = nil, &panicked{r, string(stack[:runtime.Stack(stack, false)])}
		}
	}()
	return x.route()
}

// panicked is the error of a request whose handling has panicked.
type panicked struct {
	value any
	stack string
}

func (p *panicked) Error() string { return fmt.Sprintf("panic: %v\n%s", p.value, p.stack) }

// errBusy is the error of a change that had too many conflicts with other changes of the
// same object.
var errBusy = errors.New("other requests change the same object at the same time")
