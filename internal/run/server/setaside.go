package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/store/sealed"
	"github.com/certplane/certplane/internal/store/storerecord"
)

// setAsideKeys is the prefix of values that no key can decrypt. A resource with
// such a value among its objects cannot be listed.
const setAsideKeys = storerecord.OwnKeys + "unreadable"

// sealedPage is how many keys are read at once.
const sealedPage = 500

// sealedValue is an encrypted value in the store.
type sealedValue struct {
	key      string
	value    []byte
	revision int64
}

// eachSealed calls visit for each object that is stored encrypted.
func (c claim) eachSealed(ctx context.Context, visit func(sealedValue) error) error {
	from, end := c.records.Prefix+"/", clientv3.GetPrefixRangeEnd(c.records.Prefix+"/")
	for {
		page, err := c.kv.Get(ctx, from, clientv3.WithRange(end), clientv3.WithLimit(sealedPage))
		if err != nil {
			return fmt.Errorf("reading the store: %w", err)
		}
		for _, kv := range page.Kvs {
			key := string(kv.Key)
			if !sealed.Is(kv.Value) || strings.HasPrefix(key, c.records.Prefix+storerecord.OwnKeys) {
				continue
			}
			if err := visit(sealedValue{key, kv.Value, kv.ModRevision}); err != nil {
				return err
			}
		}
		if !page.More {
			return nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// setAside moves values that cannot be decrypted with the keys in file away.
func (c claim) setAside(ctx context.Context, file string) error {
	keys, err := sealed.Load(ctx, file)
	if err != nil {
		return err
	}
	moved := 0
	err = c.eachSealed(ctx, func(kv sealedValue) error {
		_, err := keys.Open(ctx, kv.key, kv.value)
		if !errors.Is(err, sealed.ErrNoKey) {
			return err
		}
		to := c.records.Prefix + setAsideKeys + strings.TrimPrefix(kv.key, c.records.Prefix)
		answer, err := c.kv.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(kv.key), "=", kv.revision)).
			Then(clientv3.OpPut(to, string(kv.value)), clientv3.OpDelete(kv.key)).
			Commit()
		if err != nil {
			return fmt.Errorf("setting %s aside: %w", kv.key, err)
		}
		if answer.Succeeded {
			moved++
		}
		return nil
	})
	if moved > 0 {
		klog.InfoS("Set aside objects that no encryption key decrypts", "objects", moved, "etcdPrefix", c.records.Prefix+setAsideKeys)
	}
	return err
}
