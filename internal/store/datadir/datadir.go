// Package datadir names the places inside a server's data directory, and keeps
// servers from using a folder that belongs to another user or program.
package datadir

import (
	"errors"
	"fmt"
	"path/filepath"
)

// Env is the environment variable that names the data directory for commands
// that get no --data-dir.
const Env = "CERTPLANE_DATA_DIR"

// The files in the folder pki on which stored objects and issued certificates
// depend. CAs have a certificate and a key: theirs are names without an
// extension.
const (
	ClientRootCA      = "client-ca-root"
	ClientCA          = "client-ca"
	ServingCA         = "serving-ca"
	ServiceAccountKey = "service-account.key"
	EncryptionFile    = "encryption.yaml"
	// IssuingCAs has the CAs with which the signers of the API's clients have
	// signed, including CAs from the configuration. Their keys are not in it.
	IssuingCAs = "client-issuing-cas.crt"
	// NewEncryptionFile is renamed to EncryptionFile once the store has recorded its keys.
	NewEncryptionFile = EncryptionFile + ".new"
)

// Dir is the path of a data directory. Only the user of the server may read it, because it
// holds private keys.
type Dir string

// Host describes the machine and the user to Resolve.
type Host struct {
	Getenv func(string) string
	UID    int
}

// Resolve returns the absolute path of the data directory. The flag's value comes first,
// then $CERTPLANE_DATA_DIR. The default is /var/lib/certplane for root, and certplane in the
// user's data folder (XDG Base Directory Specification) for other users.
func Resolve(flag string, host Host) (Dir, error) {
	for _, dir := range []string{flag, host.Getenv(Env)} {
		if dir == "" {
			continue
		}
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("resolving the data directory: %w", err)
		}
		return Dir(abs), nil
	}
	if host.UID == 0 {
		return "/var/lib/certplane", nil
	}
	return userDir(host)
}

func userDir(host Host) (Dir, error) {
	// The specification ignores relative paths.
	if data := host.Getenv("XDG_DATA_HOME"); filepath.IsAbs(data) {
		return Dir(filepath.Join(data, "certplane")), nil
	}
	if home := host.Getenv("HOME"); home != "" {
		return Dir(filepath.Join(home, ".local", "share", "certplane")), nil
	}
	return "", errors.New("no data directory: set --data-dir or $" + Env)
}

// AdminKubeconfig is the kubeconfig file with all rights, written when the
// server is ready.
func (d Dir) AdminKubeconfig() string { return d.join(adminKubeconfigName) }

// Lock is the file that the running server holds locked.
func (d Dir) Lock() string { return d.join(lockName) }

// Etcd is the folder of the embedded etcd.
func (d Dir) Etcd() string { return d.join(etcdName) }

// Restored is a file with the time of the backup that the folder was restored from (RFC 3339),
// until the server has noted it in its store.
func (d Dir) Restored() string { return d.join(restoredName) }

// PKI is the folder of the certificates and private keys made on first start.
func (d Dir) PKI() string { return d.join(pkiName) }

// EncryptionKeys is the file with the keys that encrypt stored objects.
func (d Dir) EncryptionKeys() string { return filepath.Join(d.PKI(), EncryptionFile) }

// NewEncryptionKeys is that file while a first start makes it.
func (d Dir) NewEncryptionKeys() string { return filepath.Join(d.PKI(), NewEncryptionFile) }

func (d Dir) join(name string) string { return filepath.Join(string(d), name) }
