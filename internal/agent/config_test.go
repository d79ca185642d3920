package agent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/agent"
)

func load(t *testing.T, content string) (agent.Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return agent.LoadConfig(path)
}

const header = "apiVersion: config.certplane.dev/v1alpha1\nkind: AgentConfiguration\n"

func TestDefaultsFile(t *testing.T) {
	cfg, err := load(t, agent.DefaultsFile)
	if diff := cmp.Diff(agent.DefaultConfig(), cfg); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestConfigErrors(t *testing.T) {
	tests := []struct{ reason, content, want string }{
		{"another kind", "apiVersion: config.certplane.dev/v1alpha1\nkind: ServerConfiguration", `"AgentConfiguration"`},
		{"a slip", header + "nodename: x", `unknown field "nodename"`},
		{"a bad name", header + "nodeName: Edge_1", `nodeName: "Edge_1" is not a valid name`},
		{"no folder", header + `dataDir: ""`, "dataDir: missing"},
		{"no folder of manifests", header + `manifestsDir: ""`, "manifestsDir: missing"},
		{"two identities", header + "kubeconfig: a\nbootstrapKubeconfig: b", "kubeconfig and bootstrapKubeconfig: set one"},
		{"an action for nothing", header + "afterRefresh: [{pod: a/b, command: [x]}, {pod: a/b}]", "afterRefresh[1].command and signal"},
		{"a field of an action", header + "afterRefresh: [{pod: a/b, comand: [x]}]", `unknown field "afterRefresh[0].comand"`},
		{"an address", header + "metrics: {bindAddress: nowhere}", "metrics.bindAddress"},
		{"logging", header + "logging: {format: xml}", "logging.format"},
	}
	for _, tt := range tests {
		if _, err := load(t, tt.content); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.reason, err, tt.want)
		}
	}
}

func TestComplete(t *testing.T) {
	cfg, err := agent.DefaultConfig().Complete(func() (string, error) { return "Edge-1.Example.com\n", nil })
	if err != nil || cfg.NodeName != "edge-1.example.com" || cfg.VolumesDir != "/var/lib/certplane-agent/volumes" {
		t.Errorf("%+v, %v", cfg, err)
	}
	if _, err := agent.DefaultConfig().Complete(func() (string, error) { return "_", nil }); err == nil {
		t.Error("a host's name that is no node's is accepted")
	}
	if _, err := agent.DefaultConfig().Complete(func() (string, error) { return "", errors.New("no") }); err == nil {
		t.Error("a host without a name is accepted")
	}
	cfg = agent.DefaultConfig()
	cfg.NodeName, cfg.VolumesDir = "n", "v"
	if cfg, err = cfg.Complete(nil); err != nil || !filepath.IsAbs(cfg.VolumesDir) {
		t.Errorf("%+v, %v", cfg, err)
	}
}
