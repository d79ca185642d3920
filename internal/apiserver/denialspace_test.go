package apiserver

import (
	"context"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/internal/store/storespace"
	"github.com/certplane/certplane/internal/tenant"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// scarceStore is more than half full.
type scarceStore struct{ storespace.Store }

func (scarceStore) Read(context.Context) (storespace.Reading, error) {
	return storespace.Reading{Size: 40 << 20, InUse: 40 << 20, Limit: 80 << 20, Revision: 1}, nil
}

// oneStored is a store that has one request.
type oneStored struct {
	storage.Interface
	request *certificatesv1.CertificateSigningRequest
}

func (o oneStored) GuaranteedUpdate(_ context.Context, _ string, _ runtime.Object, _ bool, _ *storage.Preconditions, tryUpdate storage.UpdateFunc, _ runtime.Object) error {
	_, _, err := tryUpdate(o.request.DeepCopy(), storage.ResponseMeta{ResourceVersion: 1})
	return err
}

// A request whose tenant has its share can be denied, with a record, though other changes of
// this size are refused.
func TestDenialAtTheShare(t *testing.T) {
	records, kv := newRecords(t)
	csr := &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}, Spec: certificatesv1.CertificateSigningRequestSpec{Username: "alice", SignerName: "example.com/web"},
	}
	if _, err := kv.Put(t.Context(), "/registry/objects", "of alice"); err != nil {
		t.Fatal(err)
	}
	space, err := storespace.New(storespace.Config{
		Store: scarceStore{}, KV: kv, Prefix: "/registry/", Quota: 64 << 20, PercentPerTenant: 25,
		Owner: func(_ string, _ []byte, charge func(fairshare.Tenant, int64)) { charge(tenant.OfObject(csr), 16<<20) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := space.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	resource := certificatesv1.Resource("certificatesigningrequests")
	for _, together := range []bool{true, false} {
		recording := &recording{records: records, clock: clock.RealClock{}, together: together, space: space}
		store := recording.wrap(resource, newSpacedStore(resource, oneStored{request: csr}, space))
		decide := func(kind certificatesv1.RequestConditionType) error {
			return store.GuaranteedUpdate(t.Context(), "/a", &certificatesv1.CertificateSigningRequest{}, false, nil, func(stored runtime.Object, _ storage.ResponseMeta) (runtime.Object, *uint64, error) {
				updated := stored.(*certificatesv1.CertificateSigningRequest)
				updated.Status.Conditions = append(updated.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
					Type: kind, Status: corev1.ConditionTrue, Message: strings.Repeat("x", 2<<10),
				})
				return updated, nil, nil
			}, nil)
		}
		if err := decide(certificatesv1.CertificateFailed); err == nil || !strings.Contains(err.Error(), "share") {
			t.Errorf("together %v: another write: %v", together, err)
		}
		if err := decide(certificatesv1.CertificateDenied); err != nil {
			t.Errorf("together %v: the denial: %v", together, err)
		}
	}
	// oneStored writes nothing: the record is that of the store that takes it afterwards.
	stored, err := kv.Get(t.Context(), "/registry/inventory.certplane.dev/issuedcertificates/", clientv3.WithPrefix())
	if err != nil || len(stored.Kvs) != 1 || !strings.Contains(string(stored.Kvs[0].Value), "user/alice") {
		t.Errorf("the records are %v: %v", stored, err)
	}
}
