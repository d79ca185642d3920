package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestREADME runs the commands of the README in their order. Only the folders
// and the port are others.
func TestREADME(t *testing.T) {
	if _, err := exec.LookPath("openssl"); err != nil {
		t.Skip("the README verifies with openssl, which is not here")
	}
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var blocks []string
	for _, match := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		block := strings.ReplaceAll(match[1], "certplane serve ", "certplane serve --listen 127.0.0.1:0 ")
		block = regexp.MustCompile(`(\.\./\.\./)?\bbin/`).ReplaceAllString(block, dir+"/bin/")
		blocks = append(blocks, regexp.MustCompile(`\bdemo/`).ReplaceAllString(block, dir+"/demo/"))
	}
	if len(blocks) != 7 {
		t.Fatalf("%d blocks of commands in the README, want 7: change this test too", len(blocks))
	}
	build, server, install, start, issue, sign, refuse := blocks[0], blocks[1], blocks[2], blocks[3], blocks[4], blocks[5], blocks[6]

	execute(t, build)
	background(t, "certplane is ready", "sh", "-euc", "cd ../.. && exec "+server)
	execute(t, install)
	background(t, "", "sh", "-euc", "cd ../.. && exec "+start)
	if out := execute(t, issue); !strings.Contains(out, "web.crt: OK") {
		t.Errorf("the certificate does not verify:\n%s", out)
	}
	if out := execute(t, sign); !strings.Contains(out, "tls.crt: OK") {
		t.Errorf("the certificate does not verify:\n%s", out)
	}
	if out := execute(t, refuse); !strings.Contains(out, "the name api.example.org is not under example.com") || !strings.Contains(out, "exit code 4") {
		t.Errorf("a name that is not allowed:\n%s", out)
	}
}

func execute(t *testing.T, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
	cmd.Dir = filepath.Join("..", "..")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	return string(out)
}
