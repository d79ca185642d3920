package acmeclients

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/acme/solver/dns/dnstest"
	"github.com/certplane/certplane/internal/apitest/docpage"
)

// world is the server and the DNS server that all tests share.
type world struct {
	// dir has the server's files.
	dir   string
	names *dnstest.Server
	// env has the values that the page calls by name.
	env   []string
	admin client.Client
}

// records are the records of the DNS server. The names are listed, because a wildcard does
// not match names with records below them.
var records = []string{
	"corp.example. 60 IN SOA ns.corp.example. ops.corp.example. 1 3600 600 86400 5",
	"corp.example. 60 IN NS ns.corp.example.",
	"ns.corp.example. 60 IN A 127.0.0.1",
	"acme.corp.example. 60 IN A " + serverAddress,
	"web.corp.example. 60 IN A " + nameAddress,
	"*.corp.example. 60 IN A " + nameAddress,
	"web.shop.corp.example. 60 IN A " + nameAddress,
}

// newWorld starts the server of the page acme-server.md, with all that it declares.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), names: dnstest.Start(t, dnstest.Options{Port: "53"}, records...)}
	blocks := docpage.Blocks(section(t, "acme-server.md", "A first certificate"), "yaml")
	if len(blocks) < 2 {
		t.Fatalf("acme-server.md shows %d files, want the configuration and objects", len(blocks))
	}
	w.write(t, "server.yaml", blocks[0])
	w.startServer(t)
	extra, err := os.ReadFile("testdata/objects.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w.write(t, "objects.yaml", strings.Join(append(blocks[1:], string(extra)), "---\n"))
	w.run(t, w.dir, "certplane kubectl apply -f objects.yaml")
	for _, c := range docpage.Commands(section(t, "acme-server.md", "A first certificate")) {
		if strings.HasPrefix(c.Line, "certplane acme allow") {
			w.run(t, w.dir, c.Line)
		}
	}
	w.run(t, w.dir, "certplane acme allow -n acme-clients corp --endpoint reviewed --apply")
	w.run(t, w.dir, "certplane acme allow -n acme-clients corp --endpoint lenient --autoapprove --apply")
	w.run(t, w.dir, "certplane acme allow -n shop web --endpoint corp --autoapprove --secret acme-fleet --apply")
	w.run(t, w.dir, "certplane kubectl wait acmeendpoints --all --for=condition=Ready --timeout=60s")
	if out, err := w.try(w.dir, "certplane kubectl wait acmeexternalkeys -n shop --all --for=condition=Ready --timeout=60s"); err != nil {
		t.Fatalf("%s\n%s", out, w.run(t, w.dir, "certplane kubectl get acmeexternalkeys -A -o yaml"))
	}
	w.connect(t)
	kid, hmac := w.externalKey(t)
	w.env = []string{"EAB_KID=" + kid, "EAB_HMAC=" + hmac, "FINGERPRINT=" + w.run(t, w.dir, "certplane kubectl get acmeendpoint corp -o jsonpath={.status.trust.fingerprint}")}
	return w
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// startServer runs "certplane serve" until the test ends.
func (w *world) startServer(t *testing.T) {
	t.Helper()
	output, err := os.Create(filepath.Join(w.dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server := w.command(w.dir, "exec certplane serve --data-dir data --config server.yaml")
	server.Stdout, server.Stderr = output, output
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGINT)
		err := server.Wait()
		if t.Failed() || err != nil {
			text, _ := os.ReadFile(output.Name())
			t.Logf("the server has ended (%v); the end of its log:\n%s", err, text[max(0, len(text)-8000):])
		}
	})
	w.until(t, "the server is ready", func() bool {
		return w.command(w.dir, "certplane kubectl get --raw /readyz").Run() == nil
	})
}

// command returns a command of a shell on the host of the tests, in a folder that is
// its home, too.
func (w *world) command(dir, line string, env ...string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = append([]string{
		"PATH=" + filepath.Dir(*certplaneFlag) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + dir, "KUBECONFIG=" + filepath.Join(w.dir, "data/admin.kubeconfig"), "LC_ALL=C.UTF-8",
		"NODE_PATH=" + filepath.Join(*peersFlag, "npm/node_modules"),
	}, env...)
	return cmd
}

// commandTimeout is how long one command of a client may take.
const commandTimeout = 90 * time.Second

// run runs a command that must succeed, and returns what it prints.
func (w *world) run(t *testing.T, dir, line string, env ...string) string {
	t.Helper()
	began := time.Now()
	out, err := w.try(dir, line, env...)
	t.Logf("%.1fs: %s", time.Since(began).Seconds(), line)
	if err != nil {
		t.Fatalf("%s\n%v; it prints\n%s", line, err, out)
	}
	return out
}

// try runs a command, and returns what it prints. A command that leaves programs
// running, such as a web server, is not waited for longer than itself.
func (w *world) try(dir, line string, env ...string) (string, error) {
	out, err := os.CreateTemp(dir, "output-")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	cmd := w.command(dir, line, env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	timer := time.AfterFunc(commandTimeout, func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
	err = cmd.Wait()
	timer.Stop()
	text, _ := os.ReadFile(out.Name())
	return string(text), err
}

// connect makes the client of the administrator.
func (w *world) connect(t *testing.T) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", filepath.Join(w.dir, "data/admin.kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(kinds); err != nil {
			t.Fatal(err)
		}
	}
	log.SetLogger(logr.Discard())
	if w.admin, err = client.New(cfg, client.Options{Scheme: kinds}); err != nil {
		t.Fatal(err)
	}
}

// until waits until something holds.
func (w *world) until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(commandTimeout); !holds(); {
		select {
		case <-end:
			t.Fatalf("waited %s until %s", commandTimeout, what)
		case <-tick.C:
		}
	}
}

// section returns the part of a page below a heading.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	for _, s := range sections(t, page) {
		if s.Heading == heading {
			return s.Text
		}
	}
	t.Fatalf("%s has no section %q", page, heading)
	return ""
}

func sections(t *testing.T, page string) []docpage.Section {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs", page))
	if err != nil {
		t.Fatal(err)
	}
	return docpage.Sections(string(text))
}

// outcome counts what the server has recorded of orders.
type outcome struct{ issued, revoked int }

// outcomeOf counts the orders that are not in before, and returns all.
func (w *world) orders(t *testing.T) map[string]v1alpha1.AcmeOrder {
	t.Helper()
	list := &v1alpha1.AcmeOrderList{}
	if err := w.admin.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	all := map[string]v1alpha1.AcmeOrder{}
	for _, o := range list.Items {
		all[o.Namespace+"/"+o.Name] = o
	}
	return all
}

// since returns what has become of the orders that are not in before.
func (w *world) since(t *testing.T, before map[string]v1alpha1.AcmeOrder) (got outcome) {
	t.Helper()
	for name, o := range w.orders(t) {
		if _, old := before[name]; old || o.Status.State != v1alpha1.AcmeOrderValid {
			continue
		}
		got.issued++
		if o.Status.Certificate.Revoked != nil {
			got.revoked++
		}
	}
	return got
}

// verify checks that a file has a chain that clients with the roots of the signer
// believe for a name, and returns its first certificate.
func (w *world) verify(t *testing.T, file, name string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return w.verifyChain(t, text, name)
}

func (w *world) verifyChain(t *testing.T, text []byte, name string) *x509.Certificate {
	t.Helper()
	var chain []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		chain = append(chain, cert)
	}
	if len(chain) == 0 {
		t.Fatalf("there is no certificate in %q", text)
	}
	options := x509.VerifyOptions{DNSName: name, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	options.Roots.AppendCertsFromPEM([]byte(w.run(t, w.dir,
		"certplane kubectl get clustertrustbundles --field-selector spec.signerName=certplane.dev/acme-hosts -o 'jsonpath={.items[*].spec.trustBundle}'")))
	for _, cert := range chain[1:] {
		options.Intermediates.AddCert(cert)
	}
	if _, err := chain[0].Verify(options); err != nil {
		t.Fatal(err)
	}
	return chain[0]
}
