// Package publishlists signs the revocation lists of CAs (RFC 5280 section 5).
package publishlists

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/backoff"
	"github.com/certplane/certplane/internal/process/collector"
	"github.com/certplane/certplane/internal/revocation"
)

// CA is a CA whose key this process has.
type CA struct {
	// Signer is the name of a signer that signs with it. A CA can have several.
	Signer string
	Lists  *pki.ListAuthority
	// Above are the CAs above it, as far as they are known.
	Above []*x509.Certificate
	// Ends is when the last certificate of a former CA ends: its list is deleted then. It is
	// zero for other CAs.
	Ends time.Time
	// Once is set for a CA whose key is meant to be moved away: its list is signed once, and
	// lives as long as the CA.
	Once bool
}

// NewCA returns the CA with which a signer signs.
func NewCA(signer string, authority *pki.Authority) CA {
	cert, anchor := authority.Certificate(), authority.Anchor()
	above := slices.DeleteFunc(authority.Chain(cert)[1:], cert.Equal)
	if !anchor.Equal(cert) && !slices.ContainsFunc(above, anchor.Equal) {
		above = append(above, anchor)
	}
	return CA{Signer: signer, Lists: authority.Lists(), Above: above}
}

// CAs returns the CAs with which certificates are signed now, and former ones. complete is false while some of
// their signers are not known yet.
type CAs func() (all []CA, complete bool)

// Store has the revoked certificates. It is an *inventory.Inventory.
type Store interface {
	// AwaitRead returns when all is known that was stored before.
	AwaitRead(ctx context.Context) error
	Revoked() *revocation.Index
}

// Lists has the lists. It is an *inventory.ListStore.
type Lists interface {
	// RevokedTo is a revision of the store: all acts up to it are known.
	RevokedTo() int64
	Get(id string) *revocation.List
	All() []*revocation.List
	// Follow calls do, and again after each change, until ctx ends.
	Follow(ctx context.Context, do func())
	// Put fails if the list of the CA has another revision than former.
	Put(ctx context.Context, id string, list *revocation.StoredList, der []byte, former int64) error
	Delete(ctx context.Context, id string) error
}

const (
	// lookEvery is how often the publisher looks at what is due.
	lookEvery = time.Second
	// share bounds the work for a CA to 1/share of the time.
	share = 20
	// keepEnded is how long the list of an ended CA is kept.
	keepEnded = 30 * 24 * time.Hour
)

// retry is how long a CA waits after failures.
var retry = backoff.Backoff{First: time.Second, Most: 5 * time.Minute}

// publisher signs what is due.
type publisher struct {
	Config
	metrics *metrics

	mu sync.Mutex // guards what follows
	// complete is set once all CAs are known whose keys this process has.
	complete bool
	// saidHeld is when the log said last that no list may be signed.
	saidHeld time.Time
	// states has what is known about each CA beside what is stored, by ID. It decides only
	// about pauses and reports.
	states map[string]*state
}

// state is what is remembered about a CA.
type state struct {
	ids [][]byte // identifiers of the CA in entries
	// busy is set while a goroutine looks at the CA, which then has the next three to itself.
	busy bool
	// checked is the revision up to which no entry waits.
	checked int64
	// notBefore is when the next list can be signed at the earliest.
	notBefore time.Time
	failures  int
	// unable is why the CA has no list, as its certificate says.
	unable error
	// problem is why the last attempt failed.
	problem error
	subject string
	// last is the CA as it was last seen, and gone since when no signer has it; zero if one
	// has.
	last group
	gone time.Time
}

// group is a CA with its signers.
type group struct {
	CA
	id      string
	signers []string
}

// groups joins CAs of the same name and key. The newest certificate of each counts.
func groups(cas []CA) []group {
	var joined []group
	for _, ca := range cas {
		cert := ca.Lists.Certificate()
		id := revocation.ListID(cert)
		n := slices.IndexFunc(joined, func(g group) bool { return g.id == id })
		if n < 0 {
			n, joined = len(joined), append(joined, group{CA: ca, id: id})
		}
		g := &joined[n]
		g.signers = append(g.signers, ca.Signer)
		if newer(cert, g.Lists.Certificate()) {
			g.Lists, g.Above = ca.Lists, ca.Above
		}
		g.Once = g.Once && ca.Once
		if ca.Ends.IsZero() || g.Ends.IsZero() {
			g.Ends = time.Time{}
		} else {
			g.Ends = pki.Later(g.Ends, ca.Ends)
		}
	}
	for n := range joined {
		slices.Sort(joined[n].signers)
		joined[n].signers = slices.Compact(joined[n].signers)
	}
	return joined
}

func newer(a, b *x509.Certificate) bool {
	if !a.NotBefore.Equal(b.NotBefore) {
		return a.NotBefore.After(b.NotBefore)
	}
	return bytes.Compare(a.Raw, b.Raw) > 0
}

// Start implements manager.Runnable.
func (p *publisher) Start(ctx context.Context) error {
	if err := p.Store.AwaitRead(ctx); err != nil {
		return nil // ctx has ended
	}
	_ = p.held(ctx) // so that people learn of it before a list is due
	tick := p.Clock.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		wait := p.look(ctx)
		select {
		case <-ctx.Done():
			wait()
			p.finishAtEnd(ctx)
			return nil
		case <-tick.C():
		}
	}
}

// look signs what is due now. wait returns when it is done: a key that does not answer must not
// keep other CAs from signing.
func (p *publisher) look(ctx context.Context) (wait func()) {
	cas, complete := p.CAs()
	present := groups(cas)
	p.mu.Lock()
	p.complete = p.complete || complete
	p.mu.Unlock()
	var all sync.WaitGroup
	if complete {
		p.finish(ctx, present, goneAfter, &all)
	}
	for _, g := range present {
		s := p.stateOf(g)
		if !p.begin(s) {
			continue
		}
		all.Go(func() {
			defer p.end(s)
			p.lookAt(ctx, g, s, complete, false)
		})
	}
	for _, list := range p.Lists.All() {
		if list.CA != nil && p.Clock.Now().After(list.CA.NotAfter.Add(keepEnded)) || list.Last.Over(p.Clock.Now()) {
			if err := p.Lists.Delete(ctx, list.ID); err != nil {
				log.FromContext(ctx).Error(err, "Cannot delete the revocation list of an ended CA", "list", list.ID)
			}
		}
	}
	return all.Wait
}

const (
	// goneAfter is after what time without a signer a CA counts as replaced.
	goneAfter = 10 * time.Second
	// endTime is how long the end of this process waits for last lists.
	endTime = 5 * time.Second
	// mostFailures is how often the last list of a CA is tried: its key can be closed.
	mostFailures = 5
)

// finishAtEnd signs the final lists of CAs that were replaced a moment ago: their keys are in the
// memory of this process only.
func (p *publisher) finishAtEnd(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	cas, _ := p.CAs() // those that are missing now only are not signed for
	var all sync.WaitGroup
	p.finish(ctx, groups(cas), 0, &all)
	all.Wait()
}

// finish signs the final lists of CAs that no signer has had for some time, with keys that are
// still in memory. They are valid as long as the CAs, because no key signs another one.
func (p *publisher) finish(ctx context.Context, present []group, after time.Duration, all *sync.WaitGroup) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Clock.Now()
	for id, s := range p.states {
		switch {
		case slices.ContainsFunc(present, func(g group) bool { return g.id == id }):
			s.gone = time.Time{}
		case s.gone.IsZero():
			s.gone = now
		case now.Sub(s.gone) < after || s.busy:
		case s.unable != nil || s.failures > mostFailures || !s.last.Ends.IsZero():
			delete(p.states, id)
		default:
			s.busy = true
			g := s.last
			g.Once = true
			all.Go(func() {
				defer p.end(s)
				p.lookAt(ctx, g, s, false, true)
			})
		}
	}
}

func (p *publisher) begin(s *state) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	free := !s.busy
	s.busy = true
	return free
}

func (p *publisher) end(s *state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.busy = false
}

func (p *publisher) stateOf(g group) *state {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.states[g.id]
	if s == nil {
		cert := g.Lists.Certificate()
		s = &state{ids: revocation.AuthoritiesOf(cert), subject: cert.Subject.String()}
		p.states[g.id] = s
	}
	s.last = g
	return s
}

// lookAt signs the list of a CA if it is due. A CA without signers gets a final one.
func (p *publisher) lookAt(ctx context.Context, g group, s *state, complete, final bool) {
	now := p.Clock.Now()
	f := facts{now: now, ca: g.Lists.Certificate(), list: p.Lists.Get(g.id), once: g.Once, ends: g.Ends}
	to := p.Lists.RevokedTo()
	f.since, f.waits = p.waiting(s, f.list, to)
	p.metrics.showWaiting(g.id, f)
	why := p.due(f)
	if final && why == "" {
		if !now.Before(f.ca.NotAfter) || f.list.Last.NextUpdate.Equal(f.ca.NotAfter) {
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.states, g.id)
			return
		}
		why = "the CA was replaced"
	}
	if why == "" && complete && f.list != nil && f.list.Err == nil && (!slices.Equal(f.list.Last.Signers, g.signers) || !f.list.Last.Ends.Equal(g.Ends)) {
		p.rename(ctx, g, f.list)
	}
	if why == "" || now.Before(s.notBefore) && s.notBefore.Sub(now) <= retry.Most {
		return
	}
	if held := p.held(ctx); held != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		s.problem, s.notBefore = held, p.Clock.Now().Add(lookEvery)
		return
	}
	unable, err := p.sign(ctx, g, f, to, why)
	p.mu.Lock()
	defer p.mu.Unlock()
	s.unable, s.problem = unable, err
	took := p.Clock.Since(now)
	s.notBefore = p.Clock.Now().Add(min(share*took, retry.Most))
	if err == nil && unable == nil {
		s.failures = 0
		return
	}
	s.failures++
	if pause := p.Clock.Now().Add(retry.After(s.failures)); pause.After(s.notBefore) {
		s.notBefore = pause
	}
}

// sayHeld is how often the log says that no list is signed.
const sayHeld = 10 * time.Minute

// held returns why no list may be signed now; nil if one may.
func (p *publisher) held(ctx context.Context) error {
	if p.Held == nil {
		return nil
	}
	err := p.Held(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := p.Clock.Now(); err != nil && now.Sub(p.saidHeld) >= sayHeld {
		p.saidHeld = now
		log.FromContext(ctx).Error(err, "No revocation list is signed")
	}
	return err
}

// waiting returns since when an entry waits for a list of the CA.
func (p *publisher) waiting(s *state, list *revocation.List, to int64) (since time.Time, waits bool) {
	covered := int64(0)
	if list != nil && list.Last != nil && list.Last.Covers <= list.Revision { // otherwise the store was restored
		covered = list.Last.Covers
	}
	from := max(covered, s.checked)
	if to <= from {
		return time.Time{}, false
	}
	since, waits = p.Store.Revoked().Uncovered(s.ids, from)
	if !waits {
		s.checked = to
	}
	return since, waits
}

// sign signs a list of the CA and stores it. unable is why the CA cannot have any.
func (p *publisher) sign(ctx context.Context, g group, f facts, to int64, why string) (unable, err error) {
	list, last, former := p.next(f, to), int64(0), int64(0)
	if f.list != nil {
		former = f.list.Revision
		if f.list.Last != nil {
			last = f.list.Last.Number
		}
	}
	list.Signers, list.Ends = g.signers, g.Ends
	for _, cert := range append([]*x509.Certificate{f.ca}, g.Above...) {
		list.Chain = append(list.Chain, cert.Raw)
	}
	begun := p.Clock.Now()
	linted, err := list.Lint(g.Lists, p.Store.Revoked(), last)
	if errors.Is(err, pki.ErrNoLists) {
		return err, nil
	}
	var der []byte
	step := "Lint"
	if err == nil {
		step = "Key"
		der, err = linted.Sign(ctx, p.Rand, p.record(g, list, why))
	}
	if err == nil {
		step = "Store"
		err = list.Seal(der, g.Once)
	}
	if err == nil {
		err = p.Lists.Put(ctx, g.id, list, der, former)
	}
	if err != nil {
		if ctx.Err() == nil {
			p.metrics.failures.WithLabelValues(g.id, step).Inc()
			log.FromContext(ctx).Error(err, "Cannot sign a revocation list, trying again; the former one stays", "ca", f.ca.Subject.String(), "list", g.id, "why", why)
		}
		return nil, err
	}
	p.metrics.duration.Observe(p.Clock.Since(begun).Seconds())
	return nil, nil
}

// record logs a list that a key has signed, before it is stored.
func (p *publisher) record(g group, list *revocation.StoredList, why string) pki.ListRecorder {
	return func(ctx context.Context, signed pki.SignedList) error {
		p.metrics.signed.WithLabelValues(g.id).Inc()
		logger := log.FromContext(ctx)
		if signed.Entries == 0 {
			logger = logger.V(1) // one a day for each CA
		}
		logger.Info("Signed a revocation list", "ca", signed.CA.Subject.String(), "list", g.id, "number", signed.Number, "entries", signed.Entries,
			"bytes", len(signed.DER), "nextUpdate", list.NextUpdate, "why", why)
		return nil
	}
}

// rename stores the names of the CA's signers, and when it ends: the list stays as it is.
func (p *publisher) rename(ctx context.Context, g group, list *revocation.List) {
	renamed := *list.Last
	renamed.Signers, renamed.Ends = g.signers, g.Ends
	if err := p.Lists.Put(ctx, g.id, &renamed, nil, list.Revision); err != nil {
		log.FromContext(ctx).Error(err, "Cannot store the names of the signers of a CA with its revocation list, trying again", "list", g.id)
	}
}

type metrics struct {
	failures, signed *prometheus.CounterVec
	duration         prometheus.Histogram
	unlisted         *prometheus.GaugeVec
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "crl", Name: "sign_failures_total",
			Help: "Number of failed attempts to sign a revocation list, by the name of the RevocationList and by what failed: Lint, Key or Store.",
		}, []string{"ca", "reason"}),
		signed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: "certplane", Subsystem: "crl", Name: "signed_total",
			Help: "Number of revocation lists signed, by the name of the RevocationList.",
		}, []string{"ca"}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "certplane", Subsystem: "crl", Name: "sign_duration_seconds",
			Help: "How long it takes to build, sign and store a revocation list.", Buckets: []float64{.01, .03, .1, .3, 1, 3, 10},
		}),
		unlisted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "certplane", Subsystem: "revocation", Name: "unlisted_seconds",
			Help: "Age of the oldest revocation that the list of a CA lacks, by the name of the RevocationList; 0 if it lacks none.",
		}, []string{"ca"}),
	}
	err := errors.Join(collector.Share(registry, &m.failures), collector.Share(registry, &m.signed),
		collector.Share(registry, &m.duration), collector.Share(registry, &m.unlisted))
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of revocation lists: %w", err)
	}
	return m, nil
}

func (m *metrics) showWaiting(id string, f facts) {
	age := 0.0
	if f.waits {
		age = max(0, f.now.Sub(f.since).Seconds())
	}
	m.unlisted.WithLabelValues(id).Set(age)
}

// Config is the configuration of the controller.
type Config struct {
	Store Store
	Lists Lists
	CAs   CAs
	// Held, if not nil, returns why no list may be signed; nil if one may.
	Held func(context.Context) error
	Settings
	Rand  io.Reader
	Clock clock.WithTicker
	// Metrics, if not nil, is where the metrics are registered.
	Metrics prometheus.Registerer
}
