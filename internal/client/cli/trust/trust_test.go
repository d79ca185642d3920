package trust

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/rollover"
)

var now = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

func newRoot(t *testing.T, name string, years int) string {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	ca, err := pki.NewRoot(pki.UnrecordedSigning, name, key, time.Duration(years)*365*24*time.Hour, now)
	if err != nil {
		t.Fatal(err)
	}
	return string(pki.EncodeCertificates(ca.Certificate()))
}

func bundle(name, until string, roots ...string) certificatesv1.ClusterTrustBundle {
	b := certificatesv1.ClusterTrustBundle{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if until != "" {
		b.Annotations = map[string]string{rollover.UntilAnnotation: until}
	}
	b.Spec.TrustBundle = strings.Join(roots, "")
	return b
}

// While a CA changes, the roots of both bundles are written, each once.
func TestTwoBundles(t *testing.T) {
	kept, former, next := newRoot(t, "kept", 3), newRoot(t, "former", 1), newRoot(t, "next", 9)
	roots, err := Roots([]certificatesv1.ClusterTrustBundle{
		bundle("s:web:old", "2026-12-24", former, kept), bundle("s:web:new", "", kept, next),
	})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := (Config{Output: "pem"}).encode(roots); err != nil || string(out) != next+kept+former {
		t.Errorf("%v: %s", err, out)
	}
	want := [][]string{
		{"CN=next", "2035-", "current", "s:web:new"},
		{"CN=kept", "2029-", "current", "s:web:new"},
		{"CN=former", "2027-", "superseded, trusted until 2026-12-24", "s:web:old"},
	}
	lines := strings.Split(string(table(roots, now)), "\n")[1:]
	for i, row := range want {
		for _, part := range row {
			if !strings.Contains(lines[i], part) {
				t.Errorf("line %d lacks %q: %s", i, part, lines[i])
			}
		}
	}
	if lines := string(table(roots, now.AddDate(20, 0, 0))); strings.Count(lines, "expired") != 3 {
		t.Errorf("no root is valid any more: %s", lines)
	}
}

// The root of the next CA says from when it signs.
func TestNext(t *testing.T) {
	roots, err := Roots([]certificatesv1.ClusterTrustBundle{bundle("a", "", newRoot(t, "now", 1), newRoot(t, "next", 2))})
	if err != nil {
		t.Fatal(err)
	}
	signers := []v1alpha1.Signer{{Status: v1alpha1.SignerStatus{NextCA: &v1alpha1.CAStatus{Fingerprint: pki.Fingerprint(roots[0].Certificate)}}}}
	if got := WithNext(roots, signers)[0].State(now); got != "next" {
		t.Errorf("before its time is known: %s", got)
	}
	signers[0].Status.NextCA.SignsFrom = &metav1.Time{Time: now.Add(time.Hour)}
	marked := WithNext(roots, signers)
	if got := marked[0].State(now) + ", " + marked[1].State(now); got != "next, signs from 2026-05-01T01:00:00Z, current" {
		t.Errorf("got %s", got)
	}
}
