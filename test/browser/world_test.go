package browser

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/apiserver/authn/oidctest"
)

// patience is how long anything may take.
const patience = 30 * time.Second

// world is a server with objects of all kinds that the console shows.
type world struct {
	// dir has the files of the server and of its users.
	dir string
	// server is its URL, without a slash at its end.
	server string
	// keys are the SHA-256 hashes of the public keys of the server and of the issuer, which
	// the browser trusts.
	keys []string
	// issuer lets ann log in. She has the rights of the reader.
	issuer *oidctest.Issuer
	// console is where the administrator's own console is.
	console string
}

// newWorld starts a server, declares the objects of testdata, and starts the console of
// its administrator.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), issuer: oidctest.Start(t)}
	for _, name := range []string{"server.yaml", "objects.yaml", "request.sh"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(w.dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.configureLogin(t)
	w.start(t, "certplane serve --data-dir data --listen 127.0.0.1:0 --config server.yaml --controllers '*,-certificaterequests-approver'")
	w.until(t, "the server is ready", "certplane kubectl get --raw /readyz")
	w.server = w.run(t, "certplane kubectl config view --minify -o 'jsonpath={.clusters[0].cluster.server}'")
	w.keys = []string{hashOfKey(w.certificate(t)), hashOfKey(w.issuer.Certificate())}
	w.declare(t)
	for line := range w.start(t, "certplane console") {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "http://") {
			w.console = line
			return w
		}
	}
	t.Fatal("certplane console has ended without an address")
	return nil
}

// configureLogin writes the files with which the server lets users of the issuer in.
func (w *world) configureLogin(t *testing.T) {
	t.Helper()
	for name, text := range map[string]string{
		"authentication.json": w.issuer.Config(t, "oidc:"), "issuer.crt": w.issuer.CA(), "secret": oidctest.Secret,
		"issuer.yaml": "console: {openIDConnect: {issuerURL: " + w.issuer.URL + ", clientID: certplane, clientSecretFile: secret, caFile: issuer.crt}}\n",
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.run(t, "cat issuer.yaml >> server.yaml")
}

// declare makes the objects that pages show.
func (w *world) declare(t *testing.T) {
	t.Helper()
	w.until(t, "the objects can be declared", "certplane kubectl apply -f objects.yaml")
	w.run(t, "certplane kubectl wait signers --all --for=condition=Ready --timeout=60s")
	w.run(t, "certplane request --signer server --dns www.example.com --dns example.com --name www --out www --approve")
	w.until(t, "the Certificate has a request", "certplane approve cart-1 -n shop --message 'asked by the shop team'")
	w.run(t, "certplane kubectl wait certificate/cart -n shop --for=condition=Ready --timeout=60s")
	w.until(t, "the certificate is in the inventory", "certplane certificates | grep www.example.com")
}

// request makes a request for a name of the signer certplane.dev/server, which waits.
func (w *world) request(t *testing.T, name string) {
	t.Helper()
	w.run(t, "certplane request --signer server --dns "+name+".example.com --name "+name+" --out "+name+" --wait 0")
}

// token returns a token of a service account.
func (w *world) token(t *testing.T, name string) string {
	t.Helper()
	return w.run(t, "certplane kubectl create token "+name+" -n people")
}

// certificate returns the server's certificate, verified with the CA of the kubeconfig.
func (w *world) certificate(t *testing.T) *x509.Certificate {
	t.Helper()
	ca, err := base64.StdEncoding.DecodeString(w.run(t, "certplane kubectl config view --raw --minify --flatten -o 'jsonpath={.clusters[0].cluster.certificate-authority-data}'"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	at, err := url.Parse(w.server)
	if err != nil {
		t.Fatal(err)
	}
	c, err := tls.Dial("tcp", at.Host, &tls.Config{RootCAs: roots})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0]
}

func hashOfKey(cert *x509.Certificate) string {
	hash := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(hash[:])
}

// command returns a command of a shell that has the rights of the administrator.
func (w *world) command(line string) *exec.Cmd {
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir = w.dir
	cmd.Env = []string{
		"PATH=" + filepath.Dir(*certplaneFlag) + ":/usr/local/bin:/usr/bin:/bin", "HOME=" + w.dir,
		"KUBECONFIG=" + filepath.Join(w.dir, "data/admin.kubeconfig"), "LC_ALL=C.UTF-8",
	}
	return cmd
}

// run runs a command that must succeed, and returns what it prints.
func (w *world) run(t *testing.T, line string) string {
	t.Helper()
	began := time.Now()
	cmd := w.command(line)
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s\n%v; it prints\n%s%s", line, err, out, &problems)
	}
	t.Logf("%.1fs: %s", time.Since(began).Seconds(), line)
	return strings.TrimSpace(string(out))
}

// until runs a command until it succeeds.
func (w *world) until(t *testing.T, what, line string) {
	t.Helper()
	began := time.Now()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.After(patience); ; {
		out, err := w.command(line).CombinedOutput()
		if err == nil {
			t.Logf("%.1fs: %s", time.Since(began).Seconds(), what)
			return
		}
		select {
		case <-end:
			t.Fatalf("waited %s until %s:\n%s", patience, what, out)
		case <-tick.C:
		}
	}
}

// start runs a command until the test ends, and returns the lines that it prints.
func (w *world) start(t *testing.T, line string) <-chan string {
	t.Helper()
	cmd := w.command("exec " + line)
	log, err := os.CreateTemp(w.dir, "log-")
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string, 100)
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(lines)
		for s := bufio.NewScanner(io.TeeReader(out, log)); s.Scan(); {
			select {
			case lines <- s.Text():
			default: // nobody reads any more
			}
		}
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		<-read
		if err := cmd.Wait(); err != nil || t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s has ended (%v); the end of what it printed:\n%s", line, err, text[max(0, len(text)-4000):])
		}
	})
	return lines
}
