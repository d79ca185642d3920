package inventory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/internal/revocation"
)

// ErrListConflict is the error if another server has signed a list meanwhile.
var ErrListConflict = errors.New("another server has signed a revocation list of the CA meanwhile")

// ListStore has the revocation lists, which Inventory.Run keeps up to date: with a list, the
// index has all entries that it covers. It is safe for concurrent use.
type ListStore struct {
	*revocation.Lists
	store  *clientv3.Client
	prefix string
	// revokedTo is the revision up to which the index is complete.
	revokedTo atomic.Int64
}

// RevokedTo returns the revision of the last act of which this process knows that the index
// has all earlier ones: acts that this process adds itself can overtake those of others.
func (s *ListStore) RevokedTo() int64 { return s.revokedTo.Load() }

// Put stores the list that a CA has signed, with its bytes. former is the revision of the
// stored list that it replaces; 0 if there is none. It is ErrListConflict if another list is
// stored: two servers never sign lists of the same number that both count.
func (s *ListStore) Put(ctx context.Context, id string, list *revocation.StoredList, der []byte, former int64) error {
	data, err := json.Marshal(list)
	if err != nil {
		return fmt.Errorf("encoding a revocation list: %w", err)
	}
	key := s.prefix + id
	unchanged := clientv3.Compare(clientv3.ModRevision(key), "=", former)
	answer, err := s.store.Txn(ctx).If(unchanged).Then(clientv3.OpPut(key, string(data))).Commit()
	if err != nil {
		return fmt.Errorf("storing a revocation list: %w", err)
	}
	if !answer.Succeeded {
		return ErrListConflict
	}
	s.Set(id, answer.Header.Revision, data, der)
	return nil
}

// Delete deletes the stored list of a CA that has ended.
func (s *ListStore) Delete(ctx context.Context, id string) error {
	if _, err := s.store.Delete(ctx, s.prefix+id); err != nil {
		return fmt.Errorf("deleting the revocation list of an ended CA: %w", err)
	}
	return nil
}

func (s *ListStore) apply(kind mvccpb.Event_EventType, id string, kv *mvccpb.KeyValue) {
	if kind == mvccpb.DELETE {
		s.Remove(id)
		return
	}
	s.Set(id, kv.ModRevision, kv.Value, nil)
}

func (s *ListStore) run(ctx context.Context) {
	s.Run(ctx, func(list *revocation.List) {
		log.FromContext(ctx).WithName("inventory").Error(list.Err, "Cannot build the revocation list that was signed last: this server serves the former one until another is signed",
			"list", list.ID, "number", list.Last.Number)
	})
}

// listGauges are the metrics of the lists that this server serves.
var listGauges = []struct {
	*prometheus.Desc
	value func(*revocation.StoredList) float64
}{
	{listDesc("this_update_seconds", "When the revocation list of a CA was signed, less five minutes, in seconds since 1970."), func(l *revocation.StoredList) float64 { return float64(l.ThisUpdate.Unix()) }},
	{listDesc("next_update_seconds", "When the revocation list of a CA ends, in seconds since 1970."), func(l *revocation.StoredList) float64 { return float64(l.NextUpdate.Unix()) }},
	{listDesc("entries", "Number of certificates on the revocation list of a CA."), func(l *revocation.StoredList) float64 { return float64(l.Entries) }},
	{listDesc("bytes", "Size of the revocation list of a CA."), func(l *revocation.StoredList) float64 { return float64(l.Size) }},
}

func listDesc(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("certplane_crl_"+name, help, []string{"ca"}, nil)
}

// listMetrics shows listGauges.
type listMetrics struct{ lists *revocation.Lists }

// Describe implements prometheus.Collector.
func (listMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, gauge := range listGauges {
		to <- gauge.Desc
	}
}

// Collect implements prometheus.Collector.
func (m listMetrics) Collect(to chan<- prometheus.Metric) {
	for _, list := range m.lists.All() {
		if list.Served == nil {
			continue
		}
		for _, gauge := range listGauges {
			to <- prometheus.MustNewConstMetric(gauge.Desc, prometheus.GaugeValue, gauge.value(list.Served), list.ID)
		}
	}
}

// show registers the metrics of the lists. Those of an earlier inventory in this process,
// as in tests, are replaced.
func (s *ListStore) show(registry prometheus.Registerer) error {
	if registry == nil {
		return nil
	}
	shown := listMetrics{s.Lists}
	registry.Unregister(shown)
	if err := registry.Register(shown); err != nil {
		return fmt.Errorf("registering the metrics of revocation lists: %w", err)
	}
	return nil
}
