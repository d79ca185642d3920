package keystore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/keystore"
	"github.com/certplane/certplane/internal/pki"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// ca returns a fresh CA's certificate and key in PEM.
func ca(t *testing.T, kind pki.KeyType) (cert, key string) {
	t.Helper()
	signer, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot("test CA", signer, pki.DefaultRootLifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.EncodePrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeCertificates(root.Certificate())), string(data)
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestOpenFiles(t *testing.T) {
	cert, key := ca(t, pki.ECDSAP256)
	otherCert, otherKey := ca(t, pki.Ed25519)
	secret := strings.Split(key, "\n")[1]
	tests := []struct {
		reason    string
		cert, key string
		want      string // part of the error, after the names of the files
		names     []string
	}{
		{reason: "a pair", cert: cert, key: key},
		{reason: "one file for both", cert: key + cert, key: key + cert},
		{reason: "empty certificate file", cert: "", key: key, want: "must contain at least one CERTIFICATE PEM block", names: []string{"ca.crt"}},
		{reason: "a key in place of the certificate", cert: key, key: key, want: "must contain at least one CERTIFICATE PEM block", names: []string{"ca.crt"}},
		{reason: "half written", cert: cert[:len(cert)/2], key: key, want: "must contain at least one CERTIFICATE PEM block", names: []string{"ca.crt"}},
		{reason: "no key", cert: cert, key: cert, want: "no private key found", names: []string{"ca.key"}},
		{reason: "encrypted key", cert: cert, key: strings.ReplaceAll(key, "PRIVATE", "ENCRYPTED PRIVATE"), want: "private key is encrypted", names: []string{"ca.key"}},
		{reason: "broken key", cert: cert, key: strings.ReplaceAll(key, "PRIVATE", "EC PRIVATE"), want: "parsing EC PRIVATE KEY", names: []string{"ca.key"}},
		{reason: "key of another CA", cert: cert, key: otherKey, want: "private key does not belong", names: []string{"ca.crt", "ca.key"}},
		{reason: "unrelated certificates", cert: cert + otherCert, key: key, want: "nothing may follow it", names: []string{"ca.crt"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			files, err := keystore.OpenFiles(write(t, "ca.crt", tc.cert), write(t, "ca.key", tc.key))
			if tc.want == "" {
				assertIssues(t, files, err)
				return
			}
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range append(tc.names, tc.want) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error shows the key: %v", err)
			}
		})
	}
}

func assertIssues(t *testing.T, files *keystore.Files, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	authority, err := files.Current()
	if err != nil {
		t.Fatal(err)
	}
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := authority.Issue(pki.Subject{CommonName: "leaf"}, key.Public(), pki.ClientUsages(), time.Hour, now); err != nil {
		t.Error(err)
	}
}

func TestOpenFilesThatAreNotThere(t *testing.T) {
	cert, _ := ca(t, pki.ECDSAP256)
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, files := range [][2]string{{missing, missing}, {write(t, "ca.crt", cert), missing}} {
		_, err := keystore.OpenFiles(files[0], files[1])
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("error is %v, want one that names %s", err, missing)
		}
	}
}
