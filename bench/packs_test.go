package main

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	recordsv1alpha1 "github.com/certplane/certplane/api/records/v1alpha1"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/generated/crds"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/run/server"
)

var packRecords = flag.Int("pack-records", 2000, "How many records of a cluster TestPacks makes; the goals are for 160000.")

// afar delays and counts the calls of a client: a user is 20 ms away from the API server, the
// controllers are beside it.
type afar struct {
	next          http.RoundTripper
	away          time.Duration
	calls, writes atomic.Int64
}

// RoundTrip implements http.RoundTripper.
func (a *afar) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(a.away)
	a.calls.Add(1)
	if r.Method != http.MethodGet {
		a.writes.Add(1)
	}
	return a.next.RoundTrip(r)
}

// connect returns a client that is some time away.
func connect(t *testing.T, cfg *rest.Config, away time.Duration) (client.Client, *afar) {
	t.Helper()
	kinds := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{recordsv1alpha1.AddToScheme, inventoryv1alpha1.AddToScheme, corev1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	a := &afar{away: away}
	cfg = rest.CopyConfig(cfg)
	cfg.QPS = -1 // no limit
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		a.next = next
		return a
	})
	c, err := client.New(cfg, client.Options{Scheme: kinds})
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

// TestPacks measures the inventory of a cluster: bytes and memory of records, time and writes of one
// more, one by one and many at once, and searches from afar. Its times are only printed: they depend
// on the machine.
func TestPacks(t *testing.T) {
	s := apitest.Start(t, func(c *server.Config) { c.Controllers = []string{} })
	definitions, err := crdclient.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	text, err := crds.Read("certificatepacks.records.certplane.dev")
	if err != nil {
		t.Fatal(err)
	}
	definition := &apiextensionsv1.CustomResourceDefinition{}
	if err := k8sruntime.DefaultUnstructuredConverter.FromUnstructured(text.Object, definition); err != nil {
		t.Fatal(err)
	}
	apitest.Define(t, definitions, definition)
	namespace := apitest.OwnNamespace(t, apitest.Client(t, s.Admin(t)))

	api, beside := connect(t, s.Admin(t), 0)
	open := func(api client.Client) *inventory.Packs {
		packs, err := inventory.NewPacks(inventory.PacksConfig{Client: api, Namespace: namespace, Keep: 7 * day, MaxBytes: 1 << 30, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		return packs
	}
	records, to := newRecords(*packRecords), open(api)
	records.signer = "clusterissuers.cert-manager.io/ca"
	batch := func(from, until int) (all []*inventory.Record) {
		for i := from; i < until; i++ {
			all = append(all, records.record(i))
		}
		return all
	}
	for i := 0; i < records.count; i += recordsPerWrite {
		if err := to.Write(t.Context(), batch(i, min(records.count, i+recordsPerWrite))...); err != nil {
			t.Fatal(err)
		}
	}
	stored := &recordsv1alpha1.CertificatePackList{}
	if err := api.List(t.Context(), stored, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	var bytes int
	for _, pack := range stored.Items {
		data, err := json.Marshal(pack)
		if err != nil {
			t.Fatal(err)
		}
		bytes += len(data)
	}
	t.Logf("%d records in %d packs: %.1f MiB, %d bytes each", records.count, len(stored.Items), float64(bytes)/(1<<20), bytes/records.count)
	stored = nil

	before := heap()
	read := open(api)
	if err := read.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("memory of the index: %.1f MB", heap()-before)

	one := func(parties, each int) {
		beside.writes.Store(0)
		var mu sync.Mutex
		var took []time.Duration
		var all sync.WaitGroup
		for p := range parties {
			more := batch(p*each, (p+1)*each) // others: fingerprints are random
			all.Go(func() {
				for _, record := range more {
					began := time.Now()
					if err := read.Write(t.Context(), record); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
				}
			})
		}
		all.Wait()
		p50, p99 := percentiles(took)
		t.Logf("%d certificates, %d at a time: the record takes %.1f ms in the median, %.1f ms p99; %.3f writes each", len(took), parties, p50, p99, float64(beside.writes.Load())/float64(len(took)))
	}
	one(1, 100)
	one(64, 16)
	runtime.KeepAlive(read)

	user, away := connect(t, s.Admin(t), 20*time.Millisecond)
	var first, next []time.Duration
	for n := range 20 {
		search := inventory.Search(withoutRecords{user}, namespace, time.Now)
		for _, took := range []*[]time.Duration{&first, &next} {
			away.calls.Store(0)
			began, list := time.Now(), &inventoryv1alpha1.IssuedCertificateList{}
			name := fields.OneTermEqualSelector(inventoryv1alpha1.NameField, records.host(n*records.count/20))
			if err := search.List(t.Context(), list, client.MatchingFieldsSelector{Selector: name}); err != nil || len(list.Items) < certificatesPerHost {
				t.Fatalf("found %d records, %v", len(list.Items), err)
			}
			*took = append(*took, time.Since(began))
		}
	}
	slices.Sort(first)
	slices.Sort(next)
	t.Logf("search by name, 20 ms away: %s in the median, %s at most; the next one with the same heads %s, %s", first[10], first[19], next[10], next[19])
}

// withoutRecords is a client of an API that serves no inventory, as in a cluster.
type withoutRecords struct{ client.Client }

// List implements client.Reader.
func (c withoutRecords) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*inventoryv1alpha1.IssuedCertificateList); ok {
		return &meta.NoKindMatchError{}
	}
	return c.Client.List(ctx, list, options...)
}

// heap returns the memory of the process that is in use, in MB.
func heap() float64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc) / 1e6
}
