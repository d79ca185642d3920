package apiserver

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	genericapifilters "k8s.io/apiserver/pkg/endpoints/filters"
	"k8s.io/apiserver/pkg/endpoints/handlers/responsewriters"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/apiserver/authn"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/process/collector"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
	"github.com/certplane/certplane/internal/tenant/connections"
)

const (
	// RevocationCheck is the name of the check in /readyz that fails while the server may not
	// know all revocations.
	RevocationCheck = "revocation"
	// staleAfter is how long that may last. The server then goes on with what it knows: load
	// balancers have another one, or none is better.
	staleAfter = 10 * time.Second
	// refusedAnnotation is the annotation of audit events with the first half of the
	// fingerprint of the revoked certificate.
	refusedAnnotation = "revocation.certplane.dev/refused"
	// closeDelay is after what time the connections of revoked certificates are closed: by
	// then, answers that say why have left, and a series of acts is one walk.
	closeDelay = 100 * time.Millisecond
)

// revokedClients refuses the requests of clients with revoked certificates, whatever else they
// carry, and closes their connections. It is safe for concurrent use.
type revokedClients struct {
	index       *revocation.Index
	clients     *authn.RevokedClients
	connections *connections.Listener
	refused     prometheus.Counter
	closed      prometheus.Counter

	mu sync.Mutex
	// calls are the requests under way that the console makes for browsers that have logged in
	// with a certificate, with what ends them.
	calls map[*tls.ConnectionState]context.CancelFunc
}

// newRevokedClients returns what refuses the clients of CAs that connect to a listener.
func newRevokedClients(index *revocation.Index, cas dynamiccertificates.CAContentProvider, open *connections.Listener) (*revokedClients, error) {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "certplane", Subsystem: "revocation", Name: name, Help: help})
	}
	c := &revokedClients{
		index: index, clients: authn.NewRevokedClients(index, cas), connections: open,
		refused: counter("refused_requests_total", "Number of requests that were refused because a certificate of the client is revoked."),
		closed:  counter("connections_closed_total", "Number of connections that were closed because a certificate of the client is revoked."),
		calls:   map[*tls.ConnectionState]context.CancelFunc{},
	}
	err := errors.Join(collector.Share(legacyregistry.Registerer(), &c.refused), collector.Share(legacyregistry.Registerer(), &c.closed))
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of revoked clients: %w", err)
	}
	return c, nil
}

// wrap refuses requests before anything else looks at them. No authenticator sees them: a token
// beside a revoked certificate does not count.
func (c *revokedClients) wrap(next http.Handler, config *genericapiserver.Config) http.Handler {
	if c == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
			next.ServeHTTP(w, r)
			return
		}
		r, done := c.note(r) // before the check, so that an act in between finds it
		defer done()
		if why := c.clients.Refusal(r.TLS.PeerCertificates); why != nil {
			c.refuse(w, r, config, why)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// note notes what has to end when the certificate of a request is revoked.
func (c *revokedClients) note(r *http.Request) (noted *http.Request, done func()) {
	if !isInside(r.Context()) {
		if local, known := r.Context().Value(http.LocalAddrContextKey).(net.Addr); known {
			c.connections.SetTLS(local, r.RemoteAddr, r.TLS)
		}
		return r, func() {}
	}
	state := *r.TLS // each call has its own
	ctx, cancel := context.WithCancel(r.Context())
	c.mu.Lock()
	c.calls[&state] = cancel
	c.mu.Unlock()
	return r.WithContext(ctx), func() {
		c.mu.Lock()
		delete(c.calls, &state)
		c.mu.Unlock()
		cancel()
	}
}

// refuse answers like the library does without credentials, but says why.
func (c *revokedClients) refuse(w http.ResponseWriter, r *http.Request, config *genericapiserver.Config, why *authn.Refusal) {
	c.refused.Inc()
	var answer http.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sum := sha256.Sum256(why.Certificate.Raw)
		audit.AddAuditAnnotation(r.Context(), refusedAnnotation, hex.EncodeToString(sum[:16]))
		w.Header().Set("Connection", "close")
		info, _ := apirequest.RequestInfoFrom(r.Context())
		responsewriters.ErrorNegotiated(apierrors.NewUnauthorized(why.Message()), config.Serializer, schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}, w, r)
	})
	answer = genericapifilters.WithFailedAuthenticationAudit(answer, config.AuditBackend, config.AuditPolicyRuleEvaluator)
	answer = genericapifilters.WithRequestInfo(answer, config.RequestInfoResolver)
	answer = genericapifilters.WithRequestReceivedTimestamp(answer)
	genericapifilters.WithAuditInit(answer).ServeHTTP(w, r)
}

// run closes connections until ctx ends. Idle ones, and those with watches, have no next
// request that could be refused.
func (c *revokedClients) run(ctx context.Context) {
	if c == nil {
		return
	}
	c.index.Follow(ctx, func() {
		worker.Sleep(ctx, closeDelay)
		if closed := c.closeRevoked(); closed > 0 {
			klog.FromContext(ctx).Info("Closed the connections of clients with revoked certificates", "connections", closed)
		}
	})
}

func (c *revokedClients) closeRevoked() (closed int) {
	if c.index.Len() == 0 {
		return 0
	}
	isRevoked := func(state *tls.ConnectionState) bool { return c.clients.Refusal(state.PeerCertificates) != nil }
	closed = c.connections.CloseWhere(isRevoked)
	c.closed.Add(float64(closed))
	c.mu.Lock()
	defer c.mu.Unlock()
	for state, end := range c.calls {
		if isRevoked(state) {
			end()
		}
	}
	return closed
}

// addRevocationCheck makes the server not ready while it may not know all revocations.
func addRevocationCheck(server *genericapiserver.GenericAPIServer, records *inventory.Inventory) error {
	if records == nil {
		return nil
	}
	check := healthz.NamedCheck(RevocationCheck, func(*http.Request) error {
		if age := records.Age(); age > staleAfter {
			return fmt.Errorf("revocations of the last %s may not be known: the store does not answer", age.Round(time.Second))
		}
		return nil
	})
	if err := server.AddReadyzChecks(check); err != nil {
		return fmt.Errorf("adding the check of revocations: %w", err)
	}
	return nil
}
