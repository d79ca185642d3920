// Package hack has tests of the scripts beside it.
package hack

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestVulncheck(t *testing.T) {
	for _, test := range []struct {
		name, tool, database string
		wantCode             int
		want                 string
	}{
		{name: "nothing is found", tool: `echo No vulnerabilities found.`},
		{name: "something is found", tool: `echo "Vulnerability #1: GO-2026-0001"; exit 3`, wantCode: 3, want: "GO-2026-0001"},
		{
			name: "the database cannot be reached",
			tool: `echo 'govulncheck: fetching vulnerabilities: Get "https://vuln.go.dev/index/modules.json.gz": dial tcp: no route' >&2; exit 1`,
			want: "vulncheck: not done, because https://vuln.go.dev cannot be reached",
		},
		{
			name: "a proxy refuses",
			tool: `echo 'govulncheck: HTTP GET https://vuln.go.dev/index/db.json.gz returned unexpected status: 403 Forbidden' >&2; exit 1`,
			want: "403 Forbidden",
		},
		{
			name: "a mirror cannot be reached", database: "https://mirror.example",
			tool: `echo 'govulncheck: Get "https://mirror.example/index/db.json.gz": EOF' >&2; exit 1`,
			want: "vulncheck: not done, because https://mirror.example cannot be reached",
		},
		{name: "the tool breaks", tool: `echo "govulncheck: loading packages: broken" >&2; exit 1`, wantCode: 1, want: "loading packages: broken"},
		{name: "the tool is called in a wrong way", tool: `echo usage >&2; exit 2`, wantCode: 2, want: "usage"},
	} {
		t.Run(test.name, func(t *testing.T) {
			bin := t.TempDir()
			script(t, filepath.Join(bin, "govulncheck"), test.tool)
			script(t, filepath.Join(bin, "go"), "echo "+filepath.Join(bin, "govulncheck"))
			code, output := run(t, bin, test.database)
			if code != test.wantCode || !strings.Contains(output, test.want) || test.want == "" && output != "" {
				t.Errorf("ended with %d and said %q, want %d and %q", code, output, test.wantCode, test.want)
			}
		})
	}
	t.Run("there is no tool", func(t *testing.T) {
		bin := t.TempDir()
		script(t, filepath.Join(bin, "go"), "exit 1")
		if code, output := run(t, bin, ""); code != 1 {
			t.Errorf("ended with %d and said %q, want 1", code, output)
		}
	})
}

func script(t *testing.T, path, commands string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+commands+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
}

// run runs vulncheck.sh with the programs in bin first in its path.
func run(t *testing.T, bin, database string) (code int, output string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "./vulncheck.sh")
	command.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "GOVULNDB="+database)
	out, err := command.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return command.ProcessState.ExitCode(), string(out)
}
