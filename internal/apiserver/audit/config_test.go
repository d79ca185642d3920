package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		reason  string
		change  func(*Config)
		wantErr string
	}{
		{"the defaults hold", func(*Config) {}, ""},
		{"a log alone", func(c *Config) { c.Log.Path = "-" }, ""},
		{"a policy that nobody follows", func(c *Config) { c.PolicyFile = "p" }, "audit.policyFile"},
		{"unknown format", func(c *Config) { c.Log.Format = "xml" }, "audit.log.format"},
		{"unknown mode", func(c *Config) { c.Log.Mode = "later" }, "audit.log.mode"},
		{"unknown webhook mode", func(c *Config) { c.Webhook.Mode = "" }, "audit.webhook.mode"},
		{"negative age", func(c *Config) { c.Log.MaxAge = -1 }, "audit.log.maxAge"},
		{"no room to wait in", func(c *Config) { c.Webhook.Batch.BufferSize = 0 }, "audit.webhook.batch.bufferSize"},
		{"no waiting", func(c *Config) { c.Webhook.Batch.MaxWait.Duration = 0 }, "audit.webhook.batch.maxWait"},
		{"no pause", func(c *Config) { c.Webhook.InitialBackoff.Duration = 0 }, "audit.webhook.initialBackoff"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			cfg := DefaultConfig()
			tt.change(&cfg)
			checkError(t, cfg.Validate(), tt.wantErr)
		})
	}
}

func TestNewRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const header = "apiVersion: audit.k8s.io/v1\nkind: Policy\n"
	tests := []struct {
		reason  string
		change  func(*Config)
		wantErr string
	}{
		{"no policy file", func(c *Config) { c.PolicyFile = filepath.Join(dir, "nosuch") }, "reading audit.policyFile"},
		{"mistyped condition", func(c *Config) { c.PolicyFile = write("typo", header+"rules: [{level: None, user: [x]}]") }, `unknown field "rules[0].user"`},
		{"no rules", func(c *Config) { c.PolicyFile = write("empty", header) }, "0 rules"},
		{"the log's folder is a file", func(c *Config) { c.Log.Path = filepath.Join(write("file", ""), "audit.log") }, "opening audit.log.path"},
		{"no kubeconfig", func(c *Config) { c.Webhook.Kubeconfig = filepath.Join(dir, "nosuch") }, "using audit.webhook.kubeconfig"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			cfg := DefaultConfig()
			cfg.Log.Path = filepath.Join(dir, "log")
			tt.change(&cfg)
			_, _, err := New(cfg)
			checkError(t, err, tt.wantErr)
		})
	}
}

func TestNewWithoutTarget(t *testing.T) {
	rules, backend, err := New(DefaultConfig())
	if rules != nil || backend != nil || err != nil {
		t.Errorf("got %v, %v, %v: nothing is to be recorded", rules, backend, err)
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" && err != nil {
		t.Error(err)
	}
	if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("got %v, want it to name %q", err, want)
	}
}
