// Package backup writes a server's store and keys into one file, and makes a data directory
// from such a file.
//
// A file is a tar archive, compressed with gzip, and encrypted with age unless it has no
// keys. Its members, in this order:
//
//	header.json    the form of the file, its store, and its time
//	store/NNNNNN   pages of etcd's keys, as etcd's own protobuf messages
//	pki/NAME       the files of the folder pki
//	summary.json   counts and a digest to compare with; it ends the file
//
// A file of the same form, without pages, transfers the keys that the servers of one store
// share from one server to another.
package backup

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/protobuf/proto"

	"github.com/certplane/certplane/internal/store/storerecord"
)

// form is the version of files. A file of a newer one is not read.
const form = 1

const (
	headerName  = "header.json"
	summaryName = "summary.json"
	storePrefix = "store/"
	pkiPrefix   = "pki/"
)

// header describes the content of a file.
type header struct {
	Form    int       `json:"form"`
	Program string    `json:"program"` // its version
	Saved   time.Time `json:"saved"`
	Prefix  string    `json:"prefix"` // of all keys
	// Revision is the revision of the store at which all keys were read.
	Revision int64 `json:"revision"`
	// KeysAlone marks a file of ExportKeys.
	KeysAlone bool `json:"keysAlone,omitempty"`
}

// Summary describes the contents of a backup.
type Summary struct {
	// Saved is the time of the backup, and Program the version that made it.
	Saved   time.Time `json:"saved"`
	Program string    `json:"program"`
	// Record is the record of the store.
	Record storerecord.Record `json:"record"`
	// Revision is the revision of the store at the time of the backup.
	Revision int64 `json:"revision"`
	// Objects counts them by resource.
	Objects map[string]int `json:"objects"`
	// Encrypted is how many values are stored encrypted.
	Encrypted int `json:"encrypted"`
	// Keys reports whether the folder pki is in the file.
	Keys bool `json:"keys"`
	// Leases are the leases of keys that expire, with their lifetime in seconds.
	Leases map[int64]int64 `json:"leases,omitempty"`
	// Digest is the digest of all members before.
	Digest string `json:"digest"`
}

// differs returns an error that lists the differences between two summaries, if there are
// any.
func (s Summary) differs(other Summary) error {
	var differences []string
	for _, resource := range slices.Sorted(maps.Keys(s.Objects)) {
		if s.Objects[resource] != other.Objects[resource] {
			differences = append(differences, fmt.Sprintf("%d of %d %s", other.Objects[resource], s.Objects[resource], resource))
		}
	}
	if len(s.Objects) != len(other.Objects) {
		differences = append(differences, fmt.Sprintf("%d of %d resources", len(other.Objects), len(s.Objects)))
	}
	if s.Encrypted != other.Encrypted {
		differences = append(differences, fmt.Sprintf("%d of %d encrypted values", other.Encrypted, s.Encrypted))
	}
	if len(differences) > 0 {
		return fmt.Errorf("the store has %s", strings.Join(differences, ", "))
	}
	return nil
}

// resourceOf returns the resource of a key below a store's prefix, or "" if the
// key holds no object.
func resourceOf(key string) string {
	if strings.HasPrefix(key, storerecord.OwnKeys) {
		return ""
	}
	parts := strings.SplitN(strings.TrimPrefix(key, "/"), "/", 3)
	if strings.Contains(parts[0], ".") && len(parts) == 3 { // an API group
		return parts[1] + "." + parts[0]
	}
	if parts[0] == "minions" {
		return "nodes"
	}
	return parts[0]
}

// encodePage joins messages, each after its length.
func encodePage(kvs []*mvccpb.KeyValue) ([]byte, error) {
	var page []byte
	for _, kv := range kvs {
		data, err := proto.Marshal(kv)
		if err != nil {
			return nil, fmt.Errorf("encoding key %q: %w", kv.Key, err)
		}
		page = append(binary.AppendUvarint(page, uint64(len(data))), data...)
	}
	return page, nil
}

var errDamaged = errors.New("the file is damaged")

// maxKeyValue bounds the size of a key with its value. etcd accepts 1.5 MiB if its operator
// has not changed that.
const maxKeyValue = 64 << 20

// decodePages calls visit for each key of pages, one after another.
func decodePages(pages *bufio.Reader, visit func(*mvccpb.KeyValue) error) error {
	for {
		size, err := binary.ReadUvarint(pages)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || size > maxKeyValue {
			return fmt.Errorf("%w: a page of the store does not have the length of a key", errDamaged)
		}
		data := make([]byte, size)
		if _, err := io.ReadFull(pages, data); err != nil {
			return fmt.Errorf("%w: a page of the store ends too early", errDamaged)
		}
		kv := &mvccpb.KeyValue{}
		if err := proto.Unmarshal(data, kv); err != nil {
			return fmt.Errorf("%w: %w", errDamaged, err)
		}
		if err := visit(kv); err != nil {
			return err
		}
	}
}
