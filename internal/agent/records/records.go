// Package records stores what the agent knows about each volume across
// restarts.
package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/certplane/certplane/internal/agent/credential"
	"github.com/certplane/certplane/internal/agent/token"
	"github.com/certplane/certplane/internal/process/atomicfile"
)

// Volume is the record of a volume. It holds private keys and tokens.
type Volume struct {
	// Dir is the folder of the files, if it is not in the folder of all volumes.
	Dir string `json:"dir,omitempty"`
	// Certificates and Tokens are the records of the volume's sources, by the paths of
	// their files, because the order of sources in a manifest can change.
	Certificates map[string]credential.Record `json:"certificates,omitempty"`
	Tokens       map[string]token.Record      `json:"tokens,omitempty"`
	// Notified is a digest of the content that all programs that use the volume
	// have been notified of.
	Notified string `json:"told,omitempty"`
	// NotifiedLists and NotifiedOthers are digests of the revocation lists in that content, and
	// of its other files.
	NotifiedLists  string `json:"toldLists,omitempty"`
	NotifiedOthers string `json:"toldOthers,omitempty"`
	// Done are the actions that have succeeded for newer content while others
	// have not, each with the digest of that content.
	Done map[string]string `json:"done,omitempty"`
}

// ID names a volume.
type ID struct{ Namespace, Pod, Volume string }

// Store is a folder of records that only the agent can read. Two goroutines
// must not call its methods for the same volume concurrently.
type Store struct {
	Dir string
}

// Open returns the store in a folder, which it creates.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of records: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("restricting the folder of records to its owner: %w", err)
	}
	return &Store{Dir: dir}, nil
}

// Load returns an empty record if none exists. For a record that cannot be read
// it returns an error and an empty record: everything in it can be requested
// again.
func (s *Store) Load(id ID) (Volume, error) {
	empty := Volume{Certificates: map[string]credential.Record{}, Tokens: map[string]token.Record{}}
	data, err := os.ReadFile(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return empty, nil
	}
	if err != nil {
		return empty, fmt.Errorf("reading the record of a volume: %w", err)
	}
	loaded := empty
	if err := json.Unmarshal(data, &loaded); err != nil {
		// The error of a JSON decoder can quote what it has read.
		return Volume{Certificates: map[string]credential.Record{}, Tokens: map[string]token.Record{}},
			fmt.Errorf("reading the record of a volume: %s is damaged", s.path(id))
	}
	return loaded, nil
}

// Save saves a record, which is durable when Save returns.
func (s *Store) Save(id ID, volume Volume) error {
	data, err := json.Marshal(volume)
	if err != nil {
		return fmt.Errorf("encoding the record of a volume: %w", err)
	}
	path := s.path(id)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("writing the record of a volume: %w", err)
	}
	return atomicfile.Write(path, data, 0o600)
}

// Remove forgets a volume.
func (s *Store) Remove(id ID) error {
	err := os.Remove(s.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	// Folders that are now empty are no longer in use; others stay.
	pod := filepath.Dir(s.path(id))
	_ = os.Remove(pod)
	_ = os.Remove(filepath.Dir(pod))
	return err
}

// List returns the volumes that have records.
func (s *Store) List() ([]ID, error) {
	paths, err := filepath.Glob(filepath.Join(s.Dir, "*", "*", "*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing records: %w", err)
	}
	var ids []ID
	for _, path := range paths {
		pod := filepath.Dir(path)
		name := filepath.Base(path)
		ids = append(ids, ID{Namespace: filepath.Base(filepath.Dir(pod)), Pod: filepath.Base(pod), Volume: name[:len(name)-len(".json")]})
	}
	return ids, nil
}

// path returns the path of a volume's record. It is unambiguous and inside the
// folder: the names of the API have neither slashes nor two dots in a row.
func (s *Store) path(id ID) string {
	return filepath.Join(s.Dir, id.Namespace, id.Pod, id.Volume+".json")
}
