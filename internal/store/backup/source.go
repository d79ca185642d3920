package backup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/etcd"
)

// Source is the server that is saved. It need not run.
type Source struct {
	// Dir is its data directory.
	Dir datadir.Dir
	// External is its etcd if that is not inside the server.
	External *etcd.Remote
	// Prefix is the root of the store's keys.
	Prefix string
}

// openTimeout bounds how long a store may take to answer, or to be opened.
const openTimeout = time.Minute

// open returns a client of the store. close closes the client and stops everything that was
// started for it.
func (s Source) open(ctx context.Context) (client *clientv3.Client, close func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	if s.External != nil {
		return connect(ctx, *s.External)
	}
	if _, err := os.Stat(filepath.Join(s.Dir.Etcd(), "member")); err != nil {
		return nil, nil, fmt.Errorf("finding the store: %w: name the server's folder with --data-dir, or its etcd as the server does, with --config or --etcd-servers", err)
	}
	lock, err := s.Dir.TakeLock()
	if errors.Is(err, datadir.ErrInUse) {
		return s.connectRunning(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	store, err := etcd.Start(ctx, etcd.Config{Dir: s.Dir.Etcd()})
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	client = store.Connect()
	return client, func() {
		client.Close()
		store.Stop()
		lock.Close()
	}, nil
}

func (s Source) connectRunning(ctx context.Context) (*clientv3.Client, func(), error) {
	remote, err := etcd.Local(s.Dir.Etcd())
	if err != nil {
		return nil, nil, err
	}
	client, close, err := connect(ctx, remote)
	if err != nil {
		return nil, nil, fmt.Errorf("reaching the store of the server that runs on %s: %w; if it has just been started, try again; if it has an external etcd, name that as the server does, with --config or --etcd-servers", s.Dir, err)
	}
	return client, close, nil
}

func connect(ctx context.Context, remote etcd.Remote) (*clientv3.Client, func(), error) {
	if err := remote.Check(ctx); err != nil {
		return nil, nil, err
	}
	client, err := remote.Connect()
	if err != nil {
		return nil, nil, err
	}
	return client, func() { client.Close() }, nil
}
