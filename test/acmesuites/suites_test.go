package acmesuites

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	// The packages whose suites run, and what these import.
	_ "code.pfad.fr/check"
	_ "github.com/letsencrypt/pebble/v2/wfe"
	_ "github.com/mholt/acmez/v3"
	_ "golang.org/x/crypto/acme"
)

var program = flag.String("certplane", "../../bin/certplane", "The program that is tested.")

// suites are tests of client libraries that need a server.
var suites = []struct {
	of string
	// run is the pattern of the tests. All of them must pass.
	run   string
	tests []string
	// local says that the suite builds Pebble's programs in a folder.
	local bool
}{
	{of: "github.com/mholt/acmez/v3", run: "^TestAlreadyReplaced$", tests: []string{"TestAlreadyReplaced"}},
	{of: "golang.org/x/crypto/acme", run: "WithPebble$", local: true, tests: []string{
		"TestWithPebble/TLSALPN01-Issuance", "TestWithPebble/HTTP01-Issuance", "TestWithPebble/HTTP01-Issuance_with_shortlived_Profile", "TestUnsupportedProfileWithPebble",
	}},
}

func TestSuites(t *testing.T) {
	path, err := filepath.Abs(*program)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CERTPLANE", path)
	t.Setenv("TMPDIR", t.TempDir())
	for _, suite := range suites {
		t.Run(suite.of, func(t *testing.T) {
			args := []string{"test", "-count=1", "-vet=off", "-timeout=5m", "-v", "-run", suite.run, suite.of}
			if suite.local {
				args = append(args, "-pebble-local-dir="+newFolder(t))
			}
			out, err := exec.CommandContext(t.Context(), "go", args...).CombinedOutput()
			for _, test := range suite.tests {
				if !strings.Contains(string(out), "--- PASS: "+test+" ") {
					t.Errorf("%s has not passed", test)
				}
			}
			if err != nil || t.Failed() {
				t.Fatalf("%v; it prints\n%s", err, out)
			}
		})
	}
}

// newFolder returns a copy of the folder pebble with the certificates of Pebble's own
// folder: certificates of a server on this host, and their root.
func newFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("pebble")); err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	self := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, self, self, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err := os.MkdirAll(filepath.Join(dir, "test/certs/localhost"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"test/certs/pebble.minica.pem": certificate, "test/certs/localhost/cert.pem": certificate,
		"test/certs/localhost/key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
