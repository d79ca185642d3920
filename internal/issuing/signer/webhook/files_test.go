package webhook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/certplane/certplane/internal/issuing/signer/webhook/webhooktest"
)

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read1(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestReload: what is in the files counts from the next call on.
func TestReload(t *testing.T) {
	f, other := newFixture(t), webhooktest.Start(t)
	f.wantIssued(t)

	write(t, f.TokenFile, "another")
	if pending := f.wantPending(t, "1"); !strings.Contains(pending.Error(), "401") {
		t.Errorf("with a wrong token: %v", pending)
	}
	write(t, f.TokenFile, f.Token)
	f.wantIssued(t)

	ca := read1(t, f.CAFile)
	write(t, f.CAFile, read1(t, other.CAFile))
	if pending := f.wantPending(t, "1"); !strings.Contains(pending.Error(), "unknown authority") {
		t.Errorf("with a wrong CA: %v", pending)
	}
	write(t, f.CAFile, ca)
	f.wantIssued(t)

	cert, key := read1(t, f.CertFile), read1(t, f.KeyFile)
	write(t, f.CertFile, read1(t, other.CertFile))
	write(t, f.KeyFile, read1(t, other.KeyFile))
	if pending := f.wantPending(t, "1"); !strings.Contains(pending.Error(), "tls: ") {
		t.Errorf("with a wrong client certificate: %v", pending)
	}
	write(t, f.CertFile, cert)
	write(t, f.KeyFile, key)
	f.wantIssued(t)
}

// TestStaleFiles: files that cannot be used stop nothing.
func TestStaleFiles(t *testing.T) {
	f, other := newFixture(t), webhooktest.Start(t)
	tests := []struct {
		reason string
		path   string
		damage func()
	}{
		{"a certificate without its key", f.CertFile, func() { write(t, f.CertFile, read1(t, other.CertFile)) }},
		{"a key that is not there", f.KeyFile, func() { os.Remove(f.KeyFile) }},
		{"an empty token", f.TokenFile, func() { write(t, f.TokenFile, "\n") }},
		{"a bundle without certificates", f.CAFile, func() { write(t, f.CAFile, "soon") }},
	}
	for i, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			was := read1(t, tc.path)
			tc.damage()
			f.wantIssued(t)
			write(t, tc.path, was)
			if got := testutil.ToFloat64(f.caller.metrics.staleFiles); got != float64(i+1) {
				t.Errorf("certplane_webhook_stale_files_total is %v, want %d", got, i+1)
			}
		})
	}
}

// TestUnusableFiles: at a start, there is nothing from before.
func TestUnusableFiles(t *testing.T) {
	good := newFixture(t)
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "file")
		write(t, path, content)
		return path
	}
	tests := []struct {
		reason string
		change func(*Settings)
		want   string
	}{
		{"no such CA file", func(s *Settings) { s.CAFile = "nowhere" }, "caFile: open nowhere"},
		{"a CA file without certificates", func(s *Settings) { s.CAFile = file("x") }, "caFile: "},
		{"no such certificate", func(s *Settings) { s.CertFile = "nowhere" }, "certFile: open nowhere"},
		{"no such key", func(s *Settings) { s.KeyFile = "nowhere" }, "keyFile: open nowhere"},
		{"a key of another", func(s *Settings) { s.KeyFile = webhooktest.Start(t).KeyFile }, "certFile and keyFile: "},
		{"no such token", func(s *Settings) { s.TokenFile = "nowhere" }, "tokenFile: open nowhere"},
		{"a token in two lines", func(s *Settings) { s.TokenFile = file("s3cr3t-one\ns3cr3t-two") }, "must hold one line of printable ASCII"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			settings := good.caller.settings
			tc.change(&settings)
			_, err := New(Config{Settings: settings})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one with %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "s3cr3t") {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
}
