package acmeclients

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/certplane/certplane/internal/apitest/docpage"
)

// TestClients has all clients, one after the other: they listen at the same ports.
func TestClients(t *testing.T) {
	w := newWorld(t)
	w.trust(t)
	for _, c := range programs {
		t.Run(c.heading, func(t *testing.T) { w.testProgram(t, c) })
	}
	for _, c := range []struct {
		name string
		test func(*testing.T, *world)
	}{
		{"x-crypto", testXCrypto}, {"acmez", testACMEz}, {"certmagic", testCertMagic}, {"approval", testApproval}, {"chains", testChains},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, w) })
	}
}

// TestTable checks that the table of the page says of each client whether it revokes,
// and that each client renews.
func TestTable(t *testing.T) {
	text, err := os.ReadFile("../../docs/acme-clients.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		if p.heading == "With an external key" {
			continue
		}
		row := regexp.MustCompile(`(?m)^\| \[` + p.heading + `\].*\| yes[^|]*\| (yes|no)[^|]*\|$`).FindStringSubmatch(string(text))
		if row == nil || (row[1] == "yes") != (p.want.revoked > 0) || p.want.issued < 2 {
			t.Errorf("%s: the row is %q, and the test wants %+v", p.heading, row, p.want)
		}
	}
}

// trust has the host trust the server as the page says.
func (w *world) trust(t *testing.T) {
	t.Helper()
	w.runPage(t, t.TempDir(), section(t, "acme-clients.md", "Trust the server first"))
}

// program is a client that is a program.
type program struct {
	// heading is that of its section in acme-clients.md.
	heading string
	// needs are the files that it is made of; a name without a slash is a command.
	needs []string
	// web says that it needs a web server that serves /var/www/html.
	web  bool
	want outcome
	// chain, if not empty, is the file with the last certificate, for name.
	chain, name string
}

// testProgram runs the commands of the section about a client. Each must succeed, and
// print what the page shows below it, if it shows something.
func (w *world) testProgram(t *testing.T, p program) {
	for _, file := range p.needs {
		if err := find(file); err != nil {
			t.Skipf("not run: %v; install.sh installs it where it may", err)
		}
	}
	if p.web {
		serveFiles(t)
	}
	dir, before := t.TempDir(), w.orders(t)
	w.runPage(t, dir, section(t, "acme-clients.md", p.heading))
	if p.chain != "" {
		if !filepath.IsAbs(p.chain) {
			p.chain = filepath.Join(dir, p.chain)
		}
		w.verify(t, p.chain, p.name)
	}
	if got := w.since(t, before); got != p.want {
		t.Errorf("%d certificates were issued, %d of them revoked; want %d and %d", got.issued, got.revoked, p.want.issued, p.want.revoked)
	}
}

func (w *world) runPage(t *testing.T, dir, text string) {
	t.Helper()
	commands := docpage.Commands(text)
	if len(commands) == 0 {
		t.Fatal("the page shows no commands")
	}
	for _, c := range commands {
		got := w.run(t, dir, c.Line, w.env...)
		if c.Output != "" && !c.Pattern().MatchString(got) {
			t.Fatalf("%s\nit prints\n%s\nand the page shows\n%s", c.Line, got, c.Output)
		}
	}
}

// find reports that a command, or a file whose path has a slash, does not exist.
func find(file string) error {
	if file == npm {
		file = filepath.Join(*peersFlag, file)
	}
	if strings.Contains(file, "/") {
		_, err := os.Stat(file)
		return err
	}
	_, err := exec.LookPath(file)
	return err
}

// serveFiles is the web server of the host, until the test ends.
func serveFiles(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort(nameAddress, "80"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir("/var/www/html")), ReadHeaderTimeout: commandTimeout}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
}
