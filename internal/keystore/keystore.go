// Package keystore holds the keys of certification authorities.
package keystore

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/follow"
	"github.com/certplane/certplane/internal/notify"
	"github.com/certplane/certplane/internal/pki"
)

// Options are what a CA needs besides its settings. All of them may be left
// out.
type Options struct {
	// Name is what metrics and logs call the CA, such as "signing.ca".
	Name string
	// Clock tells the time; nil is the real one.
	Clock clock.WithTicker
	// Metrics, if there is one, gets the CA's metrics. CAs that share it share
	// the metrics, told apart by their names.
	Metrics prometheus.Registerer
}

// Store has one CA, and follows it when its files change. It is safe for
// concurrent use.
type Store struct {
	name     string
	settings Settings
	vault    vault // nil: the key is in a file
	clock    clock.WithTicker
	metrics  *metrics

	current atomic.Pointer[authority]

	changes notify.List[*pki.Authority]

	mu      sync.Mutex // guards failure
	failure error      // why what is on disk is not in use

	// What follows is for Open and Start alone.
	files     follow.Files
	candidate *authority // read, but not usable yet
}

// vault is a place that keys do not leave.
type vault interface {
	// Find returns the key whose public half is public. It is safe for
	// concurrent use, as are the keys it returns, until Close.
	Find(ctx context.Context, public crypto.PublicKey) (crypto.Signer, error)
	Close() error
}

// Open reads a CA. What could never issue a certificate is refused here and
// not when somebody waits for one. A CA outside of its validity is not: its
// signer says so on each request, and takes its successor without a restart.
//
// The caller runs Start, so that the CA follows its files, and calls Close in
// the end.
func Open(ctx context.Context, settings Settings, options Options) (*Store, error) {
	if settings.IsZero() {
		return nil, errors.New("no CA: name its certFile and its key")
	}
	if err := settings.Validate(options.Name); err != nil {
		return nil, err
	}
	s, err := newStore(ctx, settings, options)
	if err != nil {
		return nil, err
	}
	if err := s.files.Open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func newStore(ctx context.Context, settings Settings, options Options) (*Store, error) {
	metrics, err := newMetrics(options.Metrics)
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of CA %s: %w", options.Name, err)
	}
	s := &Store{
		name:     options.Name,
		settings: settings,
		clock:    options.Clock,
		metrics:  metrics,
	}
	s.files = follow.Files{
		Files: []follow.File{
			{Path: settings.CertFile, What: "reading CA certificate"},
			{Path: settings.KeyFile, What: "reading CA key"},
		},
		Use:    s.use,
		Report: s.fail,
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if settings.Key != "" {
		s.vault, err = openVault(ctx, settings.Key)
	}
	return s, err
}

func openVault(ctx context.Context, uri string) (vault, error) {
	found, err := schemeOf(uri)
	if err != nil {
		return nil, err
	}
	return found.open(ctx, uri)
}

func (s *Store) useFirst(ctx context.Context, first *authority) {
	s.current.Store(first)
	s.metrics.changes.WithLabelValues(s.name).Add(0) // a counter that is not there cannot be watched
	s.report(nil)
	if err := first.usable(s.clock.Now()); err != nil {
		klog.FromContext(ctx).Error(err, "The CA cannot issue certificates now", "ca", s.name)
	}
}

// Close ends the use of a key that is elsewhere than in a file.
func (s *Store) Close() error {
	if s.vault == nil {
		return nil
	}
	return s.vault.Close()
}

// Current returns the CA with which to sign now. Two calls can return
// different CAs: whoever signs keeps the one it asked for. It costs nothing,
// and has no error as long as there is the CA that Open found.
func (s *Store) Current() (*pki.Authority, error) { return s.current.Load().Authority, nil }

// Subscribe has changed called with each new CA, after Current returns it, in
// the order of the changes. It must be quick: the files are not looked at
// meanwhile. The CA of now is not reported. cancel ends it, but for a call
// that is on its way.
func (s *Store) Subscribe(changed func(*pki.Authority)) (cancel func()) {
	return s.changes.Subscribe(changed)
}

// Status is how a CA stands.
type Status struct {
	// Fingerprint is that of the CA certificate in use, as pki.Fingerprint.
	Fingerprint string
	// NotAfter is when the CA certificate in use ends.
	NotAfter time.Time
	// Failure says why a CA that was put in place of the one in use is not
	// used; nil when the one in use is the one in its files. It shows no
	// secrets.
	Failure error
}

// Status tells how the CA stands now.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	cert := s.current.Load().Certificate()
	return Status{Fingerprint: pki.Fingerprint(cert), NotAfter: cert.NotAfter, Failure: s.failure}
}
