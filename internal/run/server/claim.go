package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/sealed"
	"github.com/certplane/certplane/internal/store/storerecord"
)

// claim checks that a server's keys belong to the store.
type claim struct {
	dir     datadir.Dir
	cfg     Config
	records storerecord.Store
	kv      clientv3.KV
}

// check refuses to start with keys that do not belong to the store, or with a
// store of a newer version. It makes nothing.
func (c claim) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	keys, err := c.keys()
	if err != nil {
		return err
	}
	seen := storerecord.Seen{Keys: keys, Insist: c.cfg.NewPKI}
	if seen.Record, err = c.records.Load(ctx); err != nil {
		return err
	}
	if seen.Objects, err = c.records.HasObjects(ctx); err != nil {
		return err
	}
	err = storerecord.Decide(seen)
	var mismatch *storerecord.MismatchError
	if errors.As(err, &mismatch) && mismatch.EncryptionOnly && c.canReadAll(ctx) {
		err = nil // a rotation of keys that the record does not have yet
	}
	if err != nil {
		return err
	}
	return c.forgetEncryption(ctx, seen)
}

func (c claim) keys() (storerecord.Keys, error) {
	keys, err := storerecord.Read(c.dir)
	if c.cfg.Encryption.ConfigFile != "" {
		keys = keys.WithoutEncryption()
	}
	return keys, err
}

// canReadAll reports whether the existing keys can decrypt all encrypted
// values.
func (c claim) canReadAll(ctx context.Context) bool {
	keys, err := sealed.Load(ctx, c.dir.EncryptionKeys())
	if err != nil {
		return false
	}
	return c.eachSealed(ctx, func(kv sealedValue) error {
		_, err := keys.Open(ctx, kv.key, kv.value)
		return err
	}) == nil
}

// forgetEncryption lets new encryption keys be made if the operator insists.
func (c claim) forgetEncryption(ctx context.Context, seen storerecord.Seen) error {
	if !seen.Insist || len(seen.Keys.Encryption) > 0 || c.cfg.Encryption.ConfigFile != "" {
		return nil
	}
	if _, err := c.kv.Delete(ctx, c.records.Prefix+keyMarker); err != nil {
		return fmt.Errorf("forgetting the former encryption keys: %w", err)
	}
	return nil
}

// make records the keys with which the server runs, once they exist.
func (c claim) make(ctx context.Context, encryptionFile string) error {
	record, err := c.record(ctx, encryptionFile)
	if err != nil {
		return err
	}
	klog.V(1).InfoS("The store belongs to the keys in pki/", "store", record.ID, "format", record.Format)
	return c.migrate(ctx, record, encryptionFile)
}

// clusterResources returns the namespace of the Secrets of ClusterIssuers, if
// the configuration does not name one: the store records where its first server
// had them.
func (c claim) clusterResources(ctx context.Context) (string, error) {
	if named := c.cfg.CertManager.ClusterResourceNamespace; named != "" {
		return named, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	record, err := c.records.Load(ctx)
	if err != nil {
		return "", err
	}
	if record == nil {
		return "", errors.New("the record of the store is missing")
	}
	return record.ClusterResourceNamespace(), nil
}

func (c claim) record(ctx context.Context, encryptionFile string) (storerecord.Record, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	keys, err := c.keys()
	if err != nil {
		return storerecord.Record{}, err
	}
	if c.cfg.NewPKI {
		if err := c.setAside(ctx, encryptionFile); err != nil {
			return storerecord.Record{}, err
		}
	}
	first, err := c.first(ctx, keys)
	if err != nil {
		return storerecord.Record{}, err
	}
	return c.records.Change(ctx, func(old *storerecord.Record) (storerecord.Record, error) {
		if old == nil {
			return first, nil
		}
		// Another server may have been first with an empty store.
		err := storerecord.Decide(storerecord.Seen{Record: old, Objects: true, Keys: keys, Insist: c.cfg.NewPKI})
		var mismatch *storerecord.MismatchError
		if errors.As(err, &mismatch) && mismatch.EncryptionOnly {
			err = nil // check has read the stored values
		}
		next := *old
		next.Keys = keys
		return next, err
	})
}

// first returns the record for a store without one: a new record, or the record for a store
// of a version that wrote none.
func (c claim) first(ctx context.Context, keys storerecord.Keys) (storerecord.Record, error) {
	objects, err := c.records.HasObjects(ctx)
	if objects {
		return storerecord.New(storerecord.FormatFirst, rand.Text(), keys), err
	}
	record := storerecord.New(storerecord.Format, rand.Text(), keys)
	record.ClusterResources = storerecord.CertManagerNamespace
	return record, err
}

// update records keys that have changed while the server runs: roots that overlap with the
// former ones, and a rotation of encryption keys. It ignores keys that do not fit; the next
// start reports them.
func (c claim) update(ctx context.Context) error {
	keys, err := c.keys()
	if err != nil {
		return err
	}
	_, err = c.records.Change(ctx, func(old *storerecord.Record) (storerecord.Record, error) {
		if old == nil {
			return storerecord.Record{}, errors.New("the record of the store is missing")
		}
		next := *old
		if old.Keys.Check(keys) == nil {
			next.Keys = keys
		}
		return next, nil
	})
	return err
}

// latestCA offers the client CA to the other servers of the store, and returns
// the latest CA of all servers.
func (c claim) latestCA(ctx context.Context, mine clientCA) (clientCA, error) {
	if !mine.rooted {
		return mine, nil
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	record, err := c.records.Change(ctx, func(old *storerecord.Record) (storerecord.Record, error) {
		if old == nil {
			return storerecord.Record{}, errors.New("the record of the store is missing")
		}
		next := *old
		if mine.isLaterThan([]byte(old.IssuingCA)) {
			next.IssuingCA = string(mine.issuing.certPEM)
		}
		return next, nil
	})
	if err != nil {
		return mine, err
	}
	return mine.replacedBy([]byte(record.IssuingCA))
}
