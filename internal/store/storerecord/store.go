package storerecord

import (
	"context"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/certplane/certplane/internal/process/buildinfo"
)

// OwnKeys is the prefix, below the prefix of a store, of keys that certplane keeps and that
// are not objects of the API.
const OwnKeys = "/certplane/"

// Store is the place of a record.
type Store struct {
	KV clientv3.KV
	// Prefix is the root of all keys, such as /registry.
	Prefix string
}

// Key is the etcd key of the record.
func (s Store) Key() string { return s.Prefix + OwnKeys + "store" }

// New returns the record of a store that has none yet. No other store may have
// its id.
func New(format int, id string, keys Keys) Record {
	return Record{Format: format, ID: id, WrittenBy: buildinfo.Read().Version, Keys: keys}
}

// Load returns the record, or nil if the store has none.
func (s Store) Load(ctx context.Context) (*Record, error) {
	record, _, err := s.load(ctx)
	return record, err
}

func (s Store) load(ctx context.Context) (*Record, int64, error) {
	answer, err := s.KV.Get(ctx, s.Key())
	if err != nil {
		return nil, 0, fmt.Errorf("reading the record of the store: %w", err)
	}
	if len(answer.Kvs) == 0 {
		return nil, 0, nil
	}
	record, err := Parse(answer.Kvs[0].Value)
	return record, answer.Kvs[0].ModRevision, err
}

// Parse parses the value stored under Key.
func Parse(data []byte) (*Record, error) {
	record := &Record{}
	if err := json.Unmarshal(data, record); err != nil {
		return nil, fmt.Errorf("reading the record of the store: %w", err)
	}
	if record.Format < FormatFirst {
		return nil, fmt.Errorf("reading the record of the store: format %d is not a valid format", record.Format)
	}
	return record, nil
}

// HasObjects reports whether the store has any keys except certplane's own.
func (s Store) HasObjects(ctx context.Context) (bool, error) {
	own := s.Prefix + OwnKeys
	for _, ends := range [][2]string{
		{s.Prefix + "/", own},
		{clientv3.GetPrefixRangeEnd(own), clientv3.GetPrefixRangeEnd(s.Prefix + "/")},
	} {
		answer, err := s.KV.Get(ctx, ends[0], clientv3.WithRange(ends[1]), clientv3.WithLimit(1), clientv3.WithKeysOnly())
		if err != nil {
			return false, fmt.Errorf("checking whether the store has objects: %w", err)
		}
		if len(answer.Kvs) > 0 {
			return true, nil
		}
	}
	return false, nil
}

// Change calls change with the record, or nil if the store has none, and stores and returns
// the result. If another server writes at the same time, Change calls change again with the
// new record. An error of change ends the attempt.
func (s Store) Change(ctx context.Context, change func(*Record) (Record, error)) (Record, error) {
	for {
		old, revision, err := s.load(ctx)
		if err != nil {
			return Record{}, err
		}
		record, err := change(old)
		if err != nil {
			return Record{}, err
		}
		if old != nil && old.equal(record) {
			return record, nil
		}
		data, err := json.Marshal(record)
		if err != nil {
			return Record{}, fmt.Errorf("encoding the record of the store: %w", err)
		}
		answer, err := s.KV.Txn(ctx).
			If(clientv3.Compare(clientv3.ModRevision(s.Key()), "=", revision)).
			Then(clientv3.OpPut(s.Key(), string(data))).
			Commit()
		if err != nil {
			return Record{}, fmt.Errorf("writing the record of the store: %w", err)
		}
		if answer.Succeeded {
			return record, nil
		}
	}
}

func (r Record) equal(other Record) bool {
	return r.Format == other.Format && r.ID == other.ID && r.WrittenBy == other.WrittenBy && r.IssuingCA == other.IssuingCA &&
		r.ClusterResources == other.ClusterResources && r.Keys.Equal(other.Keys)
}
