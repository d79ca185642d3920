package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcddir "go.etcd.io/etcd/server/v3/storage/datadir"

	"github.com/certplane/certplane/internal/store/storespace"
)

// fileSize returns the size of the database of the store in dir, which need not
// exist.
func fileSize(dir string) (int64, error) {
	file, err := os.Stat(etcddir.ToBackendFileName(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("looking at the size of the store: %w", err)
	}
	return file.Size(), nil
}

var _ storespace.Store = (*Server)(nil)

// Read returns how full the store is at this moment.
func (s *Server) Read(context.Context) (storespace.Reading, error) {
	db := s.member.Server.Backend()
	db.ForceCommit() // uncommitted writes are not counted
	r := storespace.Reading{Size: db.Size(), InUse: db.SizeInUse(), Limit: s.limit, Revision: s.member.Server.KV().Rev()}
	if free, known := diskFree(s.member.Config().Dir); known {
		r.DiskFree = &free
	}
	for _, alarm := range s.member.Server.Alarms() {
		r.Full = r.Full || alarm.Alarm == etcdserverpb.AlarmType_NOSPACE
	}
	return r, nil
}

// Compact removes the versions of keys that were replaced or deleted before
// revision.
func (s *Server) Compact(ctx context.Context, revision int64) error {
	client := s.Connect()
	defer client.Close()
	return compact(ctx, client, revision)
}

// Reclaim reduces the database file to the size of its content. It takes about a second for
// each 100 MiB. Reads and writes wait during that time.
func (s *Server) Reclaim(context.Context) error {
	if err := s.member.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragmenting the store: %w", err)
	}
	return nil
}

// Disarm ends etcd's refusal to write.
func (s *Server) Disarm(ctx context.Context) error {
	client := s.Connect()
	defer client.Close()
	return disarm(ctx, client)
}

// remoteLimit is the limit of an etcd that does not report one (its
// --quota-backend-bytes is 0).
const remoteLimit = 2 << 30

// statusTimeout bounds a member's answer about its size.
const statusTimeout = 2 * time.Second

// Store returns the etcd of client as a store whose space is watched. It can
// have other users: its operator decides when its members are defragmented.
func (r Remote) Store(client *clientv3.Client) storespace.Store {
	return remoteStore{r.Servers, client}
}

type remoteStore struct {
	servers []string
	client  *clientv3.Client
}

// Read returns how full the fullest member is.
func (r remoteStore) Read(ctx context.Context) (storespace.Reading, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answers := make([]*clientv3.StatusResponse, len(r.servers))
	failures := make([]error, len(r.servers))
	var asking sync.WaitGroup
	for i, server := range r.servers {
		asking.Go(func() { answers[i], failures[i] = r.client.Status(ctx, server) })
	}
	asking.Wait()
	var fullest storespace.Reading
	answered := false
	for _, status := range answers {
		if status == nil {
			continue
		}
		answered = true
		fullest.Size, fullest.InUse = max(fullest.Size, status.DbSize), max(fullest.InUse, status.DbSizeInUse)
		for _, problem := range status.Errors { // which are its alarms, and that it has no leader
			fullest.Full = fullest.Full || strings.Contains(problem, etcdserverpb.AlarmType_NOSPACE.String())
		}
		fullest.Revision = max(fullest.Revision, status.Header.Revision)
		if limit := status.DbSizeQuota; limit > 0 && (fullest.Limit == 0 || limit < fullest.Limit) {
			fullest.Limit = limit
		}
	}
	if !answered {
		return storespace.Reading{}, fmt.Errorf("asking etcd how full it is: %w", errors.Join(failures...))
	}
	fullest.Limit = cmp.Or(fullest.Limit, remoteLimit)
	return fullest, nil
}

func (r remoteStore) Compact(ctx context.Context, revision int64) error {
	return compact(ctx, r.client, revision)
}

func (remoteStore) Reclaim(context.Context) error      { return errors.ErrUnsupported }
func (r remoteStore) Disarm(ctx context.Context) error { return disarm(ctx, r.client) }

func disarm(ctx context.Context, client *clientv3.Client) error {
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("disarming the alarm of the store: %w", err)
	}
	return nil
}

func compact(ctx context.Context, client *clientv3.Client, revision int64) error {
	_, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compacting the store: %w", err)
	}
	return nil
}
