package etcd

import (
	"errors"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// TestGet writes until the disk is busy: a read after an event of a watch must see
// what the event told, however soon it comes.
func TestGet(t *testing.T) {
	s, err := Start(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Stop()
	client := s.Connect()
	defer client.Close()
	if got, err := s.Get(t.Context(), "missing"); got != nil || err != nil {
		t.Errorf("a missing key is %v, %v", got, err)
	}

	const writes = 2000
	events := client.Watch(t.Context(), "key")
	failed := make(chan error, 1)
	go func() {
		value := strings.Repeat("x", 4096)
		for range writes {
			if _, err := client.Put(t.Context(), "key", value); err != nil {
				failed <- err
				return
			}
		}
		_, err := client.Delete(t.Context(), "key")
		failed <- err
	}()
	var last *clientv3.Event
	for last == nil || last.Type != clientv3.EventTypeDelete {
		select {
		case err := <-failed:
			if err != nil {
				t.Fatal(err)
			}
			failed = nil
		case answer := <-events:
			if err := answer.Err(); err != nil {
				t.Fatal(err)
			}
			last = answer.Events[len(answer.Events)-1]
			got, revision, err := s.ReadKey(t.Context(), "key")
			if err != nil {
				t.Fatal(err)
			}
			if revision < last.Kv.ModRevision {
				t.Fatalf("the store is at revision %d after an event of revision %d", revision, last.Kv.ModRevision)
			}
			if got != nil && got.ModRevision < last.Kv.ModRevision {
				t.Fatalf("revision %d after an event of revision %d", got.ModRevision, last.Kv.ModRevision)
			}
		}
	}
	if got, err := s.Get(t.Context(), "key"); got != nil || err != nil {
		t.Errorf("a deleted key is %v, %v", got, err)
	}

	s.Stop()
	if _, err := s.Get(t.Context(), "key"); !errors.Is(err, errStopped) {
		t.Errorf("error %v of a stopped store", err)
	}
}
