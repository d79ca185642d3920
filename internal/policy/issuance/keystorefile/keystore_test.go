package keystorefile_test

import (
	"bytes"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	jks "github.com/pavlo-v-chernykh/keystore-go/v4"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/keystorefile"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// newPair has a key, and a CA for each subject.
func newPair(t testing.TB, subjects ...string) keystorefile.Pair {
	t.Helper()
	var p keystorefile.Pair
	for i, name := range append([]string{"web"}, subjects...) {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(int64(i)), Subject: pkix.Name{CommonName: name}, NotBefore: now, NotAfter: now.Add(1e6 * time.Hour),
			IsCA: true, BasicConstraintsValid: true,
		}
		der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			p.Key, p.Chain = key, []*x509.Certificate{cert}
			continue
		}
		p.CAs = append(p.CAs, cert)
	}
	return p
}

// keytool runs Java's own program on a keystore, and returns how many entries it
// lists.
func keytool(t *testing.T, data []byte, kind, password string) int {
	t.Helper()
	program, err := exec.LookPath("keytool")
	if err != nil {
		t.Skipf("the keytool program of Java is not on this machine: %v", err)
	}
	dir := t.TempDir()
	store, word := filepath.Join(dir, "store"), filepath.Join(dir, "word")
	for path, content := range map[string][]byte{store: data, word: []byte(password)} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(program, "-J-Dfile.encoding=UTF-8", "-list", "-storetype", kind, "-keystore", store, "-storepass:file", word)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("keytool: %v: %s", err, out)
	}
	return strings.Count(string(out), "Entry")
}

// The passwords of Java keystores are characters, not octets.
func TestJKSPasswords(t *testing.T) {
	p := newPair(t, "root", "root")
	for _, password := range []string{"changeit", "pässwörd", "€uro-sign", "密码很长吗", "key\U0001F511key"} {
		store, err := keystorefile.JKS(p, "Web", password, now)
		if err != nil {
			t.Fatal(err)
		}
		trust, err := keystorefile.JKSTrust(p, password, now)
		if err != nil {
			t.Fatal(err)
		}
		if !keystorefile.HasJKS(store, p, "Web", password) || !keystorefile.HasJKSTrust(trust, p, password) {
			t.Errorf("%q: what was written is not recognized", password)
		}
		if keystorefile.HasJKS(store, p, "Web", password+"x") || keystorefile.HasJKS(store, p, "other", password) ||
			keystorefile.HasJKS(trust, p, "Web", password) || keystorefile.HasJKSTrust(store, p, password) || keystorefile.HasJKS(store, newPair(t, "root", "root"), "Web", password) {
			t.Errorf("%q: something else is recognized", password)
		}
		again, err := keystorefile.JKS(p, "Web", password, now)
		if err != nil || !bytes.Equal(again, store) {
			t.Errorf("%q: written differently each time: %v", password, err)
		}
		for i := range store {
			if broken := append(bytes.Clone(store[:i]), store[i]^1); keystorefile.HasJKS(append(broken, store[i+1:]...), p, "Web", password) {
				t.Fatalf("%q: changed at octet %d, and still recognized", password, i)
			}
		}
	}
	// Another program reads the store, the key and its chain.
	store, err := keystorefile.JKS(p, "Web", "changeit", now)
	if err != nil {
		t.Fatal(err)
	}
	read := jks.New()
	if err := read.Load(bytes.NewReader(store), []byte("changeit")); err != nil {
		t.Fatal(err)
	}
	entry, err := read.GetPrivateKeyEntry("web", []byte("changeit"))
	want, _ := x509.MarshalPKCS8PrivateKey(p.Key)
	if err != nil || !bytes.Equal(entry.PrivateKey, want) || len(entry.CertificateChain) != 1 || !entry.CreationTime.Equal(now) {
		t.Errorf("entry %v: %v", entry.CreationTime, err)
	}
	if got := read.Aliases(); len(got) != 3 {
		t.Errorf("aliases %v", got)
	}
}

func TestJKSForJava(t *testing.T) {
	p := newPair(t, "root", "root")
	for _, password := range []string{"changeit", "pässwörd", "€uro-sign", "密码很长吗", "key\U0001F511key"} {
		store, err := keystorefile.JKS(p, "web", password, now)
		if err != nil {
			t.Fatal(err)
		}
		if n := keytool(t, store, "JKS", password); n != 3 {
			t.Errorf("%q: %d entries", password, n)
		}
	}
}

// Each CA of a truststore has its own alias, whatever their subjects are.
func TestPKCS12TrustForJava(t *testing.T) {
	p := newPair(t, "root", "root", "ROOT", " root", "ro\U0001F511t", "ro\U0001F511t", "other", "root (2)")
	store, err := keystorefile.PKCS12Trust(p, "LegacyDES", "changeit")
	if err != nil {
		t.Fatal(err)
	}
	if !keystorefile.HasPKCS12Trust(store, p, "LegacyDES", "changeit") {
		t.Error("what was written is not recognized")
	}
	if n := keytool(t, store, "PKCS12", "changeit"); n != len(p.CAs) {
		t.Errorf("%d entries for %d CAs", n, len(p.CAs))
	}
}

// FuzzJKS reads keystores of others.
func FuzzJKS(f *testing.F) {
	p := newPair(f, "root")
	store, err := keystorefile.JKS(p, "web", "x", now)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(store, "x")
	f.Add(store[:20], "x")
	f.Fuzz(func(t *testing.T, data []byte, password string) {
		if keystorefile.HasJKS(data, p, "web", password) && !bytes.Equal(data[:12], store[:12]) {
			t.Error("another kind of file is recognized")
		}
	})
}

// Java reads trust stores of roots, of all profiles, and each root has its own alias.
func TestRootsForJava(t *testing.T) {
	certs := newPair(t, "root", "root", "ro\U0001F511t", strings.Repeat("x", 70_000)).CAs
	store, err := keystorefile.RootsJKS(certs, "changeit")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := keystorefile.RootsJKS(certs, "changeit"); !bytes.Equal(store, again) {
		t.Error("a Java keystore of the same roots differs")
	}
	if n := keytool(t, store, "JKS", "changeit"); n != len(certs) {
		t.Errorf("JKS: %d entries", n)
	}
	for _, profile := range rootProfiles {
		for _, password := range []string{"changeit", "a word with spaces", ""} {
			if store, err = keystorefile.RootsPKCS12(certs, profile, password); err != nil {
				t.Fatal(err)
			}
			if n := keytool(t, store, "PKCS12", password); n != len(certs) {
				t.Errorf("%q, password %q: %d entries", profile, password, n)
			}
		}
	}
}

var rootProfiles = []cmv1.PKCS12Profile{"", "LegacyRC2", "LegacyDES", "Modern2023"}

// OpenSSL reads trust stores of roots, of all profiles: legacy ones with a password by its legacy
// algorithms only.
func TestRootsForOpenSSL(t *testing.T) {
	program, err := exec.LookPath("openssl")
	if err != nil {
		t.Skipf("the openssl program is not on this machine: %v", err)
	}
	certs := newPair(t, "root", "root", "ro\U0001F511t").CAs
	path := filepath.Join(t.TempDir(), "store.p12")
	read := func(password string, args ...string) int {
		args = append([]string{"pkcs12", "-in", path, "-nokeys", "-passin", "env:PASSWORD"}, args...)
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "PASSWORD="+password)
		out, err := cmd.Output()
		if err != nil {
			return 0
		}
		return strings.Count(string(out), "BEGIN CERTIFICATE")
	}
	for _, profile := range rootProfiles {
		for _, password := range []string{"changeit", "pässwörd €", "a word with spaces", ""} {
			store, err := keystorefile.RootsPKCS12(certs, profile, password)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, store, 0o600); err != nil {
				t.Fatal(err)
			}
			if n := read(password, "-legacy"); n != len(certs) {
				t.Errorf("%q, password %q: OpenSSL reads %d of %d certificates", profile, password, n, len(certs))
			}
			if n := read(password); (n == len(certs)) != (password == "" || profile == "LegacyDES" || profile == "Modern2023") {
				t.Errorf("%q, password %q: without its legacy algorithms, OpenSSL reads %d", profile, password, n)
			}
			if n := read(password + "x"); n != 0 && password != "" {
				t.Errorf("%q, password %q: OpenSSL reads %d certificates with another password", profile, password, n)
			}
		}
	}
}

// A trust store without a password is not encrypted, whatever the profile.
func TestRootsWithoutPassword(t *testing.T) {
	certs := newPair(t, "root", "other").CAs
	for _, profile := range []cmv1.PKCS12Profile{"", "LegacyRC2", "Modern2023"} {
		store, err := keystorefile.RootsPKCS12(certs, profile, "")
		if err != nil {
			t.Fatal(err)
		}
		for _, cert := range certs {
			if !bytes.Contains(store, cert.Raw) {
				t.Errorf("%q: a certificate is encrypted", profile)
			}
		}
	}
	if _, err := keystorefile.RootsPKCS12(certs, "Other", ""); err == nil {
		t.Error("an unknown profile is accepted")
	}
	if _, err := keystorefile.RootsJKS(certs, ""); err == nil {
		t.Error("a Java keystore without a password is written")
	}
}

// Certificates can be made so that the first digits of their digests are equal.
func TestRootsWithEqualAliases(t *testing.T) {
	one := newPair(t, "root").CAs[0]
	store, err := keystorefile.RootsJKS([]*x509.Certificate{one, one}, "changeit")
	if err != nil {
		t.Fatal(err)
	}
	read := jks.New()
	if err := read.Load(bytes.NewReader(store), []byte("changeit")); err != nil || len(read.Aliases()) != 2 {
		t.Errorf("aliases %v: %v", read.Aliases(), err)
	}
}
