package etcd

import (
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
)

// Space is how full a store is, in bytes.
type Space struct {
	// Size is that of the database file. It never shrinks by itself.
	Size int64
	// InUse is the part of it that holds data. The rest is reused first.
	InUse int64
	// Limit is the size beyond which etcd refuses to write; 0 if it does not say.
	Limit int64
	// Full says that etcd refuses to write. It does so until its alarm NOSPACE is
	// disarmed.
	Full bool
	// Revision is the latest one.
	Revision int64
}

// limitFor returns etcd's own limit for a store in which at most quota bytes
// are to be in use. The file must be larger: removed objects leave holes, which
// do not always have the size of new ones. There is always room to start and to
// delete, also in a store that has more in use.
func limitFor(dir string, quota int64) (int64, error) {
	size := int64(0)
	file, err := os.Stat(etcddir.ToBackendFileName(dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("looking at the size of the store: %w", err)
	}
	if err == nil {
		size = file.Size()
	}
	return max(2*quota, size) + max(quota/8, 16<<20), nil
}

// Space returns how full the store is at this moment.
func (s *Server) Space() Space {
	db := s.member.Server.Backend()
	db.ForceCommit() // what is not committed is not counted
	space := Space{Size: db.Size(), InUse: db.SizeInUse(), Limit: s.limit, Revision: s.member.Server.KV().Rev()}
	for _, alarm := range s.member.Server.Alarms() {
		space.Full = space.Full || alarm.Alarm == etcdserverpb.AlarmType_NOSPACE
	}
	return space
}

// Compact removes the versions of keys that were replaced or deleted before
// revision.
func (s *Server) Compact(ctx context.Context, revision int64) error {
	client := s.Connect()
	defer client.Close()
	return Compact(ctx, client, revision)
}

// Reclaim reduces the database file to the size of its content. It takes about
// a second for each 100 MiB. Meanwhile, nothing can be read or written.
func (s *Server) Reclaim() error {
	if err := s.member.Server.Backend().Defrag(); err != nil {
		return fmt.Errorf("defragmenting the store: %w", err)
	}
	return nil
}

// Disarm ends etcd's refusal to write.
func (s *Server) Disarm(ctx context.Context) error {
	client := s.Connect()
	defer client.Close()
	return Disarm(ctx, client)
}

// Disarm ends etcd's refusal to write.
func Disarm(ctx context.Context, client *clientv3.Client) error {
	if _, err := client.AlarmDisarm(ctx, &clientv3.AlarmMember{}); err != nil {
		return fmt.Errorf("disarming the alarm of the store: %w", err)
	}
	return nil
}

// Space returns how full the fullest member is.
func (r Remote) Space(ctx context.Context, client *clientv3.Client) (Space, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	answers := make([]*clientv3.StatusResponse, len(r.Servers))
	failures := make([]error, len(r.Servers))
	var asking sync.WaitGroup
	for i, server := range r.Servers {
		asking.Go(func() { answers[i], failures[i] = client.Status(ctx, server) })
	}
	asking.Wait()
	var fullest Space
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
		return Space{}, fmt.Errorf("asking etcd how full it is: %w", errors.Join(failures...))
	}
	return fullest, nil
}

// statusTimeout is how long a member may take to say how full it is.
const statusTimeout = 2 * time.Second

// Compact removes the versions of keys that were replaced or deleted before
// revision.
func Compact(ctx context.Context, client *clientv3.Client, revision int64) error {
	_, err := client.Compact(ctx, revision, clientv3.WithCompactPhysical())
	if err != nil && !errors.Is(err, rpctypes.ErrCompacted) {
		return fmt.Errorf("compacting the store: %w", err)
	}
	return nil
}
