package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/certplane/certplane/internal/apiserver"
	"github.com/certplane/certplane/internal/inventory"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/encryption"
	"github.com/certplane/certplane/internal/store/etcd"
	"github.com/certplane/certplane/internal/store/storerecord"
)

// claimStores is an etcd on which each test has a store of its own.
type claimStores struct {
	client *clientv3.Client
}

func startClaimStores(t *testing.T) claimStores {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	store, err := etcd.Start(ctx, etcd.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Stop)
	client := store.Connect()
	t.Cleanup(func() { client.Close() })
	return claimStores{client}
}

// claim returns that of a server with a folder of its own on a store.
func (s claimStores) claim(t *testing.T, prefix string) claim {
	t.Helper()
	return claim{
		dir: datadir.Dir(t.TempDir()), kv: s.client, records: storerecord.Store{KV: s.client, Prefix: prefix},
	}
}

// makePKI makes what a first start makes.
func (c claim) makePKI(t *testing.T) {
	t.Helper()
	mustOpenPKI(t, c.dir.PKI(), someNames, firstStart)
	c.writeKeys(t, encryption.New())
}

func (c claim) writeKeys(t *testing.T, keys *encryption.Keys) {
	t.Helper()
	data, err := keys.Encode()
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, c.dir.EncryptionKeys(), data)
}

func (c claim) put(t *testing.T, key, value string) {
	t.Helper()
	if _, err := c.kv.Put(t.Context(), c.records.Prefix+key, value); err != nil {
		t.Fatal(err)
	}
}

func (c claim) get(t *testing.T, key string) string {
	t.Helper()
	answer, err := c.kv.Get(t.Context(), c.records.Prefix+key)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Kvs) == 0 {
		return ""
	}
	return string(answer.Kvs[0].Value)
}

// putSecret stores a value that is encrypted with the first key of the file.
func (c claim) putSecret(t *testing.T, name string) {
	t.Helper()
	config, err := encryptionconfig.LoadEncryptionConfig(t.Context(), c.dir.EncryptionKeys(), false, "test")
	if err != nil {
		t.Fatal(err)
	}
	key := c.records.Prefix + "/secrets/default/" + name
	secrets := config.Transformers[schema.GroupResource{Resource: "secrets"}]
	stored, err := secrets.TransformToStorage(t.Context(), []byte("hunter2"), value.DefaultContext(key))
	if err != nil {
		t.Fatal(err)
	}
	c.put(t, "/secrets/default/"+name, string(stored))
}

// start is the part of a start that checks the store and its keys.
func (c claim) start(t *testing.T) error {
	t.Helper()
	if err := c.check(t.Context()); err != nil {
		return err
	}
	mustOpenPKI(t, c.dir.PKI(), someNames, firstStart)
	if _, err := os.Stat(c.dir.EncryptionKeys()); errors.Is(err, os.ErrNotExist) {
		c.writeKeys(t, encryption.New())
	}
	return c.make(t.Context(), c.dir.EncryptionKeys())
}

func mustStart(t *testing.T, c claim) {
	t.Helper()
	if err := c.start(t); err != nil {
		t.Fatal(err)
	}
}

// A server starts only if its keys belong to the store. A server that does not
// start has made nothing.
func TestPKIBelongsToTheStore(t *testing.T) {
	stores := startClaimStores(t)
	remove := func(names ...string) func(*testing.T, claim) {
		return func(t *testing.T, c claim) {
			for _, name := range names {
				if err := os.Remove(filepath.Join(c.dir.PKI(), name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	noPKI := func(t *testing.T, c claim) {
		if err := os.RemoveAll(c.dir.PKI()); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		reason string
		meddle func(*testing.T, claim)
		err    []string // what the error names
	}{
		{reason: "the same folder"},
		{reason: "no folder", meddle: noPKI, err: []string{"client CA is missing", "serving CA is missing", "service account key is missing", "encryption key is missing", "Restore the whole folder from a backup", "certplane pki import", "--new-pki"}},
		{reason: "only the encryption keys are back", meddle: func(t *testing.T, c claim) {
			keys := contents(t, c.dir.EncryptionKeys())
			noPKI(t, c)
			if err := os.Mkdir(c.dir.PKI(), 0o700); err != nil {
				t.Fatal(err)
			}
			overwrite(t, c.dir.EncryptionKeys(), keys)
		}, err: []string{"client CA is missing", "serving CA is missing"}},
		{reason: "the folder of another server", meddle: func(t *testing.T, c claim) {
			noPKI(t, c)
			c.makePKI(t)
		}, err: []string{"client CA is another", "serving CA is another", "service account key is another", "encryption key is another", "the store has recorded sha256:"}},
		{reason: "no service account key", meddle: remove("service-account.key"), err: []string{"service account key is missing (service-account.key)"}},
		{reason: "no serving CA", meddle: remove("serving-ca.crt", "serving-ca.key"), err: []string{"serving CA is missing"}},
		{reason: "no encryption keys", meddle: remove("encryption.yaml"), err: []string{"encryption key is missing (encryption.yaml)"}},
		{reason: "no root", meddle: remove("client-ca-root.crt", "client-ca.crt"), err: []string{"client CA is missing"}},
		{reason: "another issuing CA is wanted", meddle: remove("client-ca.crt", "client-ca.key")},
		{reason: "certificates that are made again", meddle: remove("admin.crt", "admin.key", "serving.crt", "serving.key")},
	}
	for i, tc := range tests {
		for _, recorded := range []bool{true, false} {
			name := tc.reason + ", recorded"
			if !recorded {
				name = tc.reason + ", with the store of an older version"
			}
			t.Run(name, func(t *testing.T) {
				c := stores.claim(t, fmt.Sprintf("/store-%d-%t", i, recorded))
				c.makePKI(t)
				c.put(t, "/clusterroles/admin", "an object")
				if recorded {
					mustStart(t, c)
				}
				if tc.meddle != nil {
					tc.meddle(t, c)
				}
				before := filesIfAny(t, c.dir.PKI())
				err := c.start(t)
				if tc.err == nil {
					if err != nil {
						t.Fatal(err)
					}
					mustStart(t, c)
					return
				}
				for _, want := range tc.err {
					// An older version's store does not say which keys are right.
					if !recorded && strings.Contains(want, "another") || !recorded && strings.Contains(want, "store has recorded") {
						continue
					}
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("a start says %v, want %q", err, want)
					}
				}
				if made := changed(before, filesIfAny(t, c.dir.PKI())); err != nil && len(made) > 0 {
					t.Errorf("a refused start has made %v", made)
				}
			})
		}
	}
}

func filesIfAny(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return files(t, dir)
}

// Servers that share a store need the same keys, whichever started first.
func TestSecondServerNeedsTheKeys(t *testing.T) {
	stores := startClaimStores(t)
	first, second := stores.claim(t, "/shared"), stores.claim(t, "/shared")
	second.makePKI(t)
	if err := second.check(t.Context()); err != nil { // the store is empty yet
		t.Fatal(err)
	}
	mustStart(t, first)
	for name, err := range map[string]error{
		"that made its keys at the same moment": second.make(t.Context(), second.dir.EncryptionKeys()),
		"that comes later":                      second.check(t.Context()),
	} {
		if err == nil || !strings.Contains(err.Error(), "certplane pki import") {
			t.Errorf("a server %s says %v", name, err)
		}
	}
	if err := os.RemoveAll(second.dir.PKI()); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(second.dir.PKI(), os.DirFS(first.dir.PKI())); err != nil {
		t.Fatal(err)
	}
	mustStart(t, second)
}

// A root changes while both are trusted, be it before a start or while the
// server runs.
func TestRootsOverlap(t *testing.T) {
	c := startClaimStores(t).claim(t, "/registry")
	mustStart(t, c)
	root := filepath.Join(c.dir.PKI(), "client-ca-root.crt")
	former, next := contents(t, root), newRootPEM(t)
	overwrite(t, root, append(append([]byte(nil), former...), next...))
	if err := c.update(t.Context()); err != nil {
		t.Fatal(err)
	}
	overwrite(t, root, next)
	if err := c.check(t.Context()); err != nil {
		t.Errorf("the second of two recorded roots: %v", err)
	}
	if err := c.update(t.Context()); err != nil {
		t.Fatal(err)
	}
	overwrite(t, root, former)
	if err := c.check(t.Context()); err == nil {
		t.Error("a root that was removed is accepted")
	}
	// A running server does not record keys that a start would refuse.
	if err := c.update(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.check(t.Context()); err == nil {
		t.Error("a running server has recorded a root that does not overlap")
	}
}

func newRootPEM(t *testing.T) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, "another root", key, pki.DefaultRootLifetime, firstStart)
	if err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(root.Certificate())
}

// A rotation of encryption keys can be interrupted at any point: the next start
// continues it, and keys that do not open what is stored are refused.
func TestEncryptionKeysRotate(t *testing.T) {
	c := startClaimStores(t).claim(t, "/registry")
	mustStart(t, c)
	c.putSecret(t, "former")
	former, err := encryption.Parse(contents(t, c.dir.EncryptionKeys()))
	if err != nil {
		t.Fatal(err)
	}
	keys, err := encryption.Parse(contents(t, c.dir.EncryptionKeys()))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func(){keys.Add, keys.Promote} {
		step()
		c.writeKeys(t, keys)
		if err := c.check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	c.putSecret(t, "former") // stored again
	keys.Drop()
	c.writeKeys(t, keys)
	if err := c.start(t); err != nil {
		t.Errorf("a rotation that nobody recorded: %v", err)
	}
	c.writeKeys(t, former)
	if err := c.check(t.Context()); err == nil || !strings.Contains(err.Error(), "the encryption key is another") {
		t.Errorf("a start with the former key says %v", err)
	}
}

// No server changes the store of a newer version, even if the operator insists.
func TestNewerFormat(t *testing.T) {
	c := startClaimStores(t).claim(t, "/registry")
	mustStart(t, c)
	c.put(t, "/certplane/store", `{"format":99,"id":"x","writtenBy":"v9.0.0","keys":{}}`)
	for _, insist := range []bool{false, true} {
		c.cfg.NewPKI = insist
		if err := c.check(t.Context()); err == nil || !strings.Contains(err.Error(), "format 99, written by certplane v9.0.0") {
			t.Errorf("a start says %v", err)
		}
	}
}

// An operator who has lost the keys can start without them: what cannot be
// decrypted is moved away, and not lost.
func TestNewPKI(t *testing.T) {
	c := startClaimStores(t).claim(t, "/registry")
	mustStart(t, c)
	c.put(t, keyMarker, "the former keys")
	c.putSecret(t, "lost")
	lost := c.get(t, "/secrets/default/lost")
	if err := os.RemoveAll(c.dir.PKI()); err != nil {
		t.Fatal(err)
	}
	c.cfg.NewPKI = true
	mustStart(t, c)
	if got := c.get(t, keyMarker); got != "" {
		t.Errorf("the former keys are not forgotten: %s", got)
	}
	if got := c.get(t, "/secrets/default/lost"); got != "" {
		t.Error("a Secret that nobody can read is still in the way")
	}
	if got := c.get(t, setAsideKeys+"/secrets/default/lost"); got != lost {
		t.Errorf("set aside is %q, want %q", got, lost)
	}
	c.cfg.NewPKI = false
	mustStart(t, c)
}

// The Secrets of ClusterIssuers are where cert-manager's documentation has
// them, except in older stores, where they stay where they are.
func TestClusterResources(t *testing.T) {
	stores := startClaimStores(t)
	for prefix, tc := range map[string]struct {
		before func(claim)
		want   string
	}{
		"/new":        {func(claim) {}, "cert-manager"},
		"/configured": {func(claim) {}, "pki"},
		"/unrecorded": {func(c claim) {
			if _, err := stores.client.Put(t.Context(), c.records.Prefix+"/configmaps/default/x", "x"); err != nil {
				t.Fatal(err)
			}
			c.makePKI(t)
		}, "kube-system"},
		"/recorded": {func(c claim) {
			mustStart(t, c)
			if _, err := c.records.Change(t.Context(), func(old *storerecord.Record) (storerecord.Record, error) {
				older := *old
				older.ClusterResources = ""
				return older, nil
			}); err != nil {
				t.Fatal(err)
			}
		}, "kube-system"},
	} {
		c := stores.claim(t, prefix)
		tc.before(c)
		if prefix == "/configured" {
			c.cfg.CertManager.ClusterResourceNamespace = "pki"
		}
		for range 2 { // a start changes nothing for the next one
			mustStart(t, c)
			if got, err := c.clusterResources(t.Context()); err != nil || got != tc.want {
				t.Errorf("%s: %q, %v, want %q", prefix, got, err, tc.want)
			}
		}
	}
}

// The certificates that a server has are in the inventory after each start, once: also
// those that were made before the store knew whose it is, or are not recorded yet.
func TestHeldCertificatesAreRecorded(t *testing.T) {
	stores := startClaimStores(t)
	records, err := inventory.New(inventory.Config{Store: stores.client, Prefix: "/registry", Keep: defaultKeepRecords, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer alongside(t.Context(), records.Run)()
	s := &store{client: stores.client, backend: apiserver.Storage{Records: records}}
	credentials := mustOpenPKI(t, filepath.Join(t.TempDir(), "pki"), someNames, time.Now())
	held := credentials.held()
	if err := s.recordOwn(t.Context(), held[0].cert, held[0].why); err != nil {
		t.Fatal(err)
	}
	recorded := func() (all, versions []string) {
		page, err := records.Find(t.Context(), &inventory.Query{Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, record := range page.Items {
			all, versions = append(all, record.Use+" by "+record.SignerName), append(versions, record.ResourceVersion)
		}
		slices.Sort(all)
		return all, versions
	}
	if early, _ := recorded(); len(early) > 0 {
		t.Errorf("recorded before the store knows whose it is: %v", early)
	}
	want := []string{
		"admin certificate by certplane client CA", "issuing CA of client certificates by certplane client root CA",
		"root CA by certplane client root CA", "root CA by certplane serving CA", "serving certificate by certplane serving CA",
	}
	var before []string
	for start := range 2 {
		if err := s.recordHeld(t.Context(), slices.Concat(held, held)); err != nil {
			t.Fatal(err)
		}
		got, versions := recorded()
		if !slices.Equal(got, want) || start > 0 && !slices.Equal(versions, before) {
			t.Errorf("start %d: recorded %q at %v, before at %v, want %q", start, got, versions, before, want)
		}
		before = versions
	}
}
