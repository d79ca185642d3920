package apitest

import (
	"crypto/x509"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/uuid"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/revocation"
)

// Stored returns the bytes on disk of a key in the store of a server with an embedded etcd.
func (s *Server) Stored(t testing.TB, key string) string {
	t.Helper()
	answer, err := s.store(t).Get(t.Context(), key)
	if err != nil {
		t.Fatalf("reading %s in the store: %v", key, err)
	}
	if len(answer.Kvs) == 0 {
		t.Fatalf("the store has nothing under %s", key)
	}
	return string(answer.Kvs[0].Value)
}

// StoredBelow returns how many keys with a prefix the store of a server with an embedded
// etcd has, and how many bytes their values are.
func (s *Server) StoredBelow(t testing.TB, prefix string) (keys, bytes int) {
	t.Helper()
	store := s.store(t)
	for from, end := prefix, clientv3.GetPrefixRangeEnd(prefix); ; {
		answer, err := store.Get(t.Context(), from, clientv3.WithRange(end), clientv3.WithLimit(500))
		if err != nil {
			t.Fatalf("reading below %s in the store: %v", prefix, err)
		}
		for _, kv := range answer.Kvs {
			keys, bytes, from = keys+1, bytes+len(kv.Value), string(kv.Key)+"\x00"
		}
		if !answer.More {
			return keys, bytes
		}
	}
}

// Store writes a value to the store of a server with an embedded etcd that the API would not
// take, such as an object from an older server.
func (s *Server) Store(t testing.TB, key, value string) {
	t.Helper()
	if _, err := s.store(t).Put(t.Context(), key, value); err != nil {
		t.Fatalf("writing %s to the store: %v", key, err)
	}
}

// Revoke revokes certificates in the store of a server with an embedded etcd, by one act
// without an object. The server learns of it a moment later.
func (s *Server) Revoke(t testing.TB, reason pki.Reason, at time.Time, certs ...*x509.Certificate) {
	t.Helper()
	act := revocation.Act{UID: uuid.NewUUID(), Name: t.Name(), User: "tester"}
	var entries []revocation.Entry
	for _, cert := range certs {
		entries = append(entries, revocation.EntryOf(cert, at, reason))
	}
	data, err := revocation.Encode(act, entries)
	if err != nil {
		t.Fatal(err)
	}
	s.Store(t, path.Join(s.Config.Etcd.Prefix, inventoryv1alpha1.GroupName, "revoked", string(act.UID)), string(data))
}

// Record writes records to the inventory of a server with an embedded etcd. The server learns
// of them a moment later.
func (s *Server) Record(t testing.TB, records ...*inventoryv1alpha1.IssuedCertificate) {
	t.Helper()
	store := s.store(t)
	const atOnce = 100 // etcd allows 128
	for some := range slices.Chunk(records, atOnce) {
		var writes []clientv3.Op
		for _, record := range some {
			inventory.Complete(record)
			op, err := (&inventory.Inventory{}).Write(record)
			if err != nil {
				t.Fatal(err)
			}
			key := path.Join(s.Config.Etcd.Prefix, inventoryv1alpha1.GroupName, "issuedcertificates", string(op.KeyBytes()))
			writes = append(writes, clientv3.OpPut(key, string(op.ValueBytes())))
		}
		if _, err := store.Txn(t.Context()).Then(writes...).Commit(); err != nil {
			t.Fatalf("writing records to the store: %v", err)
		}
	}
}

// Unstore removes all keys with a prefix from the store of a server with an embedded etcd.
func (s *Server) Unstore(t testing.TB, prefix string) {
	t.Helper()
	if _, err := s.store(t).Delete(t.Context(), prefix, clientv3.WithPrefix()); err != nil {
		t.Fatalf("removing %s from the store: %v", prefix, err)
	}
}

func (s *Server) store(t testing.TB) *clientv3.Client {
	t.Helper()
	socket := filepath.Join(s.Config.DataDir, "etcd", "client.sock")
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + socket}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
