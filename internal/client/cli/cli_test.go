package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/certplane/certplane/internal/client/cli/translations"
	"github.com/certplane/certplane/internal/store/datadir"
)

// result is the result of a command line.
type result struct {
	code           int
	stdout, stderr string
}

// certplane runs a command line with its own home folder and without a server.
func certplane(t *testing.T, args ...string) result {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "")
	t.Setenv(datadir.Env, t.TempDir())
	streams, _, out, errOut := genericiooptions.NewTestIOStreams()
	root := &cobra.Command{Use: "certplane"}
	group := &cobra.Command{Use: "group", Short: "Stands for config and the like"}
	group.AddCommand(&cobra.Command{Use: "verb", Run: func(*cobra.Command, []string) {}})
	root.AddCommand(NewKubectl(streams), NewRequest(streams), NewVersion(streams), group,
		NewApprove(streams), NewDeny(streams), NewRenew(streams), NewRevoke(streams), NewStatus(streams), NewInspect(streams), NewGrant(streams), NewWhoCan(streams))
	root.SetArgs(args)
	root.SetOut(out)
	code := Execute(context.Background(), root, errOut)
	return result{code, out.String(), errOut.String()}
}

func TestRequestUsage(t *testing.T) {
	ok := []string{"request", "--signer", "example.com/s", "--cn", "alice", "--dry-run", "client"}
	tests := []struct {
		reason string
		args   []string
		want   string
	}{
		{"no signer", []string{"request", "--cn", "alice"}, "--signer is required"},
		{"nobody to certify", []string{"request", "--signer", "example.com/s"}, "--cn is required"},
		{"not an address", append(ok, "--ip", "10.0.0"), `--ip "10.0.0" is not an IP address`},
		{"an address in the wrong flag", append(ok, "--dns", "10.0.0.1"), "give it with --ip"},
		{"a URL in the wrong flag", append(ok, "--dns", "https://web.example.com/"), `--dns "https://web.example.com/" is a URL: give the name alone, --dns web.example.com`},
		{"a port", append(ok, "--dns", "web:443"), `--dns "web:443" has a port`},
		{"a path", append(ok, "--dns", "web.example.com/a"), "is not a DNS name"},
		{"not a URI", append(ok, "--uri", "https://a b/"), "--uri: "},
		{"a relative URI", append(ok, "--uri", "web"), `--uri "web" is not absolute`},
		{"too short a life", append(ok, "--expires", "9m59s"), "--expires is 9m59s, but the certificates API takes no less than 10m (600 s)"},
		{"no life at all", append(ok, "--expires", "0"), "--expires is 0s"},
		{"longer than the API can say", append(ok, "--expires", "600000h"), "no more than 596523h14m7s"},
		{"finer than the API can say", append(ok, "--expires", "1h0m0.5s"), "whole seconds"},
		{"not a duration", append(ok, "--expires", "1 day"), `invalid argument "1 day" for "--expires"`},
		{"unknown key type", append(ok, "--key-type", "dsa"), "use one of ecdsa-p256"},
		{"two keys", append(ok, "--key", "k", "--key-type", "rsa2048"), "--key-type is for a new key"},
		{"unknown dry run", append(ok, "--dry-run", "maybe"), "--dry-run is \"maybe\", want none, client or server"},
		{"unknown output", append(ok, "-o", "wide"), "--output is \"wide\", want yaml or json"},
		{"nothing to approve", append(ok, "--approve"), "--approve cannot go with --dry-run"},
		{"time runs forward", append(ok, "--wait", "-1s"), "--wait is -1s"},
		{"unknown flag", append(ok, "--approved"), "unknown flag: --approved"},
		{"an argument", append(ok, "alice"), `unknown command "alice"`},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got := certplane(t, tt.args...)
			if got.code != 2 {
				t.Errorf("exit code = %d, want 2", got.code)
			}
			if !strings.HasPrefix(got.stderr, "Error: ") || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("stderr = %q, want %q", got.stderr, tt.want)
			}
			if !strings.Contains(got.stderr, "See 'certplane request --help'.") {
				t.Errorf("stderr = %q does not point to the help", got.stderr)
			}
			if strings.Contains(got.stdout+got.stderr, "Usage:") {
				t.Error("the usage text was dumped")
			}
		})
	}
}

func TestRequestManifest(t *testing.T) {
	dir := t.TempDir()
	got := certplane(t, "request", "--signer", "example.com/s", "--cn", "web", "--dns", "a.example.com,b.example.com",
		"--ip", "10.0.0.1", "--uri", "spiffe://example.org/web", "--usage", "server auth", "--expires", "24h",
		"--name", "web-1", "--out", dir, "--dry-run", "client")
	if got.code != 0 {
		t.Fatalf("exit code %d: %s", got.code, got.stderr)
	}
	for _, want := range []string{"name: web-1\n", "expirationSeconds: 86400\n", "signerName: example.com/s\n", "usages:\n  - server auth\n"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("manifest lacks %q:\n%s", want, got.stdout)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "tls.key")); err != nil {
		t.Error(err)
	}
}

func TestRequestWithoutServer(t *testing.T) {
	dir := t.TempDir()
	tests := []struct {
		reason string
		args   []string
		want   string
	}{
		{"no kubeconfig anywhere", nil, "no kubeconfig found"},
		{"a data folder without a server", []string{"--data-dir", dir}, "no server has run in this data folder"},
		{"a kubeconfig that is not there", []string{"--kubeconfig", filepath.Join(dir, "none")}, "reading the kubeconfig"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			out := t.TempDir()
			args := append([]string{"request", "--signer", "example.com/s", "--cn", "alice", "--out", out}, tt.args...)
			got := certplane(t, args...)
			if got.code != 1 || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("exit code %d, stderr = %q, want 1 and %q", got.code, got.stderr, tt.want)
			}
			if entries, err := os.ReadDir(out); err != nil || len(entries) != 0 {
				t.Errorf("files were left behind: %v (%v)", entries, err)
			}
		})
	}
}

func TestUnknownVerb(t *testing.T) {
	tests := []struct {
		reason     string
		args       []string
		suggestion string
		help       string
	}{
		{"of the program", []string{"requst"}, "\trequest\n", "See 'certplane --help'."},
		{"of a group", []string{"group", "verp"}, "\tverb\n", "See 'certplane group --help'."},
		{"of a group, like nothing", []string{"group", "x"}, "", "See 'certplane group --help'."},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got := certplane(t, tt.args...)
			if got.code != 2 || !strings.Contains(got.stderr, tt.suggestion) || !strings.Contains(got.stderr, tt.help) {
				t.Errorf("exit code %d, stderr = %q, want 2, %q and %q", got.code, got.stderr, tt.suggestion, tt.help)
			}
		})
	}
	if got := certplane(t, "group"); got.code != 0 || !strings.Contains(got.stdout, "Usage:") {
		t.Errorf("a group alone: exit code %d, stdout = %q, want 0 and its help", got.code, got.stdout)
	}
}

func TestVersion(t *testing.T) {
	for output, want := range map[string]string{"": "certplane ", "json": `"version": "`, "yaml": "\nversion: "} {
		t.Run("output "+output, func(t *testing.T) {
			got := certplane(t, "version", "-o", output)
			if got.code != 0 || !strings.Contains("\n"+got.stdout, want) {
				t.Errorf("exit code %d, stdout = %q, want %q", got.code, got.stdout, want)
			}
		})
	}
	if got := certplane(t, "version", "-o", "xml"); got.code != 2 {
		t.Errorf("exit code of an unknown output = %d, want 2", got.code)
	}
}

func TestAgain(t *testing.T) {
	streams, _, _, _ := genericiooptions.NewTestIOStreams()
	cmd := NewRequest(streams)
	err := cmd.Flags().Parse([]string{"--signer", "example.com/s", "--cn", "it's alice", "--org", "a,b", "--org", "c",
		"--dns", "x.example.com,y.example.com", "--out", "my keys", "--approve", "--key-type", "rsa2048", "--wait", "5s"})
	if err != nil {
		t.Fatal(err)
	}
	want := `request --signer example.com/s --cn 'it'\''s alice' --org a,b --org c ` +
		`--dns x.example.com --dns y.example.com --out 'my keys' --wait 5s --name it-s-alice-1 --key 'my keys/tls.key'`
	if got := againCommand(cmd, "it-s-alice-1", "my keys/tls.key"); got != want {
		t.Errorf("againCommand() = %s\nwant %s", got, want)
	}
}

func TestTakeDataDir(t *testing.T) {
	tests := []struct {
		reason string
		args   string
		dir    string
		rest   string
		fails  bool
	}{
		{reason: "none", args: "get csr", rest: "get csr"},
		{reason: "in front", args: "--data-dir d get csr", dir: "d", rest: "get csr"},
		{reason: "behind", args: "get csr --data-dir=d -o wide", dir: "d", rest: "get csr -o wide"},
		{reason: "the last one counts", args: "--data-dir a --data-dir b get", dir: "b", rest: "get"},
		{reason: "not kubectl's own arguments", args: "exec p -- sh --data-dir d", rest: "exec p -- sh --data-dir d"},
		{reason: "no value", args: "get --data-dir", fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			dir, rest, err := takeDataDir(strings.Fields(tt.args))
			if (err != nil) != tt.fails {
				t.Fatalf("error = %v", err)
			}
			if got := strings.Join(rest, " "); err == nil && (dir != tt.dir || got != tt.rest) {
				t.Errorf("takeDataDir = %q, %q, want %q, %q", dir, got, tt.dir, tt.rest)
			}
		})
	}
}

func TestDefaultKubeconfig(t *testing.T) {
	withServer, empty := t.TempDir(), t.TempDir()
	admin := filepath.Join(withServer, "admin.kubeconfig")
	if err := os.WriteFile(admin, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		reason           string
		flag, env, dirIs string
		want             string
	}{
		{reason: "the default folder's server", dirIs: withServer, want: admin},
		{reason: "no server has run there", dirIs: empty, want: ""},
		{reason: "KUBECONFIG wins over the default folder", env: "/k", dirIs: withServer, want: ""},
		{reason: "a folder given by hand wins over KUBECONFIG", flag: withServer, env: "/k", dirIs: empty, want: admin},
		{reason: "a folder given by hand is not passed over", flag: empty, dirIs: withServer, want: filepath.Join(empty, "admin.kubeconfig")},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Setenv("KUBECONFIG", tt.env)
			t.Setenv(datadir.Env, tt.dirIs)
			got, err := defaultKubeconfig(tt.flag)
			if err != nil || got != tt.want {
				t.Errorf("defaultKubeconfig(%q) = %q, %v, want %q", tt.flag, got, err, tt.want)
			}
		})
	}
}

// Other verbs than kubectl must not load its translations at each start.
func TestTranslationsAreNotLoaded(t *testing.T) {
	if translations.Late != nil {
		t.Errorf("the packages of kubectl have initialized before ours: %v", translations.Late)
	}
}

func TestInvokedAsKubectl(t *testing.T) {
	for argv0, want := range map[string]bool{
		"kubectl": true, "/usr/local/bin/kubectl": true, "kubectl.exe": true,
		"certplane": false, "/opt/kubectl/certplane": false, "": false,
	} {
		if got := InvokedAsKubectl(argv0); got != want {
			t.Errorf("InvokedAsKubectl(%q) = %t, want %t", argv0, got, want)
		}
	}
}

func TestKubectlTree(t *testing.T) {
	tests := []struct {
		reason string
		args   []string
		want   string
	}{
		{"its version is the libraries', stamped or not", []string{"version", "--client"}, "Client Version: v1.37."},
		{"in JSON too", []string{"version", "--client", "-o", "json"}, `"minor": "37"`},
		{"help calls it by what was typed", []string{"certificate", "--help"}, "certplane kubectl certificate SUBCOMMAND"},
		{"our flag is among the global ones", []string{"options"}, "--data-dir"},
		{"shells can complete its flags", []string{"__complete", "certificate", "approve", "--fo"}, "--force"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			t.Setenv("HOME", t.TempDir())
			t.Setenv("KUBECONFIG", "")
			streams, _, out, _ := genericiooptions.NewTestIOStreams()
			root := newKubectlTree(streams, "certplane kubectl", append([]string{"kubectl"}, tt.args...))
			root.SetArgs(tt.args)
			root.SetOut(out)
			root.SetErr(new(bytes.Buffer))
			if err := root.Execute(); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("output = %s\nwant %q", out, tt.want)
			}
		})
	}
}

func TestKubectlVersionByAlias(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("KUBECONFIG", "")
	kuberc := filepath.Join(home, "kuberc")
	alias := "apiVersion: kubectl.config.k8s.io/v1beta1\nkind: Preference\naliases:\n- name: ver\n  command: version\n"
	if err := os.WriteFile(kuberc, []byte(alias), 0o600); err != nil {
		t.Fatal(err)
	}
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	argv := []string{"kubectl", "ver", "--client", "--kuberc", kuberc}
	root := newKubectlTree(streams, "kubectl", argv)
	root.SetArgs(argv[1:])
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "Client Version: v1.37.") {
		t.Errorf("output = %s", out)
	}
}

func TestKubectlCompletion(t *testing.T) {
	tests := []struct {
		reason string
		args   []string
		want   string
	}{
		{"verbs", []string{"__complete", "kubectl", "certif"}, "certificate\t"},
		{"flags", []string{"__complete", "kubectl", "certificate", "approve", "--fo"}, "--force\t"},
		{"values", []string{"__complete", "kubectl", "get", "--output", "jso"}, "json\n"},
		{"request's own flags", []string{"__complete", "request", "--key-type", ""}, "ecdsa-p256\n"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			got := certplane(t, tt.args...)
			if got.code != 0 || !strings.Contains(got.stdout, tt.want) {
				t.Errorf("exit code %d, stdout = %q, want %q", got.code, got.stdout, tt.want)
			}
		})
	}
}

func TestExplainFatal(t *testing.T) {
	tests := []struct{ reason, msg, want string }{
		{"kubectl's message ends its line", "error: no", "error: no\n"},
		{"nothing to say", "", ""},
		{"no kubeconfig led to a server", "The connection to the server localhost:8080 was refused\n",
			"The connection to the server localhost:8080 was refused\n" + noServerAdvice + "\n"},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			if got := explainFatal(tt.msg); got != tt.want {
				t.Errorf("explainFatal(%q) = %q, want %q", tt.msg, got, tt.want)
			}
		})
	}
}
