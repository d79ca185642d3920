package server

import (
	"context"
	"fmt"

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

func startStore(ctx context.Context, dir datadir.Dir, cfg EtcdConfig) (*store, error) {
	backend := apiserver.Storage{
		Servers:  cfg.Servers,
		Prefix:   cfg.Prefix,
		CAFile:   cfg.CAFile,
		CertFile: cfg.CertFile,
		KeyFile:  cfg.KeyFile,
	}
	if len(cfg.Servers) > 0 {
		return &store{backend: backend}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	embedded, err := etcd.Start(ctx, etcd.Config{Dir: dir.Etcd()})
	if err != nil {
		return nil, err
	}
	backend.Servers = []string{embedded.Endpoint()}
	return &store{backend: backend, embedded: embedded}, nil
}

// watch returns when ctx ends or the embedded store cannot go on.
func (s *store) watch(ctx context.Context) error {
	if s.embedded == nil {
		return nil
	}
	select {
	case err := <-s.embedded.Failed():
		return fmt.Errorf("storing objects: %w", err)
	case <-ctx.Done():
		return nil
	}
}

func (s *store) stop() {
	if s.embedded != nil {
		s.embedded.Stop()
	}
}
