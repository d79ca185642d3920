package apiserver

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/utils/clock"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/apiserver/extension/lean"
	"github.com/certplane/certplane/internal/apiserver/revoking"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/storespace"
)

// accepting is a store that accepts every object.
type accepting struct{ storage.Interface }

func (accepting) Create(context.Context, string, kruntime.Object, kruntime.Object, uint64) error {
	return nil
}

// revokingFixture creates Revocations in a store that accepts them.
type revokingFixture struct {
	records *inventory.Inventory
	revoker *revoking.Revoker
	root    *pki.Authority
	key     crypto.Signer
}

// newRevokingFixture returns one whose inventory has been read, and follows the store no more.
func newRevokingFixture(t *testing.T) *revokingFixture {
	t.Helper()
	records, _ := newRecords(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); records.Run(ctx) }()
	if err := records.AwaitRead(t.Context()); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-ended
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, "root", key, time.Hour, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	revoker := revoking.New(revoking.Config{
		Records: records, Authorizer: authorizerfactory.NewAlwaysAllowAuthorizer(), Clock: clock.RealClock{},
		CAs: func(context.Context) ([]revoking.CA, error) {
			return []revoking.CA{{Certificate: root.Certificate(), Signer: "example.com/root"}}, nil
		},
	})
	return &revokingFixture{records, revoker, root, key}
}

func (f *revokingFixture) issue(t *testing.T) *x509.Certificate {
	t.Helper()
	chain, err := f.root.Issue(pki.UnrecordedSigning, pki.Subject{CommonName: "web"}, f.key.Public(), pki.ClientUsages(), time.Minute, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return chain[0]
}

// revoke has alice revoke a certificate, with an annotation that takes this many bytes.
func (f *revokingFixture) revoke(t *testing.T, together bool, space *storespace.Space, cert *x509.Certificate, bytes int) (*lean.Object, error) {
	t.Helper()
	spec, err := json.Marshal(v1alpha1.RevocationSpec{Reason: "KeyCompromise", Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pki.EncodeCertificates(cert))}}})
	if err != nil {
		t.Fatal(err)
	}
	name := cert.SerialNumber.Text(16)
	object := &lean.Object{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uuid.NewUUID(), Annotations: map[string]string{"a": strings.Repeat("x", bytes)}}, Spec: lean.JSON(spec)}
	var under storage.Interface = accepting{}
	if space != nil {
		under = newSpacedStore(revoking.Resource, under, space)
	}
	store := (&recording{records: f.records, clock: clock.RealClock{}, together: together, revoker: f.revoker, space: space}).wrap(revoking.Resource, under)
	as := apirequest.WithUser(t.Context(), &user.DefaultInfo{Name: "alice", Groups: []string{"system:authenticated"}})
	return object, store.Create(as, "/"+name, object, &lean.Object{}, 0)
}

// A Revocation is in force when it is answered, also if the watch of the store is late.
func TestRevocationIsInForceWhenAnswered(t *testing.T) {
	f := newRevokingFixture(t)
	for _, together := range []bool{true, false} {
		cert := f.issue(t)
		object, err := f.revoke(t, together, nil, cert, 0)
		if err != nil {
			t.Fatalf("together %v: %v", together, err)
		}
		if _, revoked := f.records.Revoked().Certificate(cert); !revoked {
			t.Errorf("together %v: the certificate is not revoked yet", together)
		}
		if object.Status == "" {
			t.Errorf("together %v: the Revocation has no status", together)
		}
	}
}

// fullStore has its quota in use.
type fullStore struct{ storespace.Store }

func (fullStore) Read(context.Context) (storespace.Reading, error) {
	return storespace.Reading{Size: 65 << 20, InUse: 65 << 20, Limit: 80 << 20, Revision: 1}, nil
}

func (fullStore) Compact(context.Context, int64) error { return nil }

// Whoever may revoke can do so in a full store, in which only administrators can write
// otherwise, unless the object is large or revokes nothing.
func TestRevocationInFullStore(t *testing.T) {
	f := newRevokingFixture(t)
	space, err := storespace.New(storespace.Config{Store: fullStore{}, Quota: 64 << 20, PercentPerTenant: 25})
	if err != nil {
		t.Fatal(err)
	}
	if err := space.Recover(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, together := range []bool{true, false} {
		cert := f.issue(t)
		if _, err := f.revoke(t, together, space, cert, 10<<10); err != nil {
			t.Errorf("together %v: %v", together, err)
		}
		for reason, err := range map[string]error{
			"again": second(f.revoke(t, together, space, cert, 0)),
			"large": second(f.revoke(t, together, space, f.issue(t), 20<<10)),
		} {
			if err == nil || !strings.Contains(err.Error(), "the store is full") {
				t.Errorf("together %v, %s: %v, want that the store is full", together, reason, err)
			}
		}
	}
}

func second[T any](_ T, err error) error { return err }

// The store does not read a million records again that admission has read, and nothing of a
// request is kept afterwards.
func TestRevocationIsResolvedOnce(t *testing.T) {
	f := newRevokingFixture(t)
	object := &v1alpha1.Revocation{ObjectMeta: metav1.ObjectMeta{UID: uuid.NewUUID()}, Spec: v1alpha1.RevocationSpec{
		Reason: "KeyCompromise", Certificates: []v1alpha1.RevokedCertificate{{PEM: string(pki.EncodeCertificates(f.issue(t)))}},
	}}
	resolve := func(ctx context.Context) *revoking.Resolved {
		resolved, err := f.revoker.Resolve(ctx, &user.DefaultInfo{Name: "alice"}, object)
		if err != nil {
			t.Fatal(err)
		}
		return resolved
	}
	ctx, end := context.WithCancel(t.Context())
	first := resolve(ctx)
	if resolve(ctx) != first {
		t.Error("it is resolved twice")
	}
	end()
	for deadline := time.Now().Add(10 * time.Second); resolve(t.Context()) == first; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatal("it is kept after the request")
		}
	}
}

// A selection revokes nothing while certificates may be missing that other servers have issued.
func TestSelectionAwaitsRecordsOfOthers(t *testing.T) {
	f := newRevokingFixture(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	op, err := f.records.Write(&inventoryv1alpha1.IssuedCertificate{ObjectMeta: metav1.ObjectMeta{Name: "of-another-server"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.records.Store.Do(t.Context(), op); err != nil {
		t.Fatal(err)
	}
	_, err = f.revoker.Resolve(ctx, &user.DefaultInfo{Name: "alice"}, &v1alpha1.Revocation{Spec: v1alpha1.RevocationSpec{
		Reason: "Unspecified", Selection: &v1alpha1.RevocationSelection{Requesters: []string{"bob"}}, AtMost: 1,
	}})
	if !apierrors.IsTimeout(err) {
		t.Errorf("got %v, want a timeout", err)
	}
}

// A selection that cannot be counted in the time of its request says so, and revokes nothing.
func TestSelectionTakesTooLong(t *testing.T) {
	f := newRevokingFixture(t)
	ctx, cancel := context.WithTimeout(t.Context(), -time.Second)
	defer cancel()
	_, err := f.revoker.Resolve(ctx, &user.DefaultInfo{Name: "alice"}, &v1alpha1.Revocation{Spec: v1alpha1.RevocationSpec{
		Reason: "Unspecified", Selection: &v1alpha1.RevocationSelection{Requesters: []string{"bob"}}, AtMost: 1,
	}})
	if want := "counting the certificates took too long: narrow the selection"; !apierrors.IsTimeout(err) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}
