package server_test

import (
	"context"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/kms/pkg/service"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/run/server"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/encryption"
)

// The keys are made once, are readable only by their owner, and are kept.
func TestEncryptionKeysAreMadeOnFirstStart(t *testing.T) {
	s := apitest.Start(t)
	file := datadir.Dir(s.Config.DataDir).EncryptionKeys()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("others can read the keys: %v", info.Mode())
	}
	before := readKeys(t, file)
	s.Restart(t)
	if after := readKeys(t, file); after.Fingerprint() != before.Fingerprint() {
		t.Error("a second start made other keys")
	}
}

// Certificates are encrypted because they can have the passwords of keystores
// in them.
func TestCertificatesAreEncrypted(t *testing.T) {
	s := apitest.Start(t)
	client, err := dynamic.NewForConfig(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	certificate := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cert-manager.io/v1", "kind": "Certificate", "metadata": map[string]any{"name": "keystore"},
		"spec": map[string]any{
			"secretName": "keystore", "commonName": "keystore", "issuerRef": map[string]any{"name": "nobody"},
			"keystores": map[string]any{"pkcs12": map[string]any{"create": true, "password": "hunter2hunter2"}},
		},
	}}
	certificates := client.Resource(schema.GroupVersionResource{Group: "cert-manager.io", Version: "v1", Resource: "certificates"}).Namespace("default")
	made, err := certificates.Create(t.Context(), certificate, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := s.Stored(t, "/registry/cert-manager.io/certificates/default/keystore")
	if !strings.HasPrefix(stored, "k8s:enc:secretbox:v1:key1:") || strings.Contains(stored, "hunter2") {
		t.Errorf("stored is %q", stored)
	}
	if got, _, _ := unstructured.NestedString(made.Object, "spec", "keystores", "pkcs12", "password"); got != "hunter2hunter2" {
		t.Errorf("the password is %q", got)
	}
}

// A start that was killed between writing to the store and keeping the file
// continues with the same keys.
func TestEncryptionKeysOfAnInterruptedStart(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	file := datadir.Dir(s.Config.DataDir).EncryptionKeys()
	before := readKeys(t, file)
	if err := os.Rename(file, file+".new"); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if after := readKeys(t, file); after.Fingerprint() != before.Fingerprint() {
		t.Error("the start after an interrupted one made other keys")
	}
}

// New keys beside data that needs the lost ones would hide the loss until a
// client reads a Secret.
func TestLostEncryptionKeys(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	file := datadir.Dir(s.Config.DataDir).EncryptionKeys()
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if err := s.RestartFails(t); err == nil || !strings.Contains(err.Error(), "the encryption key is missing") ||
		!strings.Contains(err.Error(), "Restore the whole folder from a backup") {
		t.Errorf("a start without its keys says %v", err)
	}
	writeFile(t, file, kept)
	s.Restart(t)
}

func TestEncryptionConfigFile(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"secretbox", "aesgcm", "aescbc"} {
		t.Run(provider, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "encryption.yaml")
			secret := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32)))
			writeFile(t, file, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"+
				"- resources: [clusterroles.rbac.authorization.k8s.io]\n  providers:\n  - "+provider+": {keys: [{name: k, secret: "+secret+"}]}\n"))
			s := apitest.Start(t, func(c *server.Config) { c.Encryption.ConfigFile = file })
			role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "hidden", Labels: map[string]string{"value": "hunter2"}}}
			if _, err := apitest.Client(t, s.Admin(t)).RbacV1().ClusterRoles().Create(t.Context(), role, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			stored := s.Stored(t, "/registry/clusterroles/hidden")
			if !strings.HasPrefix(stored, "k8s:enc:"+provider+":v1:k:") || strings.Contains(stored, "hunter2") {
				t.Errorf("stored is %q", stored)
			}
		})
	}
}

// A key management service keeps the key, and the server never sees it.
func TestEncryptionByKMS(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "kms.sock")
	plugin := service.NewGRPCService(socket, time.Second, xor{})
	go plugin.ListenAndServe()
	t.Cleanup(plugin.Close)
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	writeFile(t, file, []byte("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"+
		"- resources: [secrets]\n  providers:\n  - kms: {apiVersion: v2, name: test, endpoint: 'unix://"+socket+"'}\n"))
	s := apitest.Start(t, func(c *server.Config) { c.Encryption.ConfigFile = file })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, StringData: map[string]string{"password": "hunter2"}}
	if _, err := apitest.Client(t, s.Admin(t)).CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stored := s.Stored(t, "/registry/secrets/default/hidden")
	if !strings.HasPrefix(stored, "k8s:enc:kms:v2:test:") || strings.Contains(stored, "hunter2") {
		t.Errorf("stored is %q", stored)
	}
}

// xor is a key management service for tests.
type xor struct{}

func (xor) Status(context.Context) (*service.StatusResponse, error) {
	return &service.StatusResponse{Version: "v2", Healthz: "ok", KeyID: "1"}, nil
}

func (xor) Encrypt(_ context.Context, _ string, plain []byte) (*service.EncryptResponse, error) {
	return &service.EncryptResponse{Ciphertext: flip(plain), KeyID: "1"}, nil
}

func (xor) Decrypt(_ context.Context, _ string, request *service.DecryptRequest) ([]byte, error) {
	return flip(request.Ciphertext), nil
}

func flip(data []byte) []byte {
	flipped := make([]byte, len(data))
	for i, b := range data {
		flipped[i] = ^b
	}
	return flipped
}

func readKeys(t *testing.T, file string) *encryption.Keys {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := encryption.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
