package rotate_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/client/cli/rotate"
	"github.com/certplane/certplane/internal/store/datadir"
	"github.com/certplane/certplane/internal/store/encryption"
)

const stored = "/registry/secrets/default/hidden"

// Wherever a rotation stops, all Secrets can be read, and the next rotation
// completes it.
func TestRotation(t *testing.T) {
	s := apitest.Start(t)
	admin := apitest.Client(t, s.Admin(t))
	create(t, admin)
	if raw := s.Stored(t, stored); !strings.HasPrefix(raw, "k8s:enc:secretbox:v1:key1:") || strings.Contains(raw, "hunter2") {
		t.Fatalf("a Secret is stored as %q", raw)
	}
	api, err := rotate.NewAPI(s.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg := rotate.Config{File: datadir.Dir(s.Config.DataDir).EncryptionKeys(), Out: io.Discard}
	for calls := 0; ; calls++ {
		cfg.Server = &breaking{Server: api, calls: calls}
		err := rotate.Run(t.Context(), cfg)
		check(t, admin)
		if err == nil {
			break
		}
		if !errors.Is(err, errBroken) {
			t.Fatal(err)
		}
	}
	if raw := s.Stored(t, stored); !strings.HasPrefix(raw, "k8s:enc:secretbox:v1:key2:") {
		t.Errorf("after a rotation a Secret is stored as %q", raw)
	}
	checkSettled(t, cfg.File)
	s.Restart(t)
	check(t, apitest.Client(t, s.Admin(t)))
}

// With --one-step a person copies the file to other servers after each change.
func TestOneStep(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	data, err := encryption.New().Encode()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	before := string(data)
	for range 3 {
		if err := rotate.Run(t.Context(), rotate.Config{File: file, Server: willing{}, OneStep: true, Out: io.Discard}); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if string(after) == before {
			t.Error("a step left the file as it was")
		}
		before = string(after)
	}
	checkSettled(t, file)
}

// A server that uses another file must not lose the keys of this one.
func TestWrongFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, []byte("kind: Config"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := rotate.Run(t.Context(), rotate.Config{File: file, Server: willing{}, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "must be EncryptionConfiguration") {
		t.Errorf("got %v", err)
	}
}

var errBroken = errors.New("the connection broke")

// breaking is a server that fails after a number of calls.
type breaking struct {
	rotate.Server
	calls int
}

func (b *breaking) next() error {
	b.calls--
	if b.calls < 0 {
		return errBroken
	}
	return nil
}

func (b *breaking) AwaitFile(ctx context.Context, hash string) error {
	if err := b.next(); err != nil {
		return err
	}
	return b.Server.AwaitFile(ctx, hash)
}

// StoreAgain fails after the work is done, as if the answer was lost.
func (b *breaking) StoreAgain(ctx context.Context, resources []string) (int, error) {
	n, err := b.Server.StoreAgain(ctx, resources)
	return n, errors.Join(err, b.next())
}

// willing is a server that does not fail.
type willing struct{}

func (willing) AwaitFile(context.Context, string) error           { return nil }
func (willing) StoreAgain(context.Context, []string) (int, error) { return 0, nil }

func create(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	immutable := true
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, StringData: map[string]string{"password": "hunter2"}, Immutable: &immutable}
	if _, err := admin.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func check(t *testing.T, admin kubernetes.Interface) {
	t.Helper()
	secret, err := admin.CoreV1().Secrets("default").Get(t.Context(), "hidden", metav1.GetOptions{})
	if err != nil {
		t.Fatalf("reading a Secret: %v", err)
	}
	if string(secret.Data["password"]) != "hunter2" {
		t.Errorf("the Secret is now %q", secret.Data)
	}
}

func checkSettled(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := encryption.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	if keys.Stage() != encryption.Settled || strings.Contains(string(data), "name: key1\n") {
		t.Errorf("after a rotation the keys are:\n%s", data)
	}
}
