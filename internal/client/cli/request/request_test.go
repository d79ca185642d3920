package request

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/internal/client/cli/exit"
	"github.com/certplane/certplane/internal/pki"
)

var testNow = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// bench is a run that is being set up.
type bench struct {
	Config
	server *server
	stdout bytes.Buffer
	stderr bytes.Buffer
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{server: &server{t: t}}
	b.Config = Config{
		Options: Options{Subject: pki.Subject{CommonName: "alice", Organizations: []string{"dev"}}, Signer: "example.com/test"},
		KeyType: pki.ECDSAP256,
		Out:     t.TempDir(),
		Wait:    time.Minute,
		DryRun:  DryRunNone,
		Connect: func() (Requests, error) { return b.server, nil },
		Explain: func(name string) string { return "explain " + name },
		Again:   func(name, key string) string { return "again " + name + " " + key },
		Now:     func() time.Time { return testNow },
		Stdout:  &b.stdout,
		Stderr:  &b.stderr,
	}
	return b
}

func (b *bench) run() error { return Run(context.Background(), b.Config) }

func (b *bench) path(name string) string { return filepath.Join(b.Out, name) }

func TestIssued(t *testing.T) {
	ca := newAuthority(t)
	for _, keyType := range pki.KeyTypes() {
		t.Run(string(keyType), func(t *testing.T) {
			b := newBench(t)
			b.KeyType = keyType
			b.server.onWatch = append(b.server.onWatch, signed(ca))
			if err := b.run(); err != nil {
				t.Fatal(err)
			}
			key, err := loadKey(b.path(keyName))
			if err != nil {
				t.Fatal(err)
			}
			chain, err := pki.ParseCertificates(read(t, b.path(chainName)))
			if err != nil {
				t.Fatal(err)
			}
			if !pki.SameKey(chain[0].PublicKey, key.Public()) {
				t.Error("tls.crt is not for tls.key")
			}
			if got := chain[0].Subject.String(); got != "CN=alice,O=dev" {
				t.Errorf("subject = %q", got)
			}
			wantMode(t, b.path(keyName), 0o600)
			wantMode(t, b.path(chainName), 0o644)
			if b.stderr.Len() != 0 {
				t.Errorf("warnings for a certificate as asked for: %s", &b.stderr)
			}
		})
	}
}

// Text around the blocks is valid in the API but breaks TLS servers.
func TestChainFileHoldsBlocksOnly(t *testing.T) {
	b := newBench(t)
	b.server.onWatch = append(b.server.onWatch, signed(newAuthority(t)))
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, b.path(chainName)); !bytes.HasPrefix(got, []byte("-----BEGIN CERTIFICATE-----")) {
		t.Errorf("tls.crt begins with %q", got[:min(len(got), 40)])
	}
}

func TestKeyIsSavedBeforeSubmission(t *testing.T) {
	b := newBench(t)
	connect := b.Connect
	b.Connect = func() (Requests, error) {
		if _, err := os.Stat(b.path(keyName)); err == nil {
			t.Error("a key was made before it was known that there is a server")
		}
		return connect()
	}
	b.server.createErr = []error{errors.New("connection reset by peer")}
	b.Name = "alice"
	err := b.run()
	if err == nil {
		t.Fatal("no error")
	}
	if _, err := loadKey(b.path(keyName)); err != nil {
		t.Errorf("the request may have been stored, but its key is gone: %v", err)
	}
	wantNext(t, err, "again alice "+b.path(keyName))
}

func TestKeyOfUnstoredRequestIsForgotten(t *testing.T) {
	tests := []struct {
		reason string
		err    error
	}{
		{"the server refused it", apierrors.NewForbidden(resource, "", errors.New("user bob cannot create"))},
		{"its fields were wrong", apierrors.NewInvalid(certificatesv1.Kind("CertificateSigningRequest"), "", field.ErrorList{field.Required(field.NewPath("spec", "signerName"), "")})},
		{"nothing listened", &net.OpError{Op: "dial", Err: errors.New("connection refused")}},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			b := newBench(t)
			b.server.createErr = []error{tt.err}
			if err := b.run(); !errors.Is(err, tt.err) {
				t.Fatalf("error = %v, want %v", err, tt.err)
			}
			wantNone(t, b.path(keyName))
		})
	}
}

func TestInvalidNamesTheField(t *testing.T) {
	b := newBench(t)
	b.server.createErr = []error{apierrors.NewInvalid(certificatesv1.Kind("CertificateSigningRequest"), "alice", field.ErrorList{
		field.Invalid(field.NewPath("spec", "signerName"), "nope", "must be a fully qualified domain and path"),
		field.Invalid(field.NewPath("spec", "request"), strings.Repeat("A", 5000), "PEM block type must be CERTIFICATE REQUEST"),
	})}
	err := b.run()
	if err == nil || !strings.Contains(err.Error(), `spec.signerName: Invalid value: "nope"`) {
		t.Errorf("error = %v, want the field and why", err)
	}
	if !strings.Contains(err.Error(), "PEM block type") || len(err.Error()) > 1000 {
		t.Errorf("error of %d bytes = %v, want the second field shortened", len(err.Error()), err)
	}
}

func TestExistingKeyStays(t *testing.T) {
	b := newBench(t)
	before := writeKey(t, b.path(keyName))
	err := b.run()
	if err == nil || !strings.Contains(err.Error(), "not overwritten") {
		t.Errorf("error = %v", err)
	}
	wantNext(t, err, "--key "+b.path(keyName))
	if !bytes.Equal(read(t, b.path(keyName)), before) {
		t.Error("the key was overwritten")
	}
	if b.server.stored != nil {
		t.Error("a request was submitted")
	}
}

func TestGivenKey(t *testing.T) {
	tests := []struct {
		reason  string
		key     string
		beside  bool
		wantErr string
	}{
		{reason: "a key elsewhere stays there", key: "elsewhere.pem"},
		{reason: "a renewal uses the key beside the certificate", key: keyName},
		{reason: "a certificate is not put beside another key", key: "elsewhere.pem", beside: true, wantErr: "another key"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			b := newBench(t)
			b.KeyFile = b.path(tt.key)
			writeKey(t, b.KeyFile)
			if tt.beside {
				writeKey(t, b.path(keyName))
			}
			b.server.onWatch = append(b.server.onWatch, signed(newAuthority(t)))
			err := b.run()
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("error = %v, want %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.key != keyName {
				wantNone(t, b.path(keyName))
			}
			read(t, b.path(chainName))
		})
	}
}

func TestFolderIsCheckedFirst(t *testing.T) {
	b := newBench(t)
	b.Out = filepath.Join(b.Out, "file")
	if err := os.WriteFile(b.Out, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := b.run(); err == nil {
		t.Error("no error for a file as folder")
	}
	if b.server.stored != nil {
		t.Error("a request was submitted although its certificate could not be written")
	}
}

func TestMadeFolderIsPrivate(t *testing.T) {
	b := newBench(t)
	b.Out = filepath.Join(b.Out, "a", "b")
	b.Wait = 0
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	wantMode(t, b.Out, 0o700)
}

// The certificate is for the key that the test swapped in.
func TestForeignCertificateIsNotWritten(t *testing.T) {
	other, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	b := newBench(t)
	ca := newAuthority(t).with(func(i *issue) { i.key = other.Public() })
	b.server.onWatch = append(b.server.onWatch, signed(ca))
	if err := b.run(); err == nil || !strings.Contains(err.Error(), "another key") {
		t.Errorf("error = %v", err)
	}
	wantNone(t, b.path(chainName))
}

func TestClientDryRun(t *testing.T) {
	b := newBench(t)
	b.DryRun, b.Output = DryRunClient, "yaml"
	b.Connect = func() (Requests, error) { return nil, errors.New("a client dry run needs no server") }
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	var csr certificatesv1.CertificateSigningRequest
	if err := yaml.UnmarshalStrict(b.stdout.Bytes(), &csr); err != nil {
		t.Fatal(err)
	}
	if csr.Kind != "CertificateSigningRequest" || csr.GenerateName != "alice-" || csr.Spec.SignerName != "example.com/test" {
		t.Errorf("manifest = %s", &b.stdout)
	}
	if strings.Contains(b.stdout.String(), "status") {
		t.Errorf("the manifest has a status:\n%s", &b.stdout)
	}
	if _, err := loadKey(b.path(keyName)); err != nil {
		t.Errorf("the manifest's key was not saved: %v", err)
	}
}

func TestDryRunWithoutFolderSaysSo(t *testing.T) {
	b := newBench(t)
	b.DryRun, b.Output, b.Out = DryRunClient, "json", ""
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.stderr.String(), "private key") {
		t.Errorf("stderr = %q, want a warning about the key", &b.stderr)
	}
	if !strings.HasPrefix(b.stdout.String(), "{\n") {
		t.Errorf("output is not JSON: %s", &b.stdout)
	}
}

func TestServerDryRun(t *testing.T) {
	b := newBench(t)
	b.DryRun, b.Output, b.Out = DryRunServer, "yaml", ""
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	if b.server.stored != nil {
		t.Error("the request was stored")
	}
	if !strings.Contains(b.stdout.String(), "name: alice-x7k2p") {
		t.Errorf("output is not what the server answered:\n%s", &b.stdout)
	}
}

func TestNoWait(t *testing.T) {
	b := newBench(t)
	b.Wait = 0
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	if want := "again alice-x7k2p " + b.path(keyName); !strings.Contains(b.stdout.String(), want) {
		t.Errorf("stdout = %q, want %q", &b.stdout, want)
	}
	if b.server.lists != 0 {
		t.Error("it waited")
	}
}

func TestOutputIsTheIssuedObject(t *testing.T) {
	b := newBench(t)
	b.Output = "yaml"
	b.server.onWatch = append(b.server.onWatch, signed(newAuthority(t)))
	if err := b.run(); err != nil {
		t.Fatal(err)
	}
	var csr certificatesv1.CertificateSigningRequest
	if err := yaml.UnmarshalStrict(b.stdout.Bytes(), &csr); err != nil {
		t.Fatalf("stdout holds more than the object: %v", err)
	}
	if len(csr.Status.Certificate) == 0 {
		t.Error("the object has no certificate")
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != want {
		t.Errorf("mode of %s = %o, want %o", path, got, want)
	}
}

func wantNone(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is there (%v)", path, err)
	}
}

func wantNext(t *testing.T, err error, want string) {
	t.Helper()
	var known *exit.Error
	if !errors.As(err, &known) || !strings.Contains(strings.Join(known.Next, "\n"), want) {
		t.Errorf("error %#v advises %v, want %q", err, known, want)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeKey(t *testing.T, path string) []byte {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.EncodePrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return data
}
