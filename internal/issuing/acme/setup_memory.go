package acme

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/internal/issuing"
	"github.com/certplane/certplane/internal/process/backoff"
)

// backOff is how long set-up waits after errors that can pass.
var backOff = backoff.Backoff{First: 5 * time.Second, Most: 5 * time.Minute}

// permanentFor is how long the refusal of an account is remembered. A CA can lift a refusal
// without notice.
const permanentFor = 6 * time.Hour

// maxOutcomes is the maximum number of remembered issuers. For forgotten issuers, the
// server is queried again.
const maxOutcomes = 10000

// outcome is the server's answer about an account.
type outcome struct {
	// inputs are the inputs on which the answer depends.
	inputs [sha256.Size]byte
	// ready is nil if the account is registered.
	ready *issuing.Ready
	// until is the time of the next query to the server; for a registered account, zero
	// means never.
	until time.Time
	// failures is the number of consecutive temporary errors.
	failures int
	// server and uri are the server and the URI of a registered account.
	server, uri string
}

func (o outcome) due(now time.Time) bool { return !o.until.IsZero() && !now.Before(o.until) }

// memory holds the outcomes of this process. It keeps set-up from asking a server each time
// that an issuer's status has changed.
type memory struct {
	mu       sync.Mutex
	outcomes map[types.UID]outcome
}

func newMemory() *memory { return &memory{outcomes: map[types.UID]outcome{}} }

// last returns the outcome for the same inputs.
func (m *memory) last(issuer types.UID, inputs [sha256.Size]byte) (outcome, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	o, ok := m.outcomes[issuer]
	return o, ok && o.inputs == inputs
}

func (m *memory) keep(issuer types.UID, o outcome) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for any := range m.outcomes {
		if len(m.outcomes) < maxOutcomes {
			break
		}
		delete(m.outcomes, any)
	}
	m.outcomes[issuer] = o
}

func (m *memory) failures(issuer types.UID) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.outcomes[issuer].failures
}

// registered reports whether this process has registered, or found, an account
// at a server whose accounts are on another host.
func (m *memory) registered(issuer types.UID, server, uri string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.outcomes[issuer]
	return o.server == server && o.uri == uri
}

// remember keeps the outcome of a pass that has asked the server; failed is nil
// if the account is registered.
func (p *pass) remember(ctx context.Context, failed *issuing.Ready) {
	inputs, err := p.fingerprint(ctx) // the pass may have changed the key
	if err != nil {
		return
	}
	o := outcome{inputs: inputs, ready: failed, until: p.again}
	if failed == nil {
		o.server, o.uri = p.spec.Server, p.status.URI
		p.memory.keep(p.issuer.GetUID(), o)
		return
	}
	switch {
	case failed.Retry != nil:
		// Not by the queue: the pass also runs when the status of the issuer has
		// changed, which it does with each new error.
		o.failures = p.memory.failures(p.issuer.GetUID()) + 1
		failed.Retry, failed.Again = nil, p.now.Add(backOff.After(o.failures))
	case failed.Again.IsZero():
		failed.Again = p.now.Add(permanentFor)
	}
	o.until = failed.Again
	p.memory.keep(p.issuer.GetUID(), o)
}

// fingerprint returns a hash of everything that an answer of the server depends
// on.
func (p *pass) fingerprint(ctx context.Context) (sum [sha256.Size]byte, err error) {
	external := p.spec.ExternalAccountBinding
	version := ""
	if external != nil {
		secret := &corev1.Secret{}
		err := p.Client.Get(ctx, p.secretNamed(external.Key.Name), secret)
		if client.IgnoreNotFound(err) != nil {
			return sum, err
		}
		version = string(secret.UID) + " " + secret.ResourceVersion
	}
	data, err := json.Marshal([]any{
		p.spec.Server, p.spec.CABundle, p.spec.SkipTLSVerify, p.spec.Email, external, version,
		p.hash, p.secret.Data[p.nextEntry()] != nil, p.rotation(), p.issuer.GetAnnotations()[TermsAnnotation],
	})
	if err != nil {
		return sum, fmt.Errorf("encoding the inputs of the set-up: %w", err)
	}
	return sha256.Sum256(data), nil
}
