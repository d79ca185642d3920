package keystore

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/pki"
)

func open(t testing.TB, settings Settings) (*Store, error) {
	t.Helper()
	return Open(t.Context(), settings, Options{Name: "signing.ca", Clock: testingclock.NewFakeClock(now)})
}

func mustOpen(t testing.TB, settings Settings) *Store {
	t.Helper()
	s, err := open(t, settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestEveryKindOfKeySigns(t *testing.T) {
	for _, kind := range pki.KeyTypes() {
		t.Run(string(kind), func(t *testing.T) {
			root := newCA(t, "root", kind, nil)
			issues(t, mustOpen(t, pairIn(t, t.TempDir(), root.certPEM(), root.keyPEM(t))), root)
		})
	}
}

func TestChains(t *testing.T) {
	root := newCA(t, "root", pki.RSA2048, nil)
	middle := newCA(t, "middle", pki.ECDSAP256, root)
	low := newCA(t, "low", pki.Ed25519, middle)
	tests := []struct {
		reason, file string
		accompany    int // certificates that clients get besides their own
	}{
		{"without the root", low.certPEM() + middle.certPEM(), 2},
		{"with the root, which clients have", low.certPEM() + middle.certPEM() + root.certPEM(), 2},
		{"text between the certificates", "low:\n" + low.certPEM() + "middle:\n" + middle.certPEM(), 2},
		{"the key in the same file", low.keyPEM(t) + low.certPEM(), 1},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s := mustOpen(t, pairIn(t, t.TempDir(), tc.file, low.keyPEM(t)))
			issues(t, s, low)
			authority, _ := s.Current()
			if got := len(authority.Chain(low.cert)) - 1; got != tc.accompany {
				t.Errorf("%d certificates go with one, want %d", got, tc.accompany)
			}
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	root := newCA(t, "root", pki.ECDSAP256, nil)
	other := newCA(t, "other", pki.Ed25519, nil)
	middle := newCA(t, "middle", pki.ECDSAP256, root)
	leaf := newCA(t, "leaf", pki.ECDSAP256, root, func(c *x509.Certificate) { c.IsCA = false })
	mute := newCA(t, "mute", pki.ECDSAP256, root, func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign })
	cert, key := root.certPEM(), root.keyPEM(t)
	secret := strings.Split(key, "\n")[1]
	tests := []struct {
		reason    string
		cert, key string
		want      string // part of the error
		names     string // files it must name
	}{
		{reason: "empty certificate file", cert: "", key: key, want: "at least one CERTIFICATE PEM block", names: "ca.crt"},
		{reason: "a key in place of the certificate", cert: key, key: key, want: "at least one CERTIFICATE PEM block", names: "ca.crt"},
		{reason: "half a certificate", cert: cert[:len(cert)/2], key: key, want: "the PEM block cannot be read", names: "ca.crt"},
		{reason: "half a chain", cert: middle.certPEM() + cert[:len(cert)/2], key: middle.keyPEM(t), want: "line 11: the PEM block cannot be read: it has no separate last line", names: "ca.crt"},
		{reason: "no key", cert: cert, key: cert, want: "no private key found", names: "ca.key"},
		{reason: "encrypted key", cert: cert, key: strings.ReplaceAll(key, "PRIVATE", "ENCRYPTED PRIVATE"), want: "private key is encrypted", names: "ca.key"},
		{reason: "key encrypted the old way", cert: cert, key: legacyEncrypted(key), want: "private key is encrypted", names: "ca.key"},
		{reason: "broken key", cert: cert, key: strings.ReplaceAll(key, "PRIVATE", "EC PRIVATE"), want: "parsing EC PRIVATE KEY", names: "ca.key"},
		{reason: "key of another CA", cert: cert, key: other.keyPEM(t), want: "does not belong to its first certificate, CN=root", names: "ca.crt ca.key"},
		{reason: "unrelated certificates", cert: cert + other.certPEM(), key: key, want: "nothing may follow it", names: "ca.crt"},
		{reason: "the chain in the wrong order", cert: cert + middle.certPEM(), key: middle.keyPEM(t), want: "does not belong to its first certificate, CN=root", names: "ca.crt ca.key"},
		{reason: "no CA", cert: leaf.certPEM(), key: leaf.keyPEM(t), want: "is not a CA certificate", names: "ca.crt"},
		{reason: "must not sign certificates", cert: mute.certPEM(), key: mute.keyPEM(t), want: "lacks keyCertSign", names: "ca.crt"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			_, err := open(t, pairIn(t, t.TempDir(), tc.cert, tc.key))
			if err == nil {
				t.Fatal("no error")
			}
			for _, part := range append(strings.Fields(tc.names), tc.want) {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error shows the key: %v", err)
			}
		})
	}
}

// legacyEncrypted has the headers of RFC 1421, as openssl writes them.
func legacyEncrypted(key string) string {
	begin, rest, _ := strings.Cut(strings.ReplaceAll(key, "PRIVATE", "EC PRIVATE"), "\n")
	return begin + "\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-256-CBC,0011\n\n" + rest
}

func TestOpenFilesThatAreNotThere(t *testing.T) {
	root := newCA(t, "root", pki.ECDSAP256, nil)
	settings := pairIn(t, t.TempDir(), root.certPEM(), root.keyPEM(t))
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for _, s := range []Settings{{CertFile: missing, KeyFile: settings.KeyFile}, {CertFile: settings.CertFile, KeyFile: missing}} {
		_, err := open(t, s)
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
			t.Errorf("error is %v, want one that names %s", err, missing)
		}
	}
}

// A server whose CA has expired still comes up, to say so.
func TestOpenExpired(t *testing.T) {
	expired := newCA(t, "expired", pki.ECDSAP256, nil, func(c *x509.Certificate) { c.NotAfter = now.Add(-1) })
	s := mustOpen(t, pairIn(t, t.TempDir(), expired.certPEM(), expired.keyPEM(t)))
	if got := s.Status(); !got.NotAfter.Equal(expired.cert.NotAfter) || got.Fingerprint != pki.Fingerprint(expired.cert) {
		t.Errorf("status is %+v", got)
	}
}

func TestOpenNeedsItsMetrics(t *testing.T) {
	root := newCA(t, "root", pki.ECDSAP256, nil)
	settings := pairIn(t, t.TempDir(), root.certPEM(), root.keyPEM(t))
	registry := prometheus.NewRegistry()
	for range 2 {
		if _, err := Open(t.Context(), settings, Options{Metrics: registry}); err != nil {
			t.Errorf("CAs that share a registry: %v", err)
		}
	}
	taken := prometheus.NewRegistry()
	taken.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "certplane_ca_reload_failed"}))
	if _, err := Open(t.Context(), settings, Options{Metrics: taken}); err == nil {
		t.Error("metrics that collide with others were accepted")
	}
}

func TestValidate(t *testing.T) {
	const pin = "s3cret-pin"
	tests := []struct {
		reason   string
		settings Settings
		want     string // the error's begin; empty: none
	}{
		{"nothing", Settings{}, ""},
		{"a pair", Settings{CertFile: "a", KeyFile: "b"}, ""},
		{"no key", Settings{CertFile: "a"}, "signing.ca.keyFile: missing: set it to the file with the key that belongs to certFile, or set signing.ca.key"},
		{"no certificate", Settings{KeyFile: "b"}, "signing.ca.certFile: missing: set it to the file with the certificate"},
		{"no certificate for a key by URI", Settings{Key: "pkcs11:object=a"}, "signing.ca.certFile: missing"},
		{"two keys", Settings{CertFile: "a", KeyFile: "b", Key: "pkcs11:object=a"}, "signing.ca.key: is set in addition to keyFile, so there are two keys: remove one of them"},
		{"a key where its URI belongs", Settings{CertFile: "a", Key: "-----BEGIN PRIVATE KEY-----" + pin}, "signing.ca.key: holds a key itself: write that into a file and name it in keyFile"},
		{"a file where a URI belongs", Settings{CertFile: "a", Key: "/etc/" + pin}, "signing.ca.key: is not a URI of a known kind: it must begin with one of pkcs11:, awskms:, cloudkms:, azurekms:"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			err := tc.settings.Validate("signing.ca")
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			case err != nil && strings.Contains(err.Error(), pin):
				t.Errorf("error shows a secret: %v", err)
			}
			if _, opened := open(t, tc.settings); tc.want != "" && (opened == nil || opened.Error() != err.Error()) {
				t.Errorf("Open says %v, Validate %v", opened, err)
			}
		})
	}
}
