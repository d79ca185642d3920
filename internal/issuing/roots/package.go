package roots

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/filewatch"
	"github.com/certplane/certplane/internal/process/notify"
)

// caPackage is a package of public CAs in trust-manager's format. Bundle is PEM.
type caPackage struct{ Name, Version, Bundle string }

// Current returns the identity of the content as in the status of Bundles, and the CAs in PEM.
func (p *Package) Current() (id, pem string) {
	now := p.now.Load()
	digest := sha256.Sum256([]byte(now.Bundle))
	return fmt.Sprintf("%s-%s-%x", now.Name, now.Version, digest[:8]), now.Bundle
}

// Run follows the file until ctx ends.
func (p *Package) Run(ctx context.Context, now clock.WithTicker) { p.files.Run(ctx, now, lookEvery) }

// Package is the package of public CAs in a file. It is safe for concurrent use.
type Package struct {
	// Changed is told of each new content.
	Changed notify.List[struct{}]

	files filewatch.Files
	now   atomic.Pointer[caPackage]
}

// OpenPackage reads a package. Without a path, there is none, and it returns nil.
func OpenPackage(path string) (*Package, error) {
	if path == "" {
		return nil, nil
	}
	p := &Package{}
	p.files = filewatch.Files{Files: []filewatch.File{{Path: path, What: "reading the package of default CAs"}}, Use: p.use, Report: reportPackage}
	if err := p.files.Open(context.Background()); err != nil {
		return nil, fmt.Errorf("trustManager.defaultPackage: %w", err)
	}
	return p, nil
}

func reportPackage(ctx context.Context, failure error) {
	if failure != nil {
		klog.FromContext(ctx).Error(failure, "A changed package of default CAs is not used")
	}
}

// use takes a new content, unless it is invalid.
func (p *Package) use(_ context.Context, contents filewatch.Contents) error {
	read := &caPackage{}
	if err := json.NewDecoder(bytes.NewReader(contents.Data[0])).Decode(read); err != nil {
		return fmt.Errorf("parsing the package, which must be JSON: %w", err)
	}
	if read.Name == "" || read.Version == "" {
		return errors.New("the fields name and version of the package must not be empty")
	}
	if err := (&truststore.Set{}).AddPEM([]byte(read.Bundle)); err != nil {
		return fmt.Errorf("reading the field bundle of the package: %w", err)
	}
	p.now.Store(read)
	p.Changed.Tell(struct{}{})
	return nil
}
