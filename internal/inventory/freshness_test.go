package inventory

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/certplane/certplane/internal/api/inventory"
	"github.com/certplane/certplane/internal/store/etcd"
)

// silent is a store that tells nothing about progress, as if the connection were cut.
type silent struct{ clientv3.Watcher }

func (silent) RequestProgress(context.Context) error { return nil }

func TestAge(t *testing.T) {
	w := newWorld(t)
	cut := w.openWith(func(client *clientv3.Client) { client.Watcher = silent{client.Watcher} })
	for _, i := range []*Inventory{w.Inventory, cut} {
		if err := i.AwaitRevoked(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Its first progress is known, so that no later one comes from before the jump.
		if err := i.AwaitRead(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// A watch of changes that are still to come does not hold up the progress.
	go func() { _ = w.Watch(ctx, 1<<40, func(Event) bool { return true }) }()
	for n := range 3 {
		w.mu.Lock()
		w.now = w.now.Add(20 * time.Second)
		w.mu.Unlock()
		for w.Age() > 0 { // progress of a store without changes
			if pause(ctx, 10*time.Millisecond); ctx.Err() != nil {
				t.Fatal("the age does not fall")
			}
		}
		if age, want := cut.Age(), time.Duration(n+1)*20*time.Second; age != want {
			t.Errorf("without progress for %s, the age is %s", want, age)
		}
	}
}

// A store with other keys that cannot be read does not keep revocations from being known.
func TestRevocationsAreReadFirst(t *testing.T) {
	store, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	w := &world{T: t, store: store, now: start}
	client := store.Connect()
	defer client.Close()
	if _, err := client.Put(t.Context(), "/registry/inventory.certplane.dev/packs/000001/1", "damaged"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := w.open().AwaitRevoked(ctx); err != nil {
		t.Error(err)
	}
}

// late is a store whose watches tell a change only after they were asked for their progress.
type late struct {
	clientv3.Watcher
	asked chan struct{}
}

func (l late) Watch(ctx context.Context, key string, options ...clientv3.OpOption) clientv3.WatchChan {
	told := make(chan clientv3.WatchResponse)
	go func() {
		defer close(told)
		for answer := range l.Watcher.Watch(ctx, key, options...) {
			if len(answer.Events) > 0 {
				select {
				case <-l.asked:
				case <-ctx.Done():
					return
				}
			}
			select {
			case told <- answer:
			case <-ctx.Done():
				return
			}
		}
	}()
	return told
}

func (l late) RequestProgress(ctx context.Context) error {
	select {
	case l.asked <- struct{}{}:
	default:
	}
	return l.Watcher.RequestProgress(ctx)
}

// A client that knows a certificate from another server finds its record.
func TestFindStored(t *testing.T) {
	w := newWorld(t)
	behind := w.openWith(func(client *clientv3.Client) { client.Watcher = late{client.Watcher, make(chan struct{})} })
	if err := behind.AwaitRead(t.Context()); err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		r := record(n, 30)
		w.write(r)
		// Other keys do not matter: no watch of records tells them.
		if _, err := w.Store.Put(t.Context(), "/registry/other", fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]int{r.Name: 1, "unknown": 0} {
			page, err := behind.FindStored(t.Context(), &Query{Fields: fields.OneTermEqualSelector(inventory.NameOfRecord, name), Limit: 10})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.Items) != want {
				t.Errorf("after record %d: %d records have the name %s, want %d", n, len(page.Items), name, want)
			}
		}
	}
}

// A store that does not tell whether a watch has all changes makes no record be unknown.
func TestFindStoredWithoutNews(t *testing.T) {
	w := newWorld(t)
	i, err := New(w.Config) // it does not follow changes
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.readAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.write(record(1, 1))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := i.FindStored(ctx, &Query{Limit: 1}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v", err)
	}
}
