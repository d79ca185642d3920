package backup

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
)

// writer writes the members of a file.
type writer struct {
	tar    *tar.Writer
	gzip   *gzip.Writer
	sealed io.WriteCloser
	digest hash.Hash
}

func newWriter(dst io.Writer, protection Protection) (*writer, error) {
	sealed, err := protection.seal(dst)
	if err != nil {
		return nil, err
	}
	compressed := gzip.NewWriter(sealed)
	return &writer{tar: tar.NewWriter(compressed), gzip: compressed, sealed: sealed, digest: sha256.New()}, nil
}

func (w *writer) add(name string, mode fs.FileMode, data []byte) error {
	addDigest(w.digest, name, int64(len(data)))
	w.digest.Write(data)
	err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: int64(mode), Size: int64(len(data)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.tar.Write(data)
	}
	if err != nil {
		return fmt.Errorf("writing the backup: %w", err)
	}
	return nil
}

func (w *writer) addJSON(name string, value any) error {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding %s: %w", name, err)
	}
	return w.add(name, 0o600, data)
}

// close ends the file with its summary.
func (w *writer) close(summary Summary) error {
	summary.Digest = digestText(w.digest)
	if err := w.addJSON(summaryName, summary); err != nil {
		return err
	}
	for _, end := range []io.Closer{w.tar, w.gzip, w.sealed} {
		if err := end.Close(); err != nil {
			return fmt.Errorf("writing the backup: %w", err)
		}
	}
	return nil
}

// addDigest adds the beginning of a member to a digest, before its data, so that names
// and contents cannot be mistaken for each other.
func addDigest(digest hash.Hash, name string, size int64) { fmt.Fprintf(digest, "%q %d\n", name, size) }

func digestText(digest hash.Hash) string { return "sha256:" + hex.EncodeToString(digest.Sum(nil)) }

// maxMember bounds the size of a member of a file. Pages of the store are not read at once.
const maxMember = 1 << 30

// readMembers calls visit for each member and returns the summary. visit need not read all
// of data. readMembers fails if the file is truncated or changed.
func readMembers(archive io.Reader, visit func(name string, mode fs.FileMode, data io.Reader) error) (Summary, error) {
	members, digest := tar.NewReader(archive), sha256.New()
	for {
		member, err := members.Next()
		if errors.Is(err, io.EOF) {
			return Summary{}, fmt.Errorf("%w: it has no end, it may have been cut off", errDamaged)
		}
		if err != nil {
			return Summary{}, damage(err)
		}
		if member.Size > maxMember || member.Typeflag != tar.TypeReg {
			return Summary{}, fmt.Errorf("%w: %q is not a valid member", errDamaged, member.Name)
		}
		if member.Name == summaryName {
			data, err := io.ReadAll(members)
			if err != nil {
				return Summary{}, damage(err)
			}
			return readSummary(data, digestText(digest), archive)
		}
		addDigest(digest, member.Name, member.Size)
		data := io.TeeReader(members, digest)
		if err := visit(member.Name, member.FileInfo().Mode().Perm(), data); err != nil {
			return Summary{}, err
		}
		if _, err := io.Copy(io.Discard, data); err != nil {
			return Summary{}, damage(err)
		}
	}
}

// readSmall reads a member that is kept in memory.
func readSmall(data io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(data, maxKeyFile+1))
	if err != nil {
		return nil, damage(err)
	}
	if len(text) > maxKeyFile {
		return nil, fmt.Errorf("%w: a member is larger than %d MiB", errDamaged, maxKeyFile>>20)
	}
	return text, nil
}

func readSummary(data []byte, digest string, rest io.Reader) (Summary, error) {
	// The rest of the file shows whether it was cut off or changed.
	if _, err := io.Copy(io.Discard, rest); err != nil {
		return Summary{}, damage(err)
	}
	summary := Summary{}
	if err := json.Unmarshal(data, &summary); err != nil {
		return Summary{}, damage(err)
	}
	if summary.Digest != digest {
		return Summary{}, fmt.Errorf("%w: its digest is %s, not %s", errDamaged, digest, summary.Digest)
	}
	return summary, nil
}

// damage explains an error in reading a broken archive.
func damage(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: it was cut off", errDamaged)
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}
