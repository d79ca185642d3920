package vault

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
)

// peer is a server with Vault's API, and all rights there.
type peer struct {
	url, token string
	// bundle has the CAs of the server's certificate in PEM; empty for those of
	// this host.
	bundle []byte
	client *http.Client
	// own is the process, if the tests have started it.
	own *process
}

// process is a running Vault.
type process struct {
	program, dir, key string
	options           []string
	command           *exec.Cmd
	log               *os.File
	ended             chan error
}

// eachPeer runs a test with Vault, and with another server with its API if there is one.
// Neither is part of a checkout: a skipped test prints the reason.
func eachPeer(t *testing.T, test func(*testing.T, *peer)) {
	t.Run("Vault", func(t *testing.T) { test(t, sharedVault(t)) })
	t.Run("OpenBao", func(t *testing.T) { test(t, openBao(t)) })
}

// openBao returns a server that runs outside the test.
func openBao(t *testing.T) *peer {
	t.Helper()
	address, token := os.Getenv("CERTPLANE_TEST_OPENBAO_ADDR"), os.Getenv("CERTPLANE_TEST_OPENBAO_TOKEN")
	if address == "" || token == "" {
		t.Skip("not run: CERTPLANE_TEST_OPENBAO_ADDR and CERTPLANE_TEST_OPENBAO_TOKEN name no server (CERTPLANE_TEST_OPENBAO_CACERT has its CAs)")
	}
	p := &peer{url: strings.TrimSuffix(address, "/"), token: token}
	if file := os.Getenv("CERTPLANE_TEST_OPENBAO_CACERT"); file != "" {
		var err error
		if p.bundle, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	p.client = clientFor(t, p.bundle)
	return p
}

// findVault returns the program that "make interop" builds.
func findVault(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("KUBEBUILDER_ASSETS")
	if dir == "" {
		dir = "../../../bin/peers"
	}
	program, err := filepath.Abs(filepath.Join(dir, "vault"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(program); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("not run: there is no %s; 'make interop' builds it", program)
	}
	return program
}

// startVault starts a Vault, which is unsealed, until stop is called. extra are
// more arguments.
func startVault(t *testing.T, dir string, extra ...string) *peer {
	t.Helper()
	return startVaultFor(t, dir, nil, extra...)
}

// startVaultFor is startVault with the client certificate that the tests' own
// calls have.
func startVaultFor(t *testing.T, dir string, pair *tls.Certificate, extra ...string) *peer {
	t.Helper()
	program := findVault(t)
	certificate, key := serverCertificate(t, "127.0.0.1")
	files := map[string][]byte{"server.crt": certificate, "server.key": key}
	for name, data := range files {
		write(t, filepath.Join(dir, name), data)
	}
	address := net.JoinHostPort("127.0.0.1", freePort(t))
	p := &peer{url: "https://" + address, bundle: certificate, client: clientFor(t, certificate)}
	p.own = &process{program: program, dir: dir, options: append([]string{
		"-data", filepath.Join(dir, "data"), "-listen", address,
		"-cert", filepath.Join(dir, "server.crt"), "-key", filepath.Join(dir, "server.key"),
	}, extra...)}
	if pair != nil {
		p.client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{*pair}
	}
	p.start(t)
	var made struct {
		Keys  []string `json:"keys_base64"`
		Token string   `json:"root_token"`
	}
	p.must(t, http.MethodPut, "sys/init", map[string]any{"secret_shares": 1, "secret_threshold": 1}, &made)
	p.own.key, p.token = made.Keys[0], made.Token
	p.unseal(t)
	return p
}

// start starts the process.
func (p *peer) start(t *testing.T) {
	t.Helper()
	o := p.own
	log, err := os.OpenFile(filepath.Join(o.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	o.command = exec.Command(o.program, o.options...)
	o.command.Stderr, o.command.Env = log, []string{"HOME=" + o.dir, "PATH=/usr/bin:/bin"}
	o.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	o.log, o.ended = log, make(chan error, 1)
	if err := o.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { o.ended <- o.command.Wait() }()
	eventually(t, "Vault answers", func() bool {
		select {
		case err := <-o.ended:
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("Vault has ended: %v\n%s", err, text)
		default:
		}
		response, err := p.client.Get(p.url + "/v1/sys/health")
		if err == nil {
			response.Body.Close()
		}
		return err == nil
	})
}

// stop ends the process.
func (p *peer) stop() error {
	o := p.own
	defer o.log.Close()
	if err := o.command.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-o.ended:
		return nil
	case <-time.After(30 * time.Second):
		return errors.Join(errors.New("Vault does not end"), o.command.Process.Kill())
	}
}

func (p *peer) unseal(t *testing.T) {
	t.Helper()
	p.must(t, http.MethodPut, "sys/unseal", map[string]any{"key": p.own.key}, nil)
	eventually(t, "Vault is unsealed", func() bool {
		status, err := p.call(http.MethodGet, "sys/health", nil, nil)
		return err == nil && status == http.StatusOK
	})
}

func (p *peer) seal(t *testing.T) {
	t.Helper()
	p.must(t, http.MethodPut, "sys/seal", map[string]any{}, nil)
}

// call calls the API with all rights.
func (p *peer) call(method, path string, body, answer any) (status int, err error) {
	return p.callAs(p.token, method, path, body, answer)
}

func (p *peer) callAs(token, method, path string, body, answer any) (status int, err error) {
	var encoded []byte
	if body != nil {
		if encoded, err = json.Marshal(body); err != nil {
			return 0, err
		}
	}
	request, err := http.NewRequest(method, p.url+"/v1/"+path, bytes.NewReader(encoded))
	if err != nil {
		return 0, err
	}
	request.Header.Set("X-Vault-Token", token)
	request.Header.Set("X-Vault-Request", "true")
	response, err := p.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return 0, err
	case response.StatusCode >= 300:
		return response.StatusCode, fmt.Errorf("%s %s: %s: %s", method, path, response.Status, text)
	case answer == nil:
		return response.StatusCode, nil
	}
	return response.StatusCode, json.Unmarshal(text, answer)
}

// must is a call that has to succeed.
func (p *peer) must(t *testing.T, method, path string, body, answer any) {
	t.Helper()
	if _, err := p.call(method, path, body, answer); err != nil {
		t.Fatal(err)
	}
}

// write writes to a path, and returns the data of the answer.
func (p *peer) write(t *testing.T, path string, body map[string]any) map[string]any {
	t.Helper()
	return p.data(t, http.MethodPost, path, body)
}

func (p *peer) read(t *testing.T, path string) map[string]any {
	t.Helper()
	return p.data(t, http.MethodGet, path, nil)
}

func (p *peer) data(t *testing.T, method, path string, body map[string]any) map[string]any {
	t.Helper()
	var answer struct{ Data map[string]any }
	var encoded any
	if method != http.MethodGet {
		encoded = body
	}
	status, err := p.call(method, path, encoded, &answer)
	if err != nil && !(status == http.StatusNoContent && errors.Is(err, io.EOF)) && !isNoContent(status, err) {
		t.Fatal(err)
	}
	return answer.Data
}

// isNoContent reports whether an answer could not be decoded as it has no body.
func isNoContent(status int, err error) bool {
	return status == http.StatusNoContent || status == http.StatusOK && strings.Contains(err.Error(), "unexpected end of JSON input")
}

var mounts atomic.Int64

// mount returns a name that nothing else has.
func mount(of string) string {
	return fmt.Sprintf("%s-%d-%d", of, os.Getpid(), mounts.Add(1))
}

// enable mounts an engine ("mounts") or a login ("auth") under a new name, until the test
// ends.
func (p *peer) enable(t *testing.T, what, kind string) (name string) {
	t.Helper()
	name = mount(kind)
	p.write(t, "sys/"+what+"/"+name, map[string]any{"type": kind})
	t.Cleanup(func() { _, _ = p.call(http.MethodDelete, "sys/"+what+"/"+name, nil, nil) })
	return name
}

// clientFor returns a client that trusts some CAs.
func clientFor(t *testing.T, bundle []byte) *http.Client {
	t.Helper()
	config := &tls.Config{}
	if len(bundle) > 0 {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(bundle)
	}
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{TLSClientConfig: config, Proxy: nil}}
}

// serverCertificate returns a certificate that signs itself, and its key, in
// PEM.
func serverCertificate(t *testing.T, address string) (certificate, key []byte) {
	t.Helper()
	return selfSigned(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: "vault"}, IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
}

// clientCertificate is the same for a client.
func clientCertificate(t *testing.T, name string) (certificate, key []byte) {
	t.Helper()
	return selfSigned(t, &x509.Certificate{
		Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, IsCA: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}

func selfSigned(t *testing.T, template *x509.Certificate) (certificate, key []byte) {
	t.Helper()
	made := apitest.NewKey(t)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, template, made.Public(), made)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	if key, err = pki.EncodePrivateKey(made); err != nil {
		t.Fatal(err)
	}
	return pki.EncodeCertificates(cert), key
}

// freePort returns a TCP port of this host that nothing uses now.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// patience bounds each wait for what a server does on its own.
const patience = time.Minute

// eventually waits for what a server does on its own.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if holds() {
			return
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("the test ended before %s", what)
		}
	}
	t.Fatalf("gave up waiting until %s", what)
}

func write(t *testing.T, file string, data []byte) {
	t.Helper()
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
