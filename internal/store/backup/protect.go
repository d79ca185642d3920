package backup

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"filippo.io/age"
)

// Protection encrypts files and decrypts them. The zero value is none, which
// is for files without keys.
type Protection struct {
	// Passphrase encrypts and decrypts.
	Passphrase string
	// Recipients are public keys that encrypt.
	Recipients []age.Recipient
	// Identities are private keys that decrypt.
	Identities []age.Identity
}

// Encrypts reports whether files are encrypted.
func (p Protection) Encrypts() bool { return p.Passphrase != "" || len(p.Recipients) > 0 }

// seal returns a writer into dst. Closing it ends the file, but not dst.
func (p Protection) seal(dst io.Writer) (io.WriteCloser, error) {
	recipients := p.Recipients
	if p.Passphrase != "" {
		recipient, err := age.NewScryptRecipient(p.Passphrase)
		if err != nil {
			return nil, fmt.Errorf("using the passphrase: %w", err)
		}
		recipients = append(recipients[:len(recipients):len(recipients)], recipient)
	}
	if len(recipients) == 0 {
		return nopCloser{dst}, nil
	}
	sealed, err := age.Encrypt(dst, recipients...)
	if p.Passphrase != "" {
		debug.FreeOSMemory() // scrypt has taken 256 MiB, by design
	}
	if err != nil {
		return nil, fmt.Errorf("encrypting the backup: %w", err)
	}
	return sealed, nil
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// Kind is how a file is protected.
type Kind int

const (
	// Plain files have no keys.
	Plain Kind = iota
	// ByPassphrase files open with a passphrase.
	ByPassphrase
	// ByKey files open with a private key.
	ByKey
)

// ErrNoBackup reports a file that is not a backup.
var ErrNoBackup = errors.New("not a backup of certplane")

// headerBytes is how many bytes of a file are needed to recognize its kind.
const headerBytes = 512

// KindOf recognizes the kind of a file by its beginning.
func KindOf(src *bufio.Reader) (Kind, error) {
	begin, err := src.Peek(headerBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, fmt.Errorf("reading the backup: %w", err)
	}
	switch {
	case bytes.HasPrefix(begin, []byte{0x1f, 0x8b}):
		return Plain, nil
	case !bytes.HasPrefix(begin, []byte("age-encryption.org/")):
		return 0, ErrNoBackup
	case bytes.Contains(begin, []byte("\n-> scrypt ")):
		return ByPassphrase, nil
	case bytes.Contains(begin, []byte("\n-> X25519 ")), bytes.Contains(begin, []byte("\n-> mlkem768x25519 ")):
		return ByKey, nil
	default:
		return 0, fmt.Errorf("%w: its header names neither a passphrase nor a key", errDamaged)
	}
}

// open returns the archive in src, decrypted and decompressed.
func (p Protection) open(src *bufio.Reader) (io.Reader, error) {
	kind, err := KindOf(src)
	if err != nil {
		return nil, err
	}
	plain := io.Reader(src)
	if kind != Plain {
		if plain, err = p.decrypt(src, kind); err != nil {
			return nil, err
		}
	}
	archive, err := gzip.NewReader(plain)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return archive, nil
}

func (p Protection) decrypt(src io.Reader, kind Kind) (io.Reader, error) {
	identities := p.Identities
	if kind == ByPassphrase {
		if p.Passphrase == "" {
			return nil, errors.New("the backup is encrypted with a passphrase, and none is given")
		}
		identity, err := age.NewScryptIdentity(p.Passphrase)
		if err != nil {
			return nil, fmt.Errorf("using the passphrase: %w", err)
		}
		identities = []age.Identity{identity}
	}
	if len(identities) == 0 {
		return nil, errors.New("the backup is encrypted to a key: name the file with the private key")
	}
	plain, err := age.Decrypt(src, identities...)
	if kind == ByPassphrase {
		debug.FreeOSMemory()
	}
	var noMatch *age.NoIdentityMatchError
	switch {
	case errors.As(err, &noMatch) && kind == ByPassphrase:
		return nil, errors.New("the passphrase does not match the backup, or the header of the file is damaged; the file cannot be read without the right passphrase")
	case errors.As(err, &noMatch):
		return nil, errors.New("the backup is encrypted to another key than the one given, or the header of the file is damaged")
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return plain, nil
}
