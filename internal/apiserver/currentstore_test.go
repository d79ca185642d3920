package apiserver

import (
	"context"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	genericapirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
)

// countingStore counts reads of the store behind a cache, and can pretend that the
// cache is behind.
type countingStore struct {
	storage.Interface
	past   int
	behind bool
}

func (s *countingStore) Get(ctx context.Context, key string, options storage.GetOptions, out runtime.Object) error {
	if options.ResourceVersion == "" {
		s.past++
	} else if s.behind {
		return storage.NewTooLargeResourceVersionError(2, 1, 1)
	}
	return s.Interface.Get(ctx, key, options, out)
}

// A read sees what was written before it, though it does not read the store.
func TestReadsAreCurrent(t *testing.T) {
	cached, _ := openCachedRequests(t)
	counting := &countingStore{Interface: cached}
	stores := &currentStores{}
	store := stores.wrap(certificatesv1.Resource("certificatesigningrequests"), counting)
	reading := genericapirequest.WithRequestInfo(t.Context(), &genericapirequest.RequestInfo{IsResourceRequest: true, Verb: "get"})
	const key = "/csr/a"
	read := func(by storage.Interface) (string, error) {
		csr := &certificatesv1.CertificateSigningRequest{}
		err := by.Get(reading, key, storage.GetOptions{}, csr)
		return csr.Labels["n"], err
	}
	change := func(n string) {
		t.Helper()
		err := store.GuaranteedUpdate(t.Context(), key, &certificatesv1.CertificateSigningRequest{}, false, nil, storage.SimpleUpdate(func(object runtime.Object) (runtime.Object, error) {
			object.(*certificatesv1.CertificateSigningRequest).Labels = map[string]string{"n": n}
			return object, nil
		}), nil)
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		created := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"n": "0"}}}
		if err := store.Create(t.Context(), key, created, &certificatesv1.CertificateSigningRequest{}, 0); err != nil {
			t.Fatal(err)
		}
		if n, err := read(store); n != "0" || err != nil {
			t.Fatalf("after the creation: %q, %v", n, err)
		}
		change("1")
		if n, err := read(store); n != "1" || err != nil {
			t.Fatalf("after a change: %q, %v", n, err)
		}
		// Another store of the same resource, of another version of its kind.
		change("2")
		if n, err := read(stores.wrap(certificatesv1.Resource("certificatesigningrequests"), counting)); n != "2" || err != nil {
			t.Fatalf("by another store, after a change: %q, %v", n, err)
		}
		if err := store.Delete(t.Context(), key, &certificatesv1.CertificateSigningRequest{}, nil, storage.ValidateAllObjectFunc, nil, storage.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := read(store); !storage.IsNotFound(err) {
			t.Fatalf("after the deletion: %v", err)
		}
	}
	if counting.past > 0 {
		t.Errorf("%d reads of the store", counting.past)
	}
	counting.behind = true
	if _, err := read(store); !storage.IsNotFound(err) || counting.past != 1 {
		t.Errorf("while the cache is behind: %v, %d reads of the store", err, counting.past)
	}
}
