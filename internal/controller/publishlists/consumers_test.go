package publishlists_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/apitest/docpage"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/run/server"
)

// readers is a server whose certificates name lists that other programs can get.
func readers(t *testing.T) *fixture {
	t.Helper()
	address := apitest.FreeAddress(t)
	return start(t, func(cfg *server.Config) {
		cfg.Revocation.Listen, cfg.Revocation.URL = address, "http://"+address
	})
}

func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip(name + " is not installed")
	}
	return path
}

// write writes certificates to a file.
func write(t *testing.T, certs ...*x509.Certificate) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "certs.pem")
	if err := os.WriteFile(path, pki.EncodeCertificates(certs...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// refused revokes a certificate, and waits until the list that it names has it.
func (f *fixture) refused(t *testing.T, cert *x509.Certificate) {
	t.Helper()
	f.Revoke(t, pki.ReasonKeyCompromise, time.Now(), cert)
	apitest.Eventually(t, "the certificate is on its list", func() bool {
		list, err := fetch(t, cert.CRLDistributionPoints[0])
		return err == nil && len(list.RevokedCertificateEntries) == 1
	})
}

func TestOpenSSLDownloads(t *testing.T) {
	openssl := program(t, "openssl")
	f := readers(t)
	f.signer(t, "web", generated, 48*time.Hour, nil)
	leaf := f.issue(t, "example.com/web", pki.Subject{CommonName: "web"}, apitest.NewKey(t))[0]
	root := write(t, authority(t, f.listOf(t, "example.com/web")))
	verify := func() (string, error) {
		out, err := exec.CommandContext(t.Context(), openssl, "verify", "-crl_check", "-crl_download", "-CAfile", root, write(t, leaf)).CombinedOutput()
		return string(out), err
	}
	if out, err := verify(); err != nil {
		t.Errorf("a good certificate: %s", out)
	}
	f.refused(t, leaf)
	if out, err := verify(); err == nil || !strings.Contains(out, "certificate revoked") {
		t.Errorf("a revoked certificate: %v: %s", err, out)
	}
}

// validate prints whether a chain is valid, with the root in the first file.
const validate = `
import java.io.*;
import java.security.cert.*;
import java.util.*;

class Validate {
	public static void main(String[] args) throws Exception {
		CertificateFactory x509 = CertificateFactory.getInstance("X.509");
		X509Certificate root = (X509Certificate) x509.generateCertificate(new FileInputStream(args[0]));
		CertPath path = x509.generateCertPath(new ArrayList<Certificate>(x509.generateCertificates(new FileInputStream(args[1]))));
		PKIXParameters with = new PKIXParameters(Set.of(new TrustAnchor(root, null)));
		with.setRevocationEnabled(true);
		try {
			CertPathValidator.getInstance("PKIX").validate(path, with);
			System.out.println("valid");
		} catch (CertPathValidatorException e) {
			System.out.println(e.getReason() + " at " + e.getIndex());
		}
	}
}
`

// Java checks the whole chain, with the lists that its certificates name.
func TestJavaPKIX(t *testing.T) {
	java := program(t, "java")
	f := readers(t)
	issue := func(name string) []*x509.Certificate {
		return append(f.issue(t, certificatesv1.KubeAPIServerClientSignerName, pki.Subject{CommonName: name}, apitest.NewKey(t)), f.own(t, "client-ca"))
	}
	good, bad := issue("good"), issue("bad")
	f.refused(t, bad[0])
	apitest.Eventually(t, "the root has a list", func() bool {
		_, err := fetch(t, good[1].CRLDistributionPoints[0])
		return err == nil
	})
	source := filepath.Join(t.TempDir(), "Validate.java")
	if err := os.WriteFile(source, []byte(validate), 0o600); err != nil {
		t.Fatal(err)
	}
	root := write(t, f.ClientRoot(t))
	check := func(want string, download bool, chain ...*x509.Certificate) {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), java, fmt.Sprintf("-Dcom.sun.security.enableCRLDP=%v", download), source, root, write(t, chain...)).CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%v, %q, want %q", err, got, want)
		}
	}
	check("valid", true, good...)
	check("REVOKED at 0", true, bad...)
	check("UNDETERMINED_REVOCATION_STATUS at 1", false, good...) // so that the former two mean something
	f.refused(t, good[1])
	check("REVOKED at 1", true, good...)
}

// clientMain is what the test adds to the program of the page: for each line, it connects again.
const clientMain = `package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	pem, err := os.ReadFile(os.Args[2])
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	check := func(state tls.ConnectionState) error {
		if err := verify(state); err != nil {
			return fmt.Errorf("resumed: %v: %w", state.DidResume, err)
		}
		return nil
	}
	config := &tls.Config{RootCAs: roots, VerifyConnection: check, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		answer, err := client.Get(os.Args[1])
		if err != nil {
			fmt.Println(err)
			continue
		}
		io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
		fmt.Println("resumed:", answer.TLS.DidResume)
	}
}
`

// The program of the page refuses a revoked server, also when it resumes a session.
func TestGoProgramOfPage(t *testing.T) {
	page, err := os.ReadFile("../../../docs/revocation.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := docpage.Blocks(string(page), "go")
	if len(blocks) != 1 {
		t.Fatalf("the page has %d programs", len(blocks))
	}
	f := readers(t)
	f.signer(t, "web", generated, 48*time.Hour, nil)
	key := apitest.NewKey(t)
	chain := f.issue(t, "example.com/web", pki.Subject{CommonName: "web", IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, key)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{chain[0].Raw}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Server{Handler: http.NotFoundHandler(), ReadHeaderTimeout: time.Minute}
	go web.Serve(listener)
	t.Cleanup(func() { web.Close() })

	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module client\n\ngo 1.24\n", "main.go": clientMain,
		"verify.go": strings.Replace(blocks[0], "const fresh = 5 * time.Minute", "const fresh = 0", 1),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", "client", ".")
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := exec.CommandContext(t.Context(), filepath.Join(dir, "client"), "https://"+listener.Addr().String(), write(t, authority(t, f.listOf(t, "example.com/web"))))
	input, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	expect := func(want string) {
		t.Helper()
		if _, err := io.WriteString(input, "\n"); err != nil {
			t.Fatal(err)
		}
		if !lines.Scan() || !strings.Contains(lines.Text(), want) {
			t.Errorf("%q, want %q", lines.Text(), want)
		}
	}
	expect("resumed: false")
	expect("resumed: true")
	f.refused(t, chain[0])
	expect("resumed: true: the certificate of CN=web was revoked on")
	input.Close()
	if err := run.Wait(); err != nil {
		t.Error(err)
	}
}
