package acme

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// LimitedError means that a request has to wait because the server, or the configuration,
// limits such requests: the request was refused, or not made at all. It wraps the
// *rfc8555.Problem of the server.
type LimitedError struct {
	// Until is when the request may be made.
	Until time.Time
	// Limit names the limited requests, such as "new orders".
	Limit string
	// Detail is the message of the server.
	Detail string

	problem *rfc8555.Problem // nil if the configuration limits it
}

// Unwrap returns the problem of the server.
func (e *LimitedError) Unwrap() error {
	if e.problem == nil {
		return nil
	}
	return e.problem
}

func (e *LimitedError) Error() string {
	return fmt.Sprintf("waiting until %s because the CA limits %s: %s", e.Until.UTC().Format(time.RFC3339), e.Limit, e.Detail)
}

const (
	// maxWait limits the Retry-After of a server: no known limit lasts longer.
	maxWait = 7 * 24 * time.Hour
	// maxOutage bounds Retry-After of a server that is not available.
	maxOutage = time.Hour
	// maxQueue is how long a request waits for other requests of its account.
	maxQueue = 30 * time.Second
	// maxHolds is how many limits of an account are known at a time.
	maxHolds = 1000
)

// limitClass is the class of requests that a limit applies to.
type limitClass string

const (
	limitOutage     limitClass = "requests while it is not available"
	limitNewAccount limitClass = "new accounts"
	limitNewOrder   limitClass = "new orders"
	limitRenewal    limitClass = "renewals"
	limitRequest    limitClass = "requests"
	limitDomain     limitClass = "certificates of a domain"
	limitIdentifier limitClass = "failed authorizations"
	limitSet        limitClass = "certificates for the same names"
)

// scope is a set of requests that are limited together.
type scope struct {
	class limitClass
	// name is a domain, an identifier, the hash of a list of identifiers, or an
	// action.
	name string
}

type hold struct {
	until   time.Time
	problem *rfc8555.Problem
}

func (h hold) error(s scope) *LimitedError {
	return &LimitedError{Until: h.until, Limit: string(s.class), Detail: rfc8555.ShortLine(h.problem.Error(), maxDetail), problem: h.problem}
}

// limits holds the state of the limits of one account.
type limits struct {
	open chan struct{} // has an element for each open request

	mu        sync.Mutex
	holds     map[scope]hold
	budgets   budgets
	successor successor
}

func newLimits(s ClientSettings, host string) *limits {
	return &limits{open: make(chan struct{}, s.OpenRequests), holds: map[scope]hold{}, budgets: newBudgets(s, host)}
}

// limitsOf returns the limits of the account with a key.
func (s *server) limitsOf(thumbprint string) *limits {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l, ok := s.limits[thumbprint]; ok {
		return l
	}
	for any := range s.limits {
		if len(s.limits) < maxAccounts {
			break
		}
		delete(s.limits, any)
	}
	host := ""
	if u, err := url.Parse(s.url); err == nil {
		host = u.Hostname()
	}
	l := newLimits(s.pool.Settings, host)
	s.limits[thumbprint] = l
	return l
}

// moveLimits gives the limits of an account to its new key.
func (s *server) moveLimits(l *limits, to string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits[to] = l
}

// successor is the new key of an account.
type successor struct {
	account string
	signer  *jwsSigner
	until   time.Time
}

// successionFor is how long clients with the former key of an account sign with the new
// one: until the makers of these clients also have the new one.
const successionFor = 10 * time.Minute

func (l *limits) succeed(s successor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.successor = s
}

// current returns the key with which messages of an account are to be signed now.
func (l *limits) current(signer *jwsSigner, account string, now time.Time) *jwsSigner {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.successor.account == account && now.Before(l.successor.until) {
		return l.successor.signer
	}
	return signer
}

// enterAlone is enter for a message that changes the key of the account: no other
// request may be under way.
func (l *limits) enterAlone(ctx context.Context, p *Pool, m message) (release func(), err error) {
	var releases []func()
	release = func() {
		for _, one := range releases {
			one()
		}
	}
	for range cap(l.open) {
		one, err := l.enter(ctx, p, m)
		if err != nil {
			release()
			return nil, err
		}
		releases = append(releases, one)
	}
	return release, nil
}

// enter waits until there are few enough open requests. It fails with a
// *LimitedError if the request must not be made now.
func (l *limits) enter(ctx context.Context, p *Pool, m message) (release func(), err error) {
	if err := l.check(p, m); err != nil {
		return nil, err
	}
	patience := time.NewTimer(maxQueue)
	defer patience.Stop()
	select {
	case l.open <- struct{}{}:
	case <-patience.C:
		return nil, fmt.Errorf("%d requests of the ACME account have been open for %s: trying again later", cap(l.open), maxQueue)
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for other requests of the ACME account: %w", ctx.Err())
	}
	release = func() { <-l.open }
	if err := l.admit(p, m); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

func (l *limits) check(p *Pool, m message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held(p.Clock.Now(), m)
}

// admit is check, and counts the request.
func (l *limits) admit(p *Pool, m message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := p.Clock.Now()
	if err := l.held(now, m); err != nil {
		return err
	}
	if m.class != limitNewOrder {
		return nil
	}
	if held := l.budgets.take(m, now); held != nil {
		return held
	}
	return nil
}

// observe updates the budgets from an answer.
func (l *limits) observe(tell func(*budgets)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	tell(&l.budgets)
}

// held returns the *LimitedError of the limit that ends last.
func (l *limits) held(now time.Time, m message) error {
	var found *LimitedError
	for s, h := range l.holds {
		if !now.Before(h.until) {
			delete(l.holds, s)
			continue
		}
		if s.includes(m) && (found == nil || h.until.After(found.Until)) {
			found = h.error(s)
		}
	}
	if found == nil {
		return nil
	}
	return found
}

// includes reports whether a limit is for a request.
func (s scope) includes(m message) bool {
	switch s.class {
	case limitOutage:
		return true
	case limitRequest:
		return s.name == string(m.action) && m.class == limitRequest
	case limitDomain:
		return m.class == limitNewOrder && slices.ContainsFunc(m.names, func(n string) bool { return under(n, s.name) })
	case limitIdentifier:
		return m.class == limitNewOrder && slices.ContainsFunc(m.names, func(n string) bool { return base(n) == s.name })
	case limitSet:
		return m.class == limitNewOrder && setOf(m) == s.name
	}
	return m.class == s.class
}

// setOf returns a hash of all identifiers of an order.
func setOf(m message) string {
	sum := sha256.Sum256([]byte(strings.Join(m.names, " ")))
	return string(sum[:])
}

func base(name string) string { return strings.TrimPrefix(name, "*.") }

func under(name, domain string) bool {
	return base(name) == domain || strings.HasSuffix(name, "."+domain)
}

// heed remembers the limit in an error of a server, and returns it as a *LimitedError. It
// returns other errors unchanged.
func (l *limits) heed(p *Pool, m message, err error) error {
	problem, ok := problemIn(err)
	if !ok {
		return err
	}
	now := p.Clock.Now()
	var s scope
	until := problem.RetryAfter
	switch {
	case problem.Status == http.StatusTooManyRequests || problem.HasType(rfc8555.ProblemRateLimited):
		s = scopeOf(m, problem.Detail)
		if until.IsZero() {
			until = now.Add(p.Settings.RateLimitedFor.Duration)
		}
	case problem.Status == http.StatusServiceUnavailable && !until.IsZero():
		s = scope{class: limitOutage}
		if latest := now.Add(maxOutage); until.After(latest) {
			until = latest
		}
	default:
		return err
	}
	if tenth := until.Sub(now) / 10; tenth > 0 {
		until = until.Add(p.Jitter(tenth))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	h := hold{until, problem}
	if _, known := l.holds[s]; known || len(l.holds) < maxHolds {
		l.holds[s] = h
	}
	return h.error(s)
}

var (
	quotedName  = regexp.MustCompile(`for "([^"]{1,253})"`)
	aboutFailed = regexp.MustCompile(`(?i)failed (authorization|validation)`)
	aboutSet    = regexp.MustCompile(`(?i)exact (same )?set`)
)

// scopeOf returns what is limited according to the detail of a problem.
func scopeOf(m message, detail string) scope {
	if m.class != limitNewOrder {
		return scope{class: m.class, name: nameOf(m)}
	}
	if aboutSet.MatchString(detail) {
		return scope{limitSet, setOf(m)}
	}
	match := quotedName.FindStringSubmatch(detail)
	if match == nil {
		return scope{class: limitNewOrder}
	}
	name := base(strings.ToLower(match[1]))
	found := scope{limitDomain, name}
	if aboutFailed.MatchString(detail) {
		found.class = limitIdentifier
	}
	if !found.includes(m) { // a name that is not in the order
		return scope{class: limitNewOrder}
	}
	return found
}

func nameOf(m message) string {
	if m.class == limitRequest {
		return string(m.action)
	}
	return ""
}
