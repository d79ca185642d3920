package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/store/datadir"
)

func rootUntil(t *testing.T, name string, life time.Duration) *pki.Authority {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, name, key, life, firstStart)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

// counted counts changes.
type counted struct{ changes int }

func (c *counted) Enqueue() { c.changes++ }

// A CA that has signed for clients is kept until it ends, and notified of once.
func TestIssuingCAs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "cas.crt")
	open := func(now time.Time) *issuingCAs {
		cas, err := openIssuingCAs(file, now)
		if err != nil {
			t.Fatal(err)
		}
		return cas
	}
	cas, changes := open(firstStart), &counted{}
	if _, any := cas.VerifyOptions(); any || len(cas.CurrentCABundleContent()) > 0 {
		t.Error("at first there are some")
	}
	cas.AddListener(changes)
	short, long := rootUntil(t, "short", time.Hour), rootUntil(t, "long", 2*time.Hour)
	for _, ca := range []*pki.Authority{short, short, long, short} {
		cas.honour(ca)
	}
	options, any := cas.VerifyOptions()
	if want := pki.EncodeCertificates(short.Certificate(), long.Certificate()); !any || changes.changes != 2 || string(cas.CurrentCABundleContent()) != string(want) {
		t.Errorf("told of %d times, content %s", changes.changes, cas.CurrentCABundleContent())
	}
	if again, _ := cas.VerifyOptions(); again.Roots != options.Roots {
		t.Error("the options change without a reason")
	}
	for when, want := range map[time.Duration]int{0: 2, 90 * time.Minute: 1, 3 * time.Hour: 0} {
		if got := len(open(firstStart.Add(when)).certs); got != want {
			t.Errorf("after %v there are %d, want %d", when, got, want)
		}
	}
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openIssuingCAs(file, firstStart); err == nil || !strings.Contains(err.Error(), "correct it, or remove it") {
		t.Errorf("damaged: %v", err)
	}
}

// The folder with the keys is closed to other users, even if it existed before.
func TestPKIFolderIsClosed(t *testing.T) {
	data := datadir.Dir(t.TempDir())
	dir := data.PKI()
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil { // independent of the umask
		t.Fatal(err)
	}
	lock, err := lockDataDir(data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { lock.Close() })
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}
