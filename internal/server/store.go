package server

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/datadir"
	"github.com/certplane/certplane/internal/etcd"
)

// store is where the objects are: an etcd inside this process or an external
// one.
type store struct {
	backend apiserver.Storage
	// embedded is nil when the etcd is an external one.
	embedded *etcd.Server
}

// remoteTimeout is how long an external etcd may take to answer at start.
const remoteTimeout = 10 * time.Second

// startStore returns when the store answers.
func startStore(ctx context.Context, dir datadir.Dir, cfg EtcdConfig) (*store, error) {
	backend := apiserver.Storage{
		Servers:  cfg.Servers,
		Prefix:   cfg.Prefix,
		CAFile:   cfg.CAFile,
		CertFile: cfg.CertFile,
		KeyFile:  cfg.KeyFile,
		Shared:   len(cfg.Servers) > 0,
	}
	if len(cfg.Servers) > 0 {
		return &store{backend: backend}, checkRemote(ctx, cfg)
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	embedded, err := etcd.Start(ctx, etcd.Config{Dir: dir.Etcd()})
	if err != nil {
		return nil, storeError(err)
	}
	backend.Servers, backend.Connect = []string{embedded.Endpoint()}, embedded.Connect
	return &store{backend: backend, embedded: embedded}, nil
}

// checkRemote makes a wrong address or certificate an error at once, not a
// server that never gets ready.
func checkRemote(ctx context.Context, cfg EtcdConfig) error {
	ctx, cancel := context.WithTimeout(ctx, remoteTimeout)
	defer cancel()
	remote := etcd.Remote{Servers: cfg.Servers, CAFile: cfg.CAFile, CertFile: cfg.CertFile, KeyFile: cfg.KeyFile}
	if err := remote.Check(ctx); err != nil {
		return fmt.Errorf("%w; check etcd.servers and its certificate files (--etcd-servers, --etcd-cafile, --etcd-certfile, --etcd-keyfile)", err)
	}
	return nil
}

// failed delivers the error after which the store cannot go on. An external
// store can always come back.
func (s *store) failed() <-chan error {
	if s.embedded == nil {
		return nil
	}
	return s.embedded.Failed()
}

// storeError adds what to do. What was acknowledged is on disk already.
func storeError(err error) error {
	if errors.Is(err, syscall.ENOSPC) {
		return fmt.Errorf("storing objects: %w; free space on the disk of the data directory and start again, nothing acknowledged is lost", err)
	}
	return fmt.Errorf("storing objects: %w", err)
}

func (s *store) stop() {
	if s.embedded != nil {
		s.embedded.Stop()
	}
}
