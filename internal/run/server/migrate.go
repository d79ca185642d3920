package server

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/process/buildinfo"
	"github.com/certplane/certplane/internal/store/sealed"
	"github.com/certplane/certplane/internal/store/storerecord"
)

// movedKeys are the keys that have another place in format 2 than in format 1.
var movedKeys = []struct {
	from, to string
	// segments is how many names a key has behind from: other keys below it are
	// not keys of format 1.
	segments int
}{
	{from: "/nodes/", to: "/minions/", segments: 1},
	{from: "/services/", to: "/services/specs/", segments: 2},
}

// migrate brings the store to the format of this program. Each object is moved
// in one transaction, and moving again is harmless: the next start continues
// one that was killed, and servers that share a store can start together. It
// also looks at stores of the new format: an older server that still ran while
// they were moved may have written to them.
func (c claim) migrate(ctx context.Context, record storerecord.Record, encryptionFile string) error {
	moved := 0
	for _, keys := range movedKeys {
		n, err := c.moveKeys(ctx, keys.from, keys.to, keys.segments, encryptionFile)
		if err != nil {
			return fmt.Errorf("converting the store from format %d to %d: %w; converted objects stay, restart to continue", record.Format, storerecord.Format, err)
		}
		moved += n
	}
	if moved > 0 {
		klog.InfoS("Moved objects to where this version keeps them", "objects", moved)
	}
	_, err := c.records.Change(ctx, func(old *storerecord.Record) (storerecord.Record, error) {
		if old == nil {
			return storerecord.Record{}, errors.New("the record of the store is missing")
		}
		next := *old
		if next.Format < storerecord.Format {
			next.Format, next.WrittenBy = storerecord.Format, buildinfo.Read().Version
		}
		return next, nil
	})
	return err
}

func (c claim) moveKeys(ctx context.Context, from, to string, segments int, encryptionFile string) (moved int, err error) {
	prefix := c.records.Prefix + from
	old, err := c.kv.Get(ctx, prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return 0, fmt.Errorf("reading %s: %w", prefix, err)
	}
	var keys sealed.Keys
	for _, kv := range old.Kvs {
		name := strings.TrimPrefix(string(kv.Key), prefix)
		if strings.Count(name, "/")+1 != segments {
			continue
		}
		if moved == 0 { // a key management service is asked only if need be
			if keys, err = sealed.Load(ctx, encryptionFile); err != nil {
				return 0, err
			}
		}
		if err := c.moveKey(ctx, string(kv.Key), c.records.Prefix+to+name, keys); err != nil {
			return moved, err
		}
		moved++
	}
	return moved, nil
}

// moveKey moves an object. If there is one at the new key already, the object
// that was written last stays.
func (c claim) moveKey(ctx context.Context, from, to string, keys sealed.Keys) error {
	for {
		old, err := c.one(ctx, from)
		if err != nil || old == nil { // another server has moved it
			return err
		}
		there, err := c.one(ctx, to)
		if err != nil {
			return err
		}
		revision, ops := int64(0), []clientv3.Op{clientv3.OpDelete(from)}
		if there != nil {
			revision = there.ModRevision
		}
		if revision < old.ModRevision {
			value, err := keys.Move(ctx, from, to, old.Value)
			if err != nil {
				return err
			}
			ops = append(ops, clientv3.OpPut(to, string(value)))
		}
		answer, err := c.kv.Txn(ctx).If(
			clientv3.Compare(clientv3.ModRevision(from), "=", old.ModRevision),
			clientv3.Compare(clientv3.ModRevision(to), "=", revision),
		).Then(ops...).Commit()
		if err != nil {
			return fmt.Errorf("moving %s: %w", from, err)
		}
		if answer.Succeeded {
			return nil
		}
	}
}

// one returns the key, or nil if it does not exist.
func (c claim) one(ctx context.Context, key string) (*mvccpb.KeyValue, error) {
	answer, err := c.kv.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", key, err)
	}
	if len(answer.Kvs) == 0 {
		return nil, nil
	}
	return answer.Kvs[0], nil
}
