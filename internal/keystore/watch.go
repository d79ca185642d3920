package keystore

import (
	"context"
	"crypto/x509"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/filewatch"
)

// pollInterval is how often the files are read. A new CA is used after two to
// three of these. Reading two small files costs some 20 microseconds, and
// detects changes that notifications from the kernel miss: on network file
// systems, below bind mounts, and of the target of a symbolic link, as in the
// volumes that Kubernetes makes of Secrets.
const pollInterval = 2 * time.Second

// Start watches the files until ctx ends. The CA in use stays until the files contain
// another one that is complete, matches its key and is valid; until then, metrics, Status
// and the log report the defect of the files. Start must be called at most once.
func (s *Store) Start(ctx context.Context) error {
	s.files.Run(ctx, s.clock, pollInterval)
	return nil
}

// NeedLeaderElection returns false: a process that may become the leader must
// have the current CA by then. With this method and Start, a manager of
// controller-runtime can run a store.
func (s *Store) NeedLeaderElection() bool { return false }

// useFiles switches the store to the CA in the files, if certificates from it
// can be verified now.
func (s *Store) useFiles(ctx context.Context, c filewatch.Contents) error {
	next, err := s.read(ctx, c)
	if err != nil {
		return err
	}
	before := s.current.Load()
	if before == nil {
		s.useFirst(ctx, next)
		return nil
	}
	if err := next.usable(s.clock.Now()); err != nil {
		s.candidate = next
		return err
	}
	s.candidate = nil
	s.current.Store(next)
	if !slices.EqualFunc(before.chain, next.chain, (*x509.Certificate).Equal) { // not only encoded differently
		s.announceChange(ctx, next)
	}
	return nil
}

// read is like load, but loads a CA only once while it waits for the start of
// its validity. A failed load is repeated: a token can come back.
func (s *Store) read(ctx context.Context, c filewatch.Contents) (*authority, error) {
	if known := s.candidate; known != nil && known.digest == c.Digest {
		return known, nil
	}
	return s.load(ctx, c)
}

func (s *Store) announceChange(ctx context.Context, next *authority) {
	s.metrics.changes.WithLabelValues(s.name).Inc()
	s.report(nil)
	klog.FromContext(ctx).Info("Signing with another CA from now on", "ca", s.name,
		"subject", next.Certificate().Subject.String(), "sha256", pki.Fingerprint(next.Certificate()), "notAfter", next.Certificate().NotAfter)
	s.changes.Tell(next.Authority)
}

// fail stores why the CA in the files is not in use, and logs it.
func (s *Store) fail(ctx context.Context, failure error) {
	before := s.Status().Failure
	s.report(failure)
	switch {
	case failure != nil:
		klog.FromContext(ctx).Error(failure, "Cannot use the CA in the files; still signing with the previous one", "ca", s.name)
	case before != nil:
		s.candidate = nil
		klog.FromContext(ctx).Info("The CA in use is the one in its files again", "ca", s.name)
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
