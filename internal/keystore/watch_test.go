package keystore

import (
	"context"
	"crypto/x509"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/pki"
)

// followed is a store whose files change.
type followed struct {
	*Store
	settings Settings
	clock    *testingclock.FakeClock
	metrics  *prometheus.Registry
	changes  *[]string // the CAs that a subscriber hears of
}

func followCA(t *testing.T, first *ca) followed {
	t.Helper()
	return followIn(t, pairIn(t, t.TempDir(), first.certPEM(), first.keyPEM(t)))
}

func followIn(t *testing.T, settings Settings) followed {
	t.Helper()
	f := followed{settings: settings, clock: testingclock.NewFakeClock(now), metrics: prometheus.NewRegistry(), changes: &[]string{}}
	store, err := Open(t.Context(), settings, Options{Name: "signing.ca", Clock: f.clock, Metrics: f.metrics})
	if err != nil {
		t.Fatal(err)
	}
	f.Store = store
	store.Subscribe(func(a *pki.Authority) { *f.changes = append(*f.changes, a.Certificate().Subject.CommonName) })
	return f
}

// settle looks often enough for a change to be taken for what it is.
func (f followed) settle(t *testing.T) {
	t.Helper()
	f.files.Look(t.Context())
	f.files.Look(t.Context())
}

// failing holds the store to showing a failure, or that there is none.
func (f followed) failing(t *testing.T, want string) {
	t.Helper()
	failure, metric := f.Status().Failure, 0.0
	if want == "" && failure != nil {
		t.Errorf("failure %v", failure)
	}
	if want != "" {
		metric = 1
		if failure == nil || !strings.Contains(failure.Error(), want) {
			t.Errorf("failure %v, want %q", failure, want)
		}
	}
	if got := testutil.ToFloat64(f.Store.metrics.failed.WithLabelValues("signing.ca")); got != metric {
		t.Errorf("the metric is %v, want %v", got, metric)
	}
}

// TestReplaced: however a new pair comes into place, it signs without a
// restart.
func TestReplaced(t *testing.T) {
	before := newCA(t, "before", pki.ECDSAP256, nil)
	after := newCA(t, "after", pki.Ed25519, nil)
	tests := []struct {
		reason  string
		install func(t *testing.T, dir string, pair *ca)
	}{
		{"written in place", func(t *testing.T, dir string, pair *ca) { pairIn(t, dir, pair.certPEM(), pair.keyPEM(t)) }},
		{"renamed over", func(t *testing.T, dir string, pair *ca) {
			pairIn(t, dir+"/new", pair.certPEM(), pair.keyPEM(t))
			rename(t, dir+"/new/ca.crt", dir+"/ca.crt")
			rename(t, dir+"/new/ca.key", dir+"/ca.key")
		}},
		{"removed and made again", func(t *testing.T, dir string, pair *ca) {
			for _, name := range []string{"ca.crt", "ca.key"} {
				if err := os.Remove(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
			}
			pairIn(t, dir, pair.certPEM(), pair.keyPEM(t))
		}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := followCA(t, before)
			dir := filepath.Dir(f.settings.CertFile)
			if err := os.Mkdir(dir+"/new", 0o700); err != nil {
				t.Fatal(err)
			}
			issues(t, f.Store, before)
			tc.install(t, dir, after)
			f.settle(t)
			issues(t, f.Store, after)
			f.failing(t, "")
			wantChanges(t, f, "after")
		})
	}
}

// TestSecretVolume: the kubelet shows a Secret as links through ..data, and
// changes what that leads to in one step.
func TestSecretVolume(t *testing.T) {
	before := newCA(t, "before", pki.ECDSAP256, nil)
	after := newCA(t, "after", pki.ECDSAP256, nil)
	volume := t.TempDir()
	publish := func(generation string, pair *ca) {
		t.Helper()
		dir := filepath.Join(volume, generation)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		pairIn(t, dir, pair.certPEM(), pair.keyPEM(t))
		if err := os.Symlink(generation, filepath.Join(volume, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		rename(t, filepath.Join(volume, "..data_tmp"), filepath.Join(volume, "..data"))
	}
	publish("..2026_03_01", before)
	for _, name := range []string{"ca.crt", "ca.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(volume, name)); err != nil {
			t.Fatal(err)
		}
	}
	f := followIn(t, Settings{CertFile: filepath.Join(volume, "ca.crt"), KeyFile: filepath.Join(volume, "ca.key")})
	publish("..2026_03_02", after)
	f.settle(t)
	issues(t, f.Store, after)
	wantChanges(t, f, "after")
}

// TestKept: what cannot be used does not replace what can, is shown, and is
// forgotten once there is something better.
func TestKept(t *testing.T) {
	before := newCA(t, "before", pki.ECDSAP256, nil)
	after := newCA(t, "after", pki.ECDSAP256, nil)
	expired := newCA(t, "expired", pki.ECDSAP256, nil, func(c *x509.Certificate) { c.NotAfter = now.Add(-1) })
	leaf := newCA(t, "leaf", pki.ECDSAP256, nil, func(c *x509.Certificate) { c.IsCA = false })
	belowExpired := newCA(t, "below", pki.ECDSAP256, expired)
	tests := []struct {
		reason    string
		cert, key string // empty: the file vanishes
		want      string
	}{
		{"half a certificate", after.certPEM()[:100], after.keyPEM(t), "the PEM block cannot be read"},
		{"empty", "\n", after.keyPEM(t), "at least one CERTIFICATE PEM block"},
		{"half a key", after.certPEM(), after.keyPEM(t)[:100], "the PEM block cannot be read"},
		{"the key has not come yet", after.certPEM(), before.keyPEM(t), "does not belong to its first certificate"},
		{"the certificate has not come yet", before.certPEM(), after.keyPEM(t), "does not belong to its first certificate"},
		{"expired", expired.certPEM(), expired.keyPEM(t), "certificate 1 of the CA (CN=expired) has expired"},
		{"an expired CA above it", belowExpired.certPEM() + expired.certPEM(), belowExpired.keyPEM(t), "certificate 2 of the CA (CN=expired) has expired"},
		{"no CA", leaf.certPEM(), leaf.keyPEM(t), "is not a CA certificate"},
		{"no certificate file", "", after.keyPEM(t), "no such file"},
		{"no key file", after.certPEM(), "", "no such file"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			f := followCA(t, before)
			install(t, f.settings.CertFile, tc.cert)
			install(t, f.settings.KeyFile, tc.key)
			f.settle(t)
			issues(t, f.Store, before)
			f.failing(t, tc.want)
			wantChanges(t, f)

			pairIn(t, filepath.Dir(f.settings.CertFile), after.certPEM(), after.keyPEM(t))
			f.settle(t)
			issues(t, f.Store, after)
			f.failing(t, "")
			wantChanges(t, f, "after")
		})
	}
}

// A change that is taken back was none.
func TestTakenBack(t *testing.T) {
	before := newCA(t, "before", pki.ECDSAP256, nil)
	f := followCA(t, before)
	write(t, f.settings.KeyFile, "")
	f.settle(t)
	f.failing(t, "no private key found")
	write(t, f.settings.KeyFile, before.keyPEM(t))
	f.settle(t)
	f.failing(t, "")
	issues(t, f.Store, before)
	wantChanges(t, f)
}

// The same CA in another encoding does not count as a change.
func TestWrittenDifferently(t *testing.T) {
	before := newCA(t, "before", pki.ECDSAP256, nil)
	f := followCA(t, before)
	pairIn(t, filepath.Dir(f.settings.CertFile), "# ours\n"+before.certPEM(), before.keyPEM(t)+"\n")
	f.settle(t)
	issues(t, f.Store, before)
	f.failing(t, "")
	wantChanges(t, f)
}

// TestUnsettled: a chain that is being written looks complete after each of its
// certificates. No certificate is issued with half a chain.
func TestUnsettled(t *testing.T) {
	before := newCA(t, "before", pki.ECDSAP256, nil)
	root := newCA(t, "root", pki.ECDSAP256, nil)
	middle := newCA(t, "middle", pki.ECDSAP256, root)
	low := newCA(t, "low", pki.ECDSAP256, middle)
	f := followCA(t, before)
	pairIn(t, filepath.Dir(f.settings.CertFile), low.certPEM(), low.keyPEM(t))
	f.files.Look(t.Context())
	issues(t, f.Store, before)
	write(t, f.settings.CertFile, low.certPEM()+middle.certPEM())
	f.files.Look(t.Context())
	issues(t, f.Store, before)
	f.failing(t, "")
	f.files.Look(t.Context())
	issues(t, f.Store, low)
	wantChanges(t, f, "low")
}

// A CA for later can be put in place ahead of time.
func TestNotYetValid(t *testing.T) {
	before := newCA(t, "before", pki.ECDSAP256, nil)
	later := newCA(t, "later", pki.ECDSAP256, nil, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Hour) })
	f := followCA(t, before)
	pairIn(t, filepath.Dir(f.settings.CertFile), later.certPEM(), later.keyPEM(t))
	f.settle(t)
	issues(t, f.Store, before)
	f.failing(t, "certificate 1 of the CA (CN=later) is not valid yet: it begins at 2026-03-01 13:00:00 +0000 UTC")
	f.clock.Step(time.Hour)
	f.settle(t)
	if got, _ := f.Current(); !got.Certificate().Equal(later.cert) {
		t.Errorf("the CA is %s", got.Certificate().Subject)
	}
	f.failing(t, "")
}

func TestCancelledSubscription(t *testing.T) {
	before, after := newCA(t, "before", pki.ECDSAP256, nil), newCA(t, "after", pki.ECDSAP256, nil)
	f := followCA(t, before)
	cancel := f.Subscribe(func(*pki.Authority) { t.Error("called after it was cancelled") })
	cancel()
	pairIn(t, filepath.Dir(f.settings.CertFile), after.certPEM(), after.keyPEM(t))
	f.settle(t)
	wantChanges(t, f, "after")
}

// TestStart watches files while other goroutines sign, until its context ends.
func TestStart(t *testing.T) {
	before, after := newCA(t, "before", pki.ECDSAP256, nil), newCA(t, "after", pki.ECDSAP256, nil)
	f := followCA(t, before)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- f.Start(ctx) }()
	pairIn(t, filepath.Dir(f.settings.CertFile), after.certPEM(), after.keyPEM(t))
	for deadline := time.Now().Add(time.Minute); ; runtime.Gosched() {
		f.clock.Step(pollInterval)
		if now, err := f.Current(); err == nil && now.Certificate().Equal(after.cert) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("still another CA; failure: %v", f.Status().Failure)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	wantChanges(t, f, "after")
}

func wantChanges(t *testing.T, f followed, names ...string) {
	t.Helper()
	if got, want := strings.Join(*f.changes, " "), strings.Join(names, " "); got != want {
		t.Errorf("subscribers heard of %q, want %q", got, want)
	}
	if got := testutil.ToFloat64(f.Store.metrics.changes.WithLabelValues("signing.ca")); got != float64(len(names)) {
		t.Errorf("%v changes are counted, want %d", got, len(names))
	}
}

func install(t *testing.T, path, content string) {
	t.Helper()
	if content != "" {
		write(t, path, content)
	} else if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}
