package server

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/certplane/certplane/internal/pki"
)

var (
	firstStart = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	someNames  = []string{"localhost", "127.0.0.1", "::1", "host.example.com"}
)

const day = 24 * time.Hour

func unrecorded(string, string) pki.Signing { return pki.UnrecordedSigning }

// files returns the contents of a PKI folder by name.
func files(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	contents := map[string][]byte{}
	for _, entry := range entries {
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		contents[entry.Name()] = data
	}
	return contents
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// changed returns the names of the files that differ.
func changed(before, after map[string][]byte) []string {
	var names []string
	for name, data := range after {
		if !bytes.Equal(before[name], data) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func mustOpenPKI(t *testing.T, dir string, names []string, now time.Time) *credentials {
	t.Helper()
	opened, err := openPKI(unrecorded, dir, names, now)
	if err != nil {
		t.Fatal(err)
	}
	wantUsable(t, opened, names, now)
	return opened
}

// wantUsable checks that the credentials of a start can be used.
func wantUsable(t *testing.T, c *credentials, names []string, now time.Time) {
	t.Helper()
	verify := func(pair keyPair, trusted string, usage x509.ExtKeyUsage, name string) {
		t.Helper()
		roots, chain := x509.NewCertPool(), x509.NewCertPool()
		roots.AppendCertsFromPEM(contents(t, trusted))
		for _, ca := range pair.chain[1:] {
			chain.AddCert(ca)
		}
		_, err := pair.chain[0].Verify(x509.VerifyOptions{
			Roots: roots, Intermediates: chain, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage}, DNSName: name,
		})
		if err != nil {
			t.Errorf("%s: %v", pair.certFile, err)
		}
	}
	for _, name := range names {
		verify(c.serving, c.servingCA.certFile, x509.ExtKeyUsageServerAuth, name)
	}
	verify(c.admin, c.clientCA.trusted, x509.ExtKeyUsageClientAuth, "")
	for _, pair := range []keyPair{c.servingCA, c.serving, c.clientCA.issuing, c.admin} {
		public, ok := pair.key.Public().(interface{ Equal(crypto.PublicKey) bool })
		if !ok || !public.Equal(pair.chain[0].PublicKey) {
			t.Errorf("%s does not belong to its key", pair.certFile)
		}
	}
}

// Each certificate of a first start is recorded, with its signer and its use.
func TestOwnCertificatesAreRecorded(t *testing.T) {
	recorded := map[string]bool{}
	by := func(signer, use string) pki.Signing {
		record := func(_ context.Context, cert *x509.Certificate, why pki.Purpose) error {
			recorded[pki.Fingerprint(cert)] = why.Signer != "" && why.Use != ""
			return nil
		}
		return pki.Issuing{Rand: rand.Reader, Record: record}.For(t.Context(), pki.Purpose{Signer: signer, Use: use})
	}
	dir := filepath.Join(t.TempDir(), "pki")
	if _, err := openPKI(by, dir, someNames, firstStart); err != nil {
		t.Fatal(err)
	}
	for name, content := range files(t, dir) {
		certs, err := pki.ParseBundle(content)
		if err != nil && filepath.Ext(name) == ".crt" {
			t.Fatal(err)
		}
		for _, cert := range certs {
			if !recorded[pki.Fingerprint(cert)] {
				t.Errorf("%s has a certificate that is not recorded: %s", name, cert.Subject)
			}
		}
	}
}

func TestFirstStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	opened := mustOpenPKI(t, dir, someNames, firstStart)
	want := map[string]fs.FileMode{
		"serving-ca.crt": 0o644, "serving-ca.key": 0o600, "serving.crt": 0o644, "serving.key": 0o600,
		"client-ca-root.crt": 0o644, "client-ca-root.key": 0o600,
		"client-ca.crt": 0o644, "client-ca.key": 0o600, "admin.crt": 0o644, "admin.key": 0o600,
		"service-account.key": 0o600,
	}
	got := map[string]fs.FileMode{}
	for name := range files(t, dir) {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		got[name] = info.Mode()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info.Mode(), err)
	}
	admin, clientCA := opened.admin.chain[0], opened.clientCA.issuing.chain[0]
	if diff := cmp.Diff([]string{"system:masters"}, admin.Subject.Organization); diff != "" {
		t.Errorf("groups of the admin (-want +got):\n%s", diff)
	}
	if bytes.Equal(clientCA.RawSubjectPublicKeyInfo, opened.servingCA.chain[0].RawSubjectPublicKeyInfo) {
		t.Error("one key signs servers and clients")
	}
}

// A later start makes again what it finds missing or invalid.
func TestLaterStart(t *testing.T) {
	remove := func(names ...string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			for _, name := range names {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	tests := []struct {
		reason  string
		meddle  func(*testing.T, string)
		names   []string
		when    time.Time
		changed []string
	}{
		{reason: "a moment later"},
		{reason: "eleven months less a minute later", when: firstStart.Add(leafLifetime - renewBefore - time.Minute)},
		{reason: "eleven months later", when: firstStart.Add(leafLifetime - renewBefore), changed: []string{"admin.crt", "admin.key", "serving.crt", "serving.key"}},
		{reason: "after the end", when: firstStart.Add(2 * leafLifetime), changed: []string{"admin.crt", "admin.key", "serving.crt", "serving.key"}},
		{reason: "a name more", names: append(someNames[:4:4], "other.example.com"), changed: []string{"serving.crt", "serving.key"}},
		{reason: "an address more", names: append(someNames[:4:4], "192.0.2.1"), changed: []string{"serving.crt", "serving.key"}},
		{reason: "a name less", names: someNames[:3], changed: []string{"serving.crt", "serving.key"}},
		{reason: "an address in another spelling", names: []string{"localhost", "127.0.0.1", "0:0::1", "host.example.com", "127.0.0.1"}},
		{reason: "no certificate", meddle: remove("serving.crt"), changed: []string{"serving.crt", "serving.key"}},
		{reason: "neither certificate nor key", meddle: remove("admin.crt", "admin.key"), changed: []string{"admin.crt", "admin.key"}},
		{reason: "killed between key and certificate", meddle: replaceKey("serving"), changed: []string{"serving.crt", "serving.key"}},
		{reason: "killed between the admin's key and certificate", meddle: replaceKey("admin"), changed: []string{"admin.crt", "admin.key"}},
		{
			reason: "killed on the first start between a CA's key and certificate", meddle: remove("client-ca.crt", "admin.crt", "admin.key", "serving.crt", "serving.key"),
			changed: []string{"admin.crt", "admin.key", "client-ca.crt", "client-ca.key", "serving.crt", "serving.key"},
		},
		{
			reason: "killed between the root's key and certificate", meddle: remove("client-ca-root.crt", "client-ca.crt", "client-ca.key", "admin.crt", "admin.key", "serving.crt", "serving.key"),
			changed: []string{"admin.crt", "admin.key", "client-ca-root.crt", "client-ca-root.key", "client-ca.crt", "client-ca.key", "serving.crt", "serving.key"},
		},
		{
			reason: "killed when the root was there", meddle: remove("client-ca.crt", "client-ca.key", "admin.crt", "admin.key", "serving.crt", "serving.key"),
			changed: []string{"admin.crt", "admin.key", "client-ca.crt", "client-ca.key", "serving.crt", "serving.key"},
		},
		{reason: "the root's key is elsewhere", meddle: remove("client-ca-root.key")},
		{reason: "no service account key", meddle: remove("service-account.key"), changed: []string{"service-account.key"}},
		{
			reason: "another issuing CA", meddle: remove("client-ca.crt", "client-ca.key"),
			changed: []string{"admin.crt", "admin.key", "client-ca.crt", "client-ca.key"},
		},
		{
			reason: "another root", meddle: remove("client-ca.crt", "client-ca.key", "client-ca-root.crt", "client-ca-root.key"),
			changed: []string{"admin.crt", "admin.key", "client-ca-root.crt", "client-ca-root.key", "client-ca.crt", "client-ca.key"},
		},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if tc.names == nil {
				tc.names = someNames
			}
			if tc.when.IsZero() {
				tc.when = firstStart.Add(time.Second)
			}
			dir := t.TempDir()
			mustOpenPKI(t, dir, someNames, firstStart)
			before := files(t, dir)
			if tc.meddle != nil {
				tc.meddle(t, dir)
			}
			wantMadeAnew(t, dir, tc.names, tc.when, before, tc.changed)
		})
	}
}

// wantMadeAnew starts and checks which files have changed. A further start
// changes nothing.
func wantMadeAnew(t *testing.T, dir string, names []string, when time.Time, before map[string][]byte, want []string) {
	t.Helper()
	mustOpenPKI(t, dir, names, when)
	settled := files(t, dir)
	if diff := cmp.Diff(want, changed(before, settled)); diff != "" {
		t.Errorf("files made again (-want +got):\n%s", diff)
	}
	mustOpenPKI(t, dir, names, when)
	if again := changed(settled, files(t, dir)); len(again) != 0 {
		t.Errorf("the start after that makes %v again", again)
	}
}

// replaceKey does what a crash leaves behind that comes after the first of the
// two files of a renewal.
func replaceKey(name string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		key, err := pki.GenerateKey(pki.ECDSAP256)
		if err != nil {
			t.Fatal(err)
		}
		keyPEM, err := pki.EncodePrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		overwrite(t, filepath.Join(dir, name+".key"), keyPEM)
	}
}

func overwrite(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// A CA that others trust is never replaced: its loss is an error, which says
// what to do.
func TestDamagedPKI(t *testing.T) {
	tests := []struct {
		reason string
		meddle func(*testing.T, string)
		want   []string
	}{
		{"the CA's key is missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "client-ca.key")); err != nil {
				t.Fatal(err)
			}
		}, []string{"client-ca.key is missing", "restore"}},
		{"neither issuing CA nor the root's key", func(t *testing.T, dir string) {
			for _, name := range []string{"client-ca.crt", "client-ca.key", "client-ca-root.key"} {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
		}, []string{"making the client CA", "client-ca-root.key is missing", "restore"}},
		{"another root's certificate", func(t *testing.T, dir string) {
			overwrite(t, filepath.Join(dir, "client-ca-root.crt"), contents(t, filepath.Join(dir, "serving-ca.crt")))
		}, []string{"client-ca-root.crt has not issued", "client-ca.crt", "restore"}},
		{"the root's certificate is empty", func(t *testing.T, dir string) { overwrite(t, filepath.Join(dir, "client-ca-root.crt"), nil) }, []string{"client-ca-root.crt"}},
		{"the CA's key is another", replaceKey("serving-ca"), []string{"serving-ca.crt", "private key does not belong"}},
		{"the CA's key is damaged", func(t *testing.T, dir string) { overwrite(t, filepath.Join(dir, "client-ca.key"), []byte("x")) }, []string{"client-ca.key", "no private key found"}},
		{"the CA's certificate is empty", func(t *testing.T, dir string) { overwrite(t, filepath.Join(dir, "client-ca.crt"), nil) }, []string{"client-ca.crt"}},
		{"the CA's certificate is no CA's", func(t *testing.T, dir string) {
			for _, kind := range []string{".crt", ".key"} {
				data, err := os.ReadFile(filepath.Join(dir, "admin"+kind))
				if err != nil {
					t.Fatal(err)
				}
				overwrite(t, filepath.Join(dir, "client-ca"+kind), data)
			}
		}, []string{"client-ca.crt", "is not a CA certificate"}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			dir := t.TempDir()
			mustOpenPKI(t, dir, someNames, firstStart)
			tc.meddle(t, dir)
			before := files(t, dir)
			_, err := openPKI(unrecorded, dir, someNames, firstStart)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not contain %q", err, want)
				}
			}
			if strings.Contains(err.Error(), "PRIVATE KEY-----") {
				t.Errorf("the error shows a key: %v", err)
			}
			if touched := changed(before, files(t, dir)); len(touched) != 0 {
				t.Errorf("%v was written although the start failed", touched)
			}
		})
	}
}

// A lost key of a certificate that the server makes for itself is replaced.
func TestLostLeafKeyIsMadeAnew(t *testing.T) {
	dir := t.TempDir()
	before := mustOpenPKI(t, dir, someNames, firstStart)
	for _, name := range []string{"serving.key", "admin.key"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	after := mustOpenPKI(t, dir, someNames, firstStart)
	if !after.serving.matches() || !after.admin.matches() {
		t.Error("a new key does not fit its certificate")
	}
	if string(after.clientCA.issuing.certPEM) != string(before.clientCA.issuing.certPEM) {
		t.Error("the CA changed")
	}
}
