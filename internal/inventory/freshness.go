package inventory

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/metadata"

	"github.com/certplane/certplane/internal/revocation"
)

// askEvery is how often the store is asked at least whether the watch has all changes.
const askEvery = time.Second

// freshness is how far the revocations in memory are behind those in the store. It is safe
// for concurrent use.
type freshness struct {
	now  func() time.Time // with a monotonic reading, so that a changed clock does not matter
	last atomic.Pointer[time.Time]
	// read is closed when the revocations were read once.
	read    chan struct{}
	hasRead func()
}

func newFreshness(now func() time.Time) *freshness {
	f := &freshness{now: now, read: make(chan struct{})}
	f.hasRead = sync.OnceFunc(func() { close(f.read) })
	begin := now()
	f.last.Store(&begin)
	return f
}

// progressed notes that the revocations in memory are those in the store.
func (f *freshness) progressed() {
	now := f.now()
	f.last.Store(&now)
	f.hasRead()
}

// Age returns the time since Revoked last had everything that is in the store.
func (f *freshness) Age() time.Duration { return f.now().Sub(*f.last.Load()) }

// AwaitRevoked returns when the revocations were read once, so that Revoked is complete.
func (f *freshness) AwaitRevoked(ctx context.Context) error {
	select {
	case <-f.read:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the revocations to be read: %w", ctx.Err())
	}
}

// showRevoked keeps the metrics about revocations up to date, until ctx ends.
func (f *freshness) showRevoked(ctx context.Context, m *metrics, index *revocation.Index) {
	for ctx.Err() == nil {
		m.revoked.Set(float64(index.Len()))
		m.indexAge.Set(f.Age().Seconds())
		pause(ctx, askEvery)
	}
}

// ownStream returns a context whose watches have a separate stream: etcd reports the
// progress of all watches of a stream, or of none.
func ownStream(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "certplane-watch", "inventory")
}

// askProgress asks the store again and again, and at once for each value of now, to say in the
// watches of ctx that they have all changes, until ctx ends. A store that has none to tell would
// otherwise look like one that cannot be reached.
func askProgress(ctx context.Context, store *clientv3.Client, now <-chan struct{}) {
	again := time.NewTicker(askEvery)
	defer again.Stop()
	for ctx.Err() == nil {
		_ = store.RequestProgress(ctx) // the watch reports errors
		select {
		case <-ctx.Done():
		case <-again.C:
		case <-now:
		}
	}
}
