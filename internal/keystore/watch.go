package keystore

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/pki"
)

// pollInterval is how often the files are read. A new CA is used after two to
// three of these. Reading two small files costs some 20 microseconds, and
// notices what notifications from the kernel miss: changes on network file
// systems, below bind mounts, and of what a symbolic link leads to, as in the
// volumes that Kubernetes makes of Secrets.
const pollInterval = 2 * time.Second

// watched is what Start remembers of the files.
type watched struct {
	seen      [sha256.Size]byte // of the content at the last look
	candidate *authority        // read, but not usable yet
}

// Start follows the files until ctx ends. The CA in use stays until there is
// another that is whole, belongs to its key and is valid; until then metrics,
// Status and the log say what is wrong with the one in the files. It must be
// called once at most.
func (s *Store) Start(ctx context.Context) error {
	ticker := s.clock.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			s.look(ctx)
		}
	}
}

// NeedLeaderElection is false: whoever may become the leader has to have the
// CA of today by then. Together with Start it makes a store something that a
// manager of controller-runtime can run.
func (s *Store) NeedLeaderElection() bool { return false }

// look reads the files. What it has not seen before may still be being
// written, and becomes of interest when it is the same at the next look.
func (s *Store) look(ctx context.Context) {
	c := s.files.read()
	defer clear(c.key)
	settled := c.digest == s.watched.seen
	s.watched.seen = c.digest
	if settled {
		s.follow(ctx, c)
	}
}

func (s *Store) follow(ctx context.Context, c content) {
	if c.digest == s.current.Load().digest {
		s.watched.candidate = nil
		s.fail(ctx, nil)
		return
	}
	next, err := s.candidate(ctx, c)
	if err == nil {
		err = next.usable(s.clock.Now())
	}
	if err != nil {
		s.fail(ctx, err)
		return
	}
	s.watched.candidate = nil
	s.use(ctx, next)
}

// candidate is load, but does the work once for a CA that has to wait for the
// begin of its validity. What failed is tried again: a token can come back.
func (s *Store) candidate(ctx context.Context, c content) (*authority, error) {
	if known := s.watched.candidate; known != nil && known.digest == c.digest {
		return known, nil
	}
	next, err := s.load(ctx, c)
	s.watched.candidate = next
	return next, err
}

func (s *Store) use(ctx context.Context, next *authority) {
	before := s.current.Swap(next)
	if slices.EqualFunc(before.chain, next.chain, (*x509.Certificate).Equal) {
		s.fail(ctx, nil) // the same, written differently
		return
	}
	s.metrics.changes.WithLabelValues(s.name).Inc()
	s.report(nil)
	klog.FromContext(ctx).Info("Signing with another CA from now on", "ca", s.name,
		"subject", next.Certificate().Subject.String(), "sha256", pki.Fingerprint(next.Certificate()), "notAfter", next.Certificate().NotAfter)
	s.changes.Tell(next.Authority)
}

// fail keeps why the files' CA is not in use, and logs it when that is news.
func (s *Store) fail(ctx context.Context, failure error) {
	before := s.Status().Failure
	s.report(failure)
	switch {
	case failure == nil && before != nil:
		klog.FromContext(ctx).Info("The CA in use is the one in its files again", "ca", s.name)
	case failure != nil && (before == nil || before.Error() != failure.Error()):
		klog.FromContext(ctx).Error(failure, "Cannot use the CA that is in the files now; going on with the one before", "ca", s.name)
	}
}

func (s *Store) report(failure error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = failure
	failed := 0.0
	if failure != nil {
		failed = 1
	}
	s.metrics.failed.WithLabelValues(s.name).Set(failed)
}
