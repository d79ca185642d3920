// Package storespace keeps a store from running full.
//
// It measures how much of the store is in use. When half of the quota is in use, no tenant
// gets more than its share. When all of it is in use, only writes of the server itself and
// its administrators may take more space, and above half of the reserve only those of the
// server. So deleting is always possible, and makes room for all: the past is then removed
// and the file reduced at once.
package storespace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/tenant/fairshare"
)

const (
	// tick is the time between two readings of the store.
	tick = time.Second
	// lookEvery is the time between readings because a write would be refused.
	lookEvery = 200 * time.Millisecond
	// countEvery is the shortest time between two counts of tenants; countPart is
	// the part of the time that counting may take.
	countEvery = 10 * time.Second
	countPart  = 20
	// warnEvery is the interval of log messages while the store is filling up.
	warnEvery = 10 * time.Minute
	// rewriting is the part of the quota that the large objects of a tenant may
	// leave in the past of a store that is tight, before the past is removed.
	rewriting = 64
	// overhead is what etcd stores in addition to an object.
	overhead = 256
)

// Store is the etcd whose space is watched.
type Store interface {
	// Read returns how full it is.
	Read(ctx context.Context) (Reading, error)
	// Compact removes the versions of keys that were replaced or deleted before
	// revision.
	Compact(ctx context.Context, revision int64) error
	// Reclaim makes the database file smaller. It fails with errors.ErrUnsupported
	// if only the store's operator may do so.
	Reclaim(ctx context.Context) error
	// Disarm ends etcd's refusal to write after it was full.
	Disarm(ctx context.Context) error
}

// Owner calls charge for each tenant that is accountable for the value stored under a key,
// with the bytes that count for it.
type Owner func(key string, value []byte, charge func(tenant fairshare.Tenant, bytes int64))

// Config configures a Space.
type Config struct {
	Store Store
	// KV and Prefix are where objects are counted.
	KV     clientv3.KV
	Prefix string
	Owner  Owner
	// Quota is how many bytes are to be in use at most.
	Quota int64
	// PercentPerTenant is the share of a tenant in the quota; 0 is no bound.
	PercentPerTenant int
	// PercentPerClass is the share of all tenants of a class together, for classes whose
	// tenants can create others. It requires PercentPerTenant.
	PercentPerClass map[string]int
	// Clock is the clock; nil means the real one.
	Clock clock.PassiveClock
	// Metrics, if there is one, gets the metrics.
	Metrics prometheus.Registerer
}

// Space tracks how full a store is. It is safe for concurrent use.
type Space struct {
	cfg     Config
	usage   *usage
	metrics *metrics

	mu      sync.Mutex // guards the rest
	reading Reading
	at      time.Time // when it was read
	written int64     // since then
	pressed bool      // a write was refused since Run has last looked
	// rewritten is how much large objects of each tenant have left in the past.
	rewritten rewritten

	wake chan struct{} // has Run look at once

	looking sync.Mutex // held by the goroutine that reads how full the store is

	history history // used by Recover, then by Run
	warned  time.Time
	// warnedOfDisk is when the log last said that the disk is filling up.
	warnedOfDisk time.Time

	counting  sync.Mutex // held by the goroutine that counts tenants
	nextCount time.Time
}

// New returns a Space that has not read its store yet.
func New(cfg Config) (*Space, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	m, err := newMetrics(cfg.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of the store: %w", err)
	}
	return &Space{cfg: cfg, usage: newUsage(cfg.PercentPerClass), metrics: m, wake: make(chan struct{}, 1), rewritten: newRewritten()}, nil
}

// Recover reads how full the store is before it is used, and makes it writable
// if it is not.
func (s *Space) Recover(ctx context.Context) error {
	if err := s.look(ctx); err != nil {
		return err
	}
	r := s.now()
	if !r.Full && levelOf(r, s.cfg.Quota) < full && !r.isHollow(s.cfg.Quota) {
		return nil
	}
	s.history.past = r.Revision
	if err := s.cfg.Store.Compact(ctx, r.Revision); err != nil {
		return err
	}
	s.history.compacted = r.Revision
	if err := s.look(ctx); err != nil {
		return err
	}
	r = s.now()
	if p := decide(r, s.cfg.Quota, s.history, s.cfg.Clock.Now()); p.reclaim || r.isHollow(s.cfg.Quota) {
		if err := s.reclaim(ctx); err != nil {
			return err
		}
	}
	if err := s.disarm(ctx); err != nil {
		return err
	}
	return s.look(ctx)
}

// Run watches the store until ctx ends.
func (s *Space) Run(ctx context.Context) {
	var counting sync.WaitGroup
	defer counting.Wait()
	busy := make(chan struct{}, 1)
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(tick):
		case <-s.wake:
		}
		err := s.tend(ctx)
		if err != nil && !failing && ctx.Err() == nil { // once until it works again
			klog.FromContext(ctx).Error(err, "Cannot watch how full the store is")
		}
		if failing = err != nil; failing {
			continue
		}
		select {
		case busy <- struct{}{}:
			counting.Go(func() {
				defer func() { <-busy }()
				s.countTenants(ctx)
			})
		default: // still counting
		}
	}
}

// tend reads the state of the store once, and acts on it.
func (s *Space) tend(ctx context.Context) error {
	s.mu.Lock()
	s.rewritten.look()
	s.mu.Unlock()
	if err := s.look(ctx); err != nil {
		s.mu.Lock()
		s.rewritten.missed()
		s.mu.Unlock()
		return err
	}
	r := s.now()
	s.mu.Lock()
	s.history.pressed = s.history.pressed || s.pressed
	s.pressed = false
	s.mu.Unlock()
	if s.history.lean == 0 || r.InUse < s.history.lean {
		s.history.lean = r.InUse
	}
	s.warn(ctx, r)
	s.warnOfDisk(ctx, r)
	p := decide(r, s.cfg.Quota, s.history, s.cfg.Clock.Now())
	s.history.past = r.Revision
	if p.compact > 0 {
		if err := s.cfg.Store.Compact(ctx, p.compact); err != nil {
			return err
		}
		s.metrics.compactions.WithLabelValues().Inc()
		s.history.compacted, s.history.lean, s.history.pressed = p.compact, 0, false
		s.mu.Lock()
		s.rewritten.compacted()
		s.mu.Unlock()
	}
	if p.reclaim {
		if err := s.reclaim(ctx); err != nil {
			return err
		}
	}
	if p.disarm {
		return s.disarm(ctx)
	}
	return nil
}

func (s *Space) reclaim(ctx context.Context) error {
	logger, begin := klog.FromContext(ctx), s.cfg.Clock.Now()
	s.history.reclaimed = begin
	if err := s.cfg.Store.Reclaim(ctx); err != nil {
		if errors.Is(err, errors.ErrUnsupported) {
			return nil
		}
		return err
	}
	s.metrics.reclaims.WithLabelValues().Inc()
	if err := s.look(ctx); err != nil {
		return err
	}
	logger.Info("The file of the store is smaller", "sizeMiB", s.now().Size>>20, "took", s.cfg.Clock.Since(begin).Round(time.Millisecond))
	return nil
}

func (s *Space) disarm(ctx context.Context) error {
	if r := s.now(); !r.Full || r.fileIsFull(s.cfg.Quota) {
		return nil
	}
	if err := s.cfg.Store.Disarm(ctx); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("The store has room again")
	return nil
}

// look reads how full the store is.
func (s *Space) look(ctx context.Context) error {
	s.looking.Lock()
	defer s.looking.Unlock()
	return s.read(ctx)
}

func (s *Space) read(ctx context.Context) error {
	s.mu.Lock()
	before := s.written
	s.mu.Unlock()
	r, err := s.cfg.Store.Read(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.reading, s.at, s.written = r, s.cfg.Clock.Now(), s.written-before
	s.mu.Unlock()
	s.metrics.show(r, s.cfg.Quota, s.usage.largest(mostShown))
	return nil
}

// lookAgain reads how full the store is, unless that was read just before.
func (s *Space) lookAgain(ctx context.Context) {
	s.looking.Lock()
	defer s.looking.Unlock()
	s.mu.Lock()
	age := s.cfg.Clock.Since(s.at)
	s.mu.Unlock()
	if age < lookEvery {
		return
	}
	if err := s.read(ctx); err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot see how full the store is", "err", err)
	}
}

// now returns the last reading, plus the writes since.
func (s *Space) now() Reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.reading
	r.InUse += s.written
	return r
}

// Allow returns a *Refusal if w must not be written now.
func (s *Space) Allow(ctx context.Context, w Write) error {
	refusal := s.refuses(ctx, w)
	if refusal != nil {
		s.lookAgain(ctx)
		refusal = s.refuses(ctx, w)
	}
	if refusal == nil {
		return nil
	}
	reason := "share"
	if refusal.Tenant == nil {
		reason = "full"
		s.mu.Lock()
		s.pressed = true
		s.mu.Unlock()
		s.lookSoon()
	}
	s.metrics.refused.WithLabelValues(reason, w.Owner.Class).Inc()
	return refusal
}

func (s *Space) refuses(ctx context.Context, w Write) *Refusal {
	r := s.now()
	r.InUse += w.New
	l := levelOf(r, s.cfg.Quota)
	if !w.allowedAt(l) {
		file := r.InUse < s.cfg.Quota && r.fileIsFull(s.cfg.Quota)
		return &Refusal{InUse: r.InUse - w.New, Most: s.cfg.Quota, FileIsFull: file, File: r.Size, FileMost: r.Limit}
	}
	if l >= tight && w.rewrites() && s.hasRewritten(w.Owner) > s.cfg.Quota/rewriting {
		return &Refusal{Again: true}
	}
	most := s.cfg.Quota / 100 * int64(s.cfg.PercentPerTenant)
	if l < scarce || most == 0 || w.Privileged || w.Deleting || w.Revocation || w.Denial && w.New <= w.Old+small || w.New <= w.Old+slack && w.Old > 0 || w.Owner == (fairshare.Tenant{}) {
		return nil
	}
	has, known := s.usage.of(w.Owner)
	if !known {
		s.countFirst(ctx, w.Owner)
		has, known = s.usage.of(w.Owner)
	}
	if known && has+w.New-w.Old > most {
		return &Refusal{Tenant: &w.Owner, InUse: has, Most: most}
	}
	most = s.cfg.Quota / 100 * int64(s.cfg.PercentPerClass[w.Owner.Class])
	if class := classOf(w.Owner); most > 0 && known {
		if has, _ := s.usage.of(class); has+w.New-w.Old > most {
			return &Refusal{Tenant: &class, InUse: has, Most: most}
		}
	}
	return nil
}

func (s *Space) hasRewritten(tenant fairshare.Tenant) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rewritten.of(tenant)
}

// Wrote records a completed write; New is 0 if the object was deleted.
func (s *Space) Wrote(w Write) {
	s.mu.Lock()
	s.written += w.New + overhead
	if w.rewrites() {
		s.rewritten.recent[w.Owner] += w.Old
	}
	much := s.written > s.cfg.Quota/growth
	s.mu.Unlock()
	s.usage.changed(w.Owner, w.New-w.Old)
	if much {
		s.lookSoon()
	}
}

// lookSoon wakes Run to look at the store at once.
func (s *Space) lookSoon() {
	select {
	case s.wake <- struct{}{}:
	default: // Run is about to look already
	}
}

// Check fails while the store cannot be written.
func (s *Space) Check() error {
	if r := s.now(); r.Full {
		return fmt.Errorf("etcd refuses to write: %d MiB of its %d MiB are taken (alarm NOSPACE)", r.Size>>20, r.Limit>>20)
	}
	return nil
}

// countTenants counts how much each tenant has, before that is needed.
func (s *Space) countTenants(ctx context.Context) {
	if s.cfg.PercentPerTenant == 0 || s.now().InUse < s.cfg.Quota/4 {
		return
	}
	s.counting.Lock()
	defer s.counting.Unlock()
	if begin := s.cfg.Clock.Now(); begin.After(s.nextCount) {
		s.count(ctx, begin)
	}
}

// countFirst counts how much each tenant has, unless that was done before.
func (s *Space) countFirst(ctx context.Context, tenant fairshare.Tenant) {
	s.counting.Lock()
	defer s.counting.Unlock()
	if _, known := s.usage.of(tenant); !known {
		s.count(ctx, s.cfg.Clock.Now())
	}
}

func (s *Space) count(ctx context.Context, begin time.Time) {
	s.usage.begin()
	counted, err := count(ctx, s.cfg.KV, s.cfg.Prefix, s.cfg.Owner)
	s.nextCount = s.cfg.Clock.Now().Add(max(countEvery, countPart*s.cfg.Clock.Since(begin)))
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Cannot count how much of the store each tenant uses", "err", err)
		return
	}
	s.usage.end(counted)
}

// lowDisk is the free space of the disk from which on the log warns: etcd ends the server
// when there is none, and allocates 64 MiB for its log at a time.
const lowDisk = 512 << 20

// warnOfDisk logs, from time to time, that the disk is filling up, by whatever is on it.
func (s *Space) warnOfDisk(ctx context.Context, r Reading) {
	if r.DiskFree == nil || *r.DiskFree >= lowDisk || s.cfg.Clock.Since(s.warnedOfDisk) < warnEvery {
		return
	}
	s.warnedOfDisk = s.cfg.Clock.Now()
	klog.FromContext(ctx).Info("The disk of the data directory is filling up: free space on it, a full disk ends the server", "freeMiB", *r.DiskFree>>20)
}

// mostShown is how many tenants logs and metrics name.
const mostShown = 5

// warn logs, from time to time, that the store is filling up.
func (s *Space) warn(ctx context.Context, r Reading) {
	const warnPercent = 80
	percent := r.InUse * 100 / s.cfg.Quota
	if percent < warnPercent && !r.Full || s.cfg.Clock.Since(s.warned) < warnEvery {
		return
	}
	s.warned = s.cfg.Clock.Now()
	var largest []string
	for _, h := range s.usage.largest(mostShown) {
		largest = append(largest, fmt.Sprintf("%s %s: %d MiB", h.tenant.Class, h.tenant.Name, h.bytes>>20))
	}
	klog.FromContext(ctx).Info("The store is filling up: delete objects that are not needed, or raise etcd.quotaMiB", "percent", percent,
		"inUseMiB", r.InUse>>20, "quotaMiB", s.cfg.Quota>>20, "etcdRefusesToWrite", r.Full, "largest", strings.Join(largest, ", "))
}
