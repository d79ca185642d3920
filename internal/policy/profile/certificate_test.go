package profile_test

import (
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
)

// A certificate for a pod has all usages that its key is good for; one for a
// CertificateSigningRequest has those that it asks for.
func TestUsages(t *testing.T) {
	pod := podFacts(t)
	ofRSA := podFacts(t)
	ofRSA.PKCS10, ofRSA.Key = nil, mustRSA(t, 3072)
	both := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	tests := []struct {
		reason string
		spec   spec
		facts  facts
		want   pki.Usages
	}{
		{"a pod with RSA", podSpec(), ofRSA, pki.Usages{Key: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment, Extended: both}},
		{"a pod with ECDSA", podSpec(), pod, pki.Usages{Key: x509.KeyUsageDigitalSignature, Extended: both}},
		{"a host", csrSpec(), csrFacts(t, x509.CertificateRequest{DNSNames: []string{"a"}}), pki.Usages{Key: x509.KeyUsageDigitalSignature, Extended: both[:1]}},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, decided(t, tc.spec, tc.facts).Usages); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestLifetime(t *testing.T) {
	duration := func(text string) *metav1.Duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return &metav1.Duration{Duration: d}
	}
	week := v1alpha1.LifetimeProfile{Maximum: duration("168h"), Default: duration("48h"), Backdate: duration("4m")}
	tests := []struct {
		reason         string
		profile        v1alpha1.LifetimeProfile
		asked          *time.Duration
		life, backdate time.Duration
	}{
		{"nothing is said", v1alpha1.LifetimeProfile{}, nil, 24 * time.Hour, 2 * time.Minute},
		{"nothing is asked for", week, nil, 48 * time.Hour, 4 * time.Minute},
		{"a maximum alone", v1alpha1.LifetimeProfile{Maximum: duration("12h")}, nil, 12 * time.Hour, 2 * time.Minute},
		{"less", week, ptr(time.Hour), time.Hour, 4 * time.Minute},
		{"more than the default", week, ptr(100 * time.Hour), 100 * time.Hour, 4 * time.Minute},
		{"more than there is", week, ptr(1000 * time.Hour), 168 * time.Hour, 4 * time.Minute},
		{"parts of seconds", week, ptr(time.Hour + time.Millisecond), time.Hour, 4 * time.Minute},
		{"no backdate", v1alpha1.LifetimeProfile{Backdate: duration("0s")}, nil, 24 * time.Hour, 0},
		{"half of a short life", v1alpha1.LifetimeProfile{Backdate: duration("2h")}, ptr(time.Hour), time.Hour, 30 * time.Minute},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s, f := csrSpec(), csrFacts(t, x509.CertificateRequest{DNSNames: []string{"a"}})
			s.Profile.Lifetime, f.Duration = tc.profile, tc.asked
			cert := decided(t, s, f)
			if cert.Duration != tc.life || cert.Backdate != tc.backdate {
				t.Errorf("got %v, of which %v are past; want %v and %v", cert.Duration, cert.Backdate, tc.life, tc.backdate)
			}
			now := time.Date(2026, 5, 1, 12, 0, 0, 999, time.FixedZone("x", 3600))
			validity := cert.Validity(now)
			if got := validity.NotAfter.Sub(validity.NotBefore); got != tc.life || validity.NotBefore.Nanosecond() != 0 || validity.NotBefore.After(now) {
				t.Errorf("valid %v for %v", validity, got)
			}
		})
	}
}

// What is decided can be issued.
func TestTemplatePassesTheLinter(t *testing.T) {
	now := time.Now()
	ca, err := pki.NewRoot(pki.UnrecordedSigning, "ca", mustKey(pki.ECDSAP256), 1000*time.Hour, now.Add(-time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	s := podSpec()
	s.Profile.Subject = v1alpha1.SubjectProfile{CommonName: "requester.username", Organizations: "requester.groups"}
	cert := decided(t, s, podFacts(t))
	serial, err := pki.NewSerial(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	linted, err := ca.Lint(cert.Template(cert.Validity(now), serial), pki.Policy{MinRSABits: 2048})
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := linted.Sign(t.Context(), pki.Unrecorded, pki.Purpose{})
	if err != nil {
		t.Fatal(err)
	}
	if leaf.IsCA || leaf.NotAfter.Sub(leaf.NotBefore) != 24*time.Hour || leaf.Subject.CommonName != "system:serviceaccount:shop:web" || len(leaf.Subject.Organization) != 3 {
		t.Errorf("issued %+v", leaf)
	}
}

func TestRefreshAt(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		reason      string
		refresh     v1alpha1.RefreshProfile
		life        time.Duration
		first, last time.Duration // the window, of which at least nine tenths are used
	}{
		{"a day", v1alpha1.RefreshProfile{}, 24 * time.Hour, 13*time.Hour + 26*time.Minute + 24*time.Second, 18*time.Hour + 14*time.Minute + 24*time.Second},
		{"no jitter", v1alpha1.RefreshProfile{JitterPercent: ptr(int32(0))}, 100 * time.Hour, 66 * time.Hour, 66 * time.Hour},
		{"the shortest life of a pod's", v1alpha1.RefreshProfile{AtPercent: 90, JitterPercent: ptr(int32(30))}, time.Hour, 14 * time.Minute, 50 * time.Minute},
		{"early in a short life", v1alpha1.RefreshProfile{AtPercent: 10}, time.Hour, 10 * time.Minute, 22 * time.Minute},
		{"late in a short life, all at once", v1alpha1.RefreshProfile{AtPercent: 90, JitterPercent: ptr(int32(0))}, time.Hour, 50 * time.Minute, 50 * time.Minute},
		{"no room for margins", v1alpha1.RefreshProfile{}, 15 * time.Minute, 450 * time.Second, 450 * time.Second},
		{"just enough room", v1alpha1.RefreshProfile{}, 20 * time.Minute, 10 * time.Minute, 10 * time.Minute},
		{"a hundred years", v1alpha1.RefreshProfile{AtPercent: 50, JitterPercent: ptr(int32(1))}, 876000 * time.Hour, 49 * 8760 * time.Hour, 51 * 8760 * time.Hour},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s := podSpec()
			s.Profile.Refresh = tc.refresh
			cert := decided(t, s, podFacts(t))
			earliest, latest := tc.life, time.Duration(0)
			for i := range 2000 {
				uid := fmt.Sprintf("5c0d7a3e-0000-4000-8000-%012d", i)
				at := cert.RefreshAt(start, start.Add(tc.life), uid)
				if again := cert.RefreshAt(start, start.Add(tc.life), uid); !at.Equal(again) || at.Nanosecond() != 0 {
					t.Fatalf("%v, then %v", at, again)
				}
				earliest, latest = min(earliest, at.Sub(start)), max(latest, at.Sub(start))
			}
			if earliest < tc.first || latest > tc.last || (latest-earliest)*10 < (tc.last-tc.first)*9 {
				t.Errorf("from %v to %v, want from %v to %v", earliest, latest, tc.first, tc.last)
			}
		})
	}
}
