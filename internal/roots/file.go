package roots

import (
	"bytes"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/pki"
)

// lookEvery is how often a file is read at most. What is in it is used when it
// is the same at two looks: it may be being written at the first.
const lookEvery = time.Second

// file is a file of certificates.
type file struct {
	path  string
	clock clock.PassiveClock

	mu      sync.Mutex // guards all below
	looked  time.Time
	seen    []byte // at the last look
	used    []byte
	certs   []*x509.Certificate // in used
	failure string              // why what was seen is not used
}

// File returns the certificates in a PEM file, as they change. A file without
// any is an error here, and later no reason to forget those of before. A nil
// clock is the real one.
func File(path string, now clock.PassiveClock) (Roots, error) {
	if now == nil {
		now = clock.RealClock{}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading root certificates: %w", err)
	}
	certs, err := pki.ParseWholeBundle(data)
	if err != nil {
		return nil, fmt.Errorf("reading root certificates in %s: %w", path, err)
	}
	f := &file{path: path, clock: now, looked: now.Now(), seen: data, used: data, certs: certs}
	return f.roots, nil
}

func (f *file) roots() []*x509.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.clock.Now(); now.Sub(f.looked) >= lookEvery {
		f.looked = now
		f.report(f.look())
	}
	return f.certs
}

func (f *file) look() error {
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	settled := bytes.Equal(data, f.seen)
	f.seen = data
	if !settled || bytes.Equal(data, f.used) {
		return nil
	}
	certs, err := pki.ParseWholeBundle(data)
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.path, err)
	}
	f.used, f.certs = data, certs
	klog.InfoS("Root certificates have changed", "file", f.path, "certificates", len(certs))
	return nil
}

// report logs what is wrong with the file when that is news.
func (f *file) report(err error) {
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	if failure != "" && failure != f.failure {
		klog.ErrorS(err, "Cannot use the root certificates that are in the file now; going on with those before", "file", f.path)
	}
	f.failure = failure
}
