package apiserver

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/internal/inprocess/issueoncreate"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/etcd"
)

// oneByOne is a store in which each key can be made once.
type oneByOne struct {
	storage.Interface
	mu   sync.Mutex
	made map[string]bool
}

func (o *oneByOne) Get(_ context.Context, key string, _ storage.GetOptions, _ runtime.Object) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.made[key] {
		return storage.NewKeyNotFoundError(key, 0)
	}
	return nil
}

func (o *oneByOne) Create(_ context.Context, key string, obj, out runtime.Object, _ uint64) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.made[key] {
		return storage.NewKeyExistsError(key, 0)
	}
	o.made[key] = true
	obj.(*certificatesv1.CertificateSigningRequest).DeepCopyInto(out.(*certificatesv1.CertificateSigningRequest))
	return nil
}

// Of several requests of one name at once, one is answered, so that no certificate is
// signed in vain.
func TestOneNameIsAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		resource := certificatesv1.Resource("certificatesigningrequests")
		var answered atomic.Int32
		hub := &issueoncreate.Hub{}
		defer hub.Add(issueoncreate.Step{
			Resource: resource, Role: issueoncreate.Sign, Takes: func(client.Object) bool { return true },
			Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
				answered.Add(1)
				time.Sleep(time.Second) // as long as a signature takes
				return reconcile.Result{}, nil
			}),
		})()
		answering := &onCreate{OnCreate: OnCreate{Hub: hub}, kinds: map[schema.GroupResource]answeredKind{resource: {form: hubForm{}}}}
		store := answering.wrap(resource, &oneByOne{made: map[string]bool{}})
		var made atomic.Int32
		var all sync.WaitGroup
		for _, name := range []string{"a", "a", "a", "a", "b"} {
			all.Go(func() {
				csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}}
				if store.Create(t.Context(), "/"+name, csr, &certificatesv1.CertificateSigningRequest{}, 0) == nil {
					made.Add(1)
				}
			})
		}
		all.Wait()
		if answered.Load() != 2 || made.Load() != 2 {
			t.Errorf("%d requests were answered, and %d made: want one of each name", answered.Load(), made.Load())
		}
	})
}

// newRecords returns an inventory, and a client of its store.
func newRecords(t *testing.T) (*inventory.Inventory, *clientv3.Client) {
	t.Helper()
	server, err := etcd.Start(t.Context(), etcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	kv := server.Connect()
	t.Cleanup(func() { kv.Close() })
	records, err := inventory.New(inventory.Config{
		Store: kv, Prefix: "/registry", Now: time.Now,
		Get: func(ctx context.Context, key string) (*mvccpb.KeyValue, error) { return server.Get(ctx, key) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return records, kv
}

// A certificate whose request is not stored, because another server has taken its name, has
// a record nevertheless.
func TestLostCertificatesAreRecorded(t *testing.T) {
	records, _ := newRecords(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); records.Run(ctx) }()
	defer func() { cancel(); <-ended }()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, "web", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}, Status: certificatesv1.CertificateSigningRequestStatus{Certificate: pki.EncodeCertificates(root.Certificate())},
	}
	for _, together := range []bool{true, false} {
		recording := &recording{records: records, clock: clock.RealClock{}, together: together}
		store := recording.wrap(certificatesv1.Resource("certificatesigningrequests"), &oneByOne{made: map[string]bool{"/a": true}})
		if err := store.Create(t.Context(), "/a", csr, &certificatesv1.CertificateSigningRequest{}, 0); !storage.IsExist(err) {
			t.Fatalf("together %v: %v", together, err)
		}
		if known, err := records.Has(t.Context(), root.Certificate()); err != nil || !known {
			t.Errorf("together %v: recorded %v, %v", together, known, err)
		}
	}
}
