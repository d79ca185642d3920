package roots

import (
	"context"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/process/filewatch"
)

// lookEvery is the shortest time between two reads of a file.
const lookEvery = time.Second

// file is a file of certificates.
type file struct {
	path  string
	clock clock.PassiveClock

	mu     sync.Mutex // guards all below
	looked time.Time
	files  filewatch.Files
	certs  []*x509.Certificate // those in use
}

// File returns the certificates in a PEM file, as they change. A file without
// certificates is an error at first; later, the former ones stay in use. A nil
// clock is the real one.
func File(path string, now clock.PassiveClock) (Roots, error) {
	if now == nil {
		now = clock.RealClock{}
	}
	f := &file{path: path, clock: now, looked: now.Now()}
	f.files = filewatch.Files{
		Files:  []filewatch.File{{Path: path, What: "reading root certificates"}},
		Use:    f.use,
		Report: f.report,
	}
	if err := f.files.Open(context.Background()); err != nil {
		return nil, err
	}
	return f.roots, nil
}

// OfAPI returns the roots with which clients of a configuration verify the API, as they
// change. It is nil if the configuration contains none.
func OfAPI(cfg *rest.Config) (Roots, error) {
	switch {
	case len(cfg.CAData) > 0:
		certs, err := pki.ParseBundle(cfg.CAData)
		if err != nil {
			return nil, fmt.Errorf("reading the API server's CA: %w", err)
		}
		return Static(certs...), nil
	case cfg.CAFile != "":
		return File(cfg.CAFile, nil)
	}
	return nil, nil
}

func (f *file) roots() []*x509.Certificate {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := f.clock.Now(); now.Sub(f.looked) >= lookEvery {
		f.looked = now
		_ = f.files.Look(context.Background()) // report logs the error
	}
	return f.certs
}

func (f *file) use(_ context.Context, contents filewatch.Contents) error {
	certs, err := pki.ParseBundle(contents.Data[0])
	if err != nil {
		return fmt.Errorf("reading root certificates in %s: %w", f.path, err)
	}
	if f.certs != nil {
		klog.InfoS("Root certificates have changed", "file", f.path, "certificates", len(certs))
	}
	f.certs = certs
	return nil
}

func (f *file) report(_ context.Context, failure error) {
	if failure != nil {
		klog.ErrorS(failure, "Cannot use the root certificates that are in the file now; the previous ones stay in use", "file", f.path)
	}
}
