package authn

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

// Every file that kube-apiserver accepts as a key of service accounts, and the
// server's own.
func TestFormerKeys(t *testing.T) {
	encode := func(blockType string, der []byte, err error) []byte {
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: der})
	}
	for _, keyType := range []pki.KeyType{pki.ECDSAP256, pki.RSA2048} {
		key, err := pki.GenerateKey(keyType)
		if err != nil {
			t.Fatal(err)
		}
		private, err := pki.EncodePrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		root, err := pki.NewRoot(pki.UnrecordedSigning, "keys", key, time.Hour, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		public, err := x509.MarshalPKIXPublicKey(key.Public())
		for reason, data := range map[string][]byte{
			"private":     private,
			"public":      encode("PUBLIC KEY", public, err),
			"certificate": pki.EncodeCertificates(root.Certificate()),
		} {
			t.Run(string(keyType)+" "+reason, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "key")
				if err := os.WriteFile(file, data, 0o600); err != nil {
					t.Fatal(err)
				}
				got, err := ServiceAccounts{FormerKeyFiles: []string{file}}.formerKeys()
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != 1 || !got[0].(interface{ Equal(crypto.PublicKey) bool }).Equal(key.Public()) {
					t.Errorf("got %v", got)
				}
			})
		}
	}
}
