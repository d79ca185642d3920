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

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/filewatch"
	"github.com/certplane/certplane/internal/process/notify"
)

// Options are the dependencies of a CA other than its settings. All are optional.
type Options struct {
	// Name is the name of the CA in metrics and logs, such as "signing.ca".
	Name string
	// Clock is the clock to use; nil means the real one.
	Clock clock.WithTicker
	// Metrics, if not nil, is where the CA's metrics are registered. CAs that
	// share it share the metrics, and differ by their names.
	Metrics prometheus.Registerer
}

// Store has one CA, and reloads it when its files change. It is safe for
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
	failure error      // why the CA on disk is not in use

	// The fields below are only for Open and Start.
	files     filewatch.Files
	candidate *authority // read, but not usable yet
}

// vault is a place that its keys do not leave.
type vault interface {
	// Find returns the key whose public half is public. It is safe for
	// concurrent use, as are the keys it returns, until Close.
	Find(ctx context.Context, public crypto.PublicKey) (crypto.Signer, error)
	Close() error
}

// Open reads a CA. It refuses a CA that could never issue a certificate, so
// that the error is seen before the first request. It does not refuse a CA
// outside of its validity: the signer reports that on each request, and uses
// the next CA without a restart.
//
// The caller must run Start, so that the CA is reloaded when its files change,
// and call Close at the end.
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
	s.files = filewatch.Files{
		Files: []filewatch.File{
			{Path: settings.CertFile, What: "reading CA certificate"},
			{Path: settings.KeyFile, What: "reading CA key"},
		},
		Use:    s.useFiles,
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
	s.metrics.changes.WithLabelValues(s.name).Add(0) // a missing counter cannot be monitored
	s.report(nil)
	if err := first.usable(s.clock.Now()); err != nil {
		klog.FromContext(ctx).Error(err, "The CA cannot issue certificates now", "ca", s.name)
	}
}

// Close releases a key that is not in a file.
func (s *Store) Close() error {
	if s.vault == nil {
		return nil
	}
	return s.vault.Close()
}

// Current returns the CA with which to sign now. Two calls can return different
// CAs: for one signature, the caller must use the result of one call. It is
// cheap, and its error is always nil, because Open has loaded a CA.
func (s *Store) Current() (*pki.Authority, error) { return s.current.Load().Authority, nil }

// Subscribe calls changed with each new CA, after Current returns it, in the order of the
// changes. changed must be fast, because the files are not read while it runs. The current
// CA is not reported. cancel ends the subscription, except for a call that is in progress.
func (s *Store) Subscribe(changed func(*pki.Authority)) (cancel func()) {
	return s.changes.Subscribe(changed)
}

// Status is the state of a CA.
type Status struct {
	// Fingerprint is the fingerprint of the CA certificate in use, as from
	// pki.Fingerprint.
	Fingerprint string
	// NotAfter is when the CA certificate in use expires.
	NotAfter time.Time
	// Failure is why the CA in the files is not in use; nil if the CA in use is
	// the one in its files. It shows no secrets.
	Failure error
}

// Status returns the current state of the CA.
func (s *Store) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	cert := s.current.Load().Certificate()
	return Status{Fingerprint: pki.Fingerprint(cert), NotAfter: cert.NotAfter, Failure: s.failure}
}
