package renewal_test

import (
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/renewal"
)

const hour = time.Hour

// half is a Jitter that returns the middle.
func half(bound time.Duration) time.Duration { return bound / 2 }

// least returns the least that a Jitter can.
func least(time.Duration) time.Duration { return 0 }

// most returns the most that a Jitter can.
func most(bound time.Duration) time.Duration { return bound - 1 }

func TestChoose(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v := pki.Validity{NotBefore: begin, NotAfter: begin.Add(90 * hour)}
	own := cmv1.CertificateSpec{RenewBefore: &metav1.Duration{Duration: 20 * hour}}
	last := 90*hour - 5*time.Minute
	tests := []struct {
		reason     string
		spec       cmv1.CertificateSpec
		start, end time.Duration // after begin
		random     func(time.Duration) time.Duration
		want       time.Duration
	}{
		{"the middle", cmv1.CertificateSpec{}, 60 * hour, 62 * hour, half, 61 * hour},
		{"the start", cmv1.CertificateSpec{}, 60 * hour, 62 * hour, least, 60 * hour},
		{"before the end", cmv1.CertificateSpec{}, 60 * hour, 62 * hour, most, 62*hour - time.Second},
		{"in the past", cmv1.CertificateSpec{}, -60 * hour, hour, half, -30*hour + 30*time.Minute},
		{"no length", cmv1.CertificateSpec{}, 60 * hour, 60 * hour, half, 60 * hour},
		{"past the end of the certificate", cmv1.CertificateSpec{}, 80 * hour, 1000 * hour, most, last - time.Second},
		{"all after the end of the certificate", cmv1.CertificateSpec{}, 100 * hour, 1000 * hour, half, last},
		{"later than the Certificate says itself", own, 60 * hour, 80 * hour, half, 65 * hour},
		{"all later than the Certificate says itself", own, 71 * hour, 80 * hour, half, 70 * hour},
		{"earlier than the Certificate says itself", own, 10 * hour, 12 * hour, half, 11 * hour},
		{"centuries", cmv1.CertificateSpec{}, -1e6 * hour, 1e6 * hour, most, last - time.Second},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			w := renewal.NewWindow(begin.Add(tc.start), begin.Add(tc.end))
			got := w.Choose(&tc.spec, v, tc.random)
			if !got.Equal(begin.Add(tc.want)) {
				t.Errorf("renewed after %v, want %v", got.Sub(begin), tc.want)
			}
			if !w.Has(got, &tc.spec, v) {
				t.Errorf("the window has no %v", got)
			}
			if w.Has(begin.Add(-2e6*hour), &tc.spec, v) || w.Has(begin.Add(90*hour), &tc.spec, v) {
				t.Error("the window has what it cannot have")
			}
		})
	}
}

// A certificate that is to serve for minutes is not renewed from its beginning on.
func TestLatestOfShortLived(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v := pki.Validity{NotBefore: begin, NotAfter: begin.Add(10 * time.Minute)}
	if got, want := renewal.Latest(&cmv1.CertificateSpec{}, v), begin.Add(9*time.Minute); !got.Equal(want) {
		t.Errorf("renewed at %v at the latest, want %v", got, want)
	}
}

func TestIsPossible(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	v := pki.Validity{NotBefore: begin, NotAfter: begin.Add(90 * hour)}
	tests := []struct {
		reason     string
		start, end time.Duration // after begin
		want       bool
	}{
		{"a good one", 60 * hour, 62 * hour, true},
		{"it ended an hour before the certificate began", -2 * hour, -hour, true},
		{"it ended a day before the certificate began", -30 * hour, -24 * hour, false},
		{"it ends before it starts", 62 * hour, 60 * hour, false},
	}
	for _, tc := range tests {
		if got := renewal.NewWindow(begin.Add(tc.start), begin.Add(tc.end)).IsPossible(v); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}

// The renewal windows of the Certificate count for suggestions, too.
func TestSuggested(t *testing.T) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	v := pki.Validity{NotBefore: begin, NotAfter: begin.Add(90 * hour)}
	nightly := &cmv1.CertificateRenewal{Windows: []cmv1.CertificateRenewalWindows{{Cron: "0 22 * * *", WindowDuration: &metav1.Duration{Duration: hour}}}}
	tests := []struct {
		reason      string
		spec        cmv1.CertificateSpec
		chosen, now time.Duration // after begin
		want        time.Duration // negative: never
	}{
		{"as chosen", cmv1.CertificateSpec{}, 30 * hour, 0, 30 * hour},
		{"as chosen, and due", cmv1.CertificateSpec{}, 30 * hour, 40 * hour, 30 * hour},
		{"when a window opens", cmv1.CertificateSpec{Renewal: nightly}, 30 * hour, 0, 46 * hour},
		{"in an open window", cmv1.CertificateSpec{Renewal: nightly}, 46*hour + time.Minute, 46*hour + 2*time.Minute, 46*hour + time.Minute},
		{"a window that was missed", cmv1.CertificateSpec{Renewal: nightly}, 46 * hour, 47 * hour, 70 * hour},
		{"no window any more", cmv1.CertificateSpec{Renewal: nightly}, 89 * hour, 0, 89 * hour},
		{"the spec has changed since", cmv1.CertificateSpec{RenewBefore: &metav1.Duration{Duration: 70 * hour}}, 30 * hour, 0, 20 * hour},
		{"never", cmv1.CertificateSpec{Renewal: &cmv1.CertificateRenewal{Policy: cmv1.CertificateRenewalPolicyDisabled}}, 30 * hour, 0, -1},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got := renewal.Suggested(&tc.spec, v, begin.Add(tc.chosen), begin.Add(tc.now))
			if tc.want < 0 && !got.IsZero() || tc.want >= 0 && !got.Equal(begin.Add(tc.want)) {
				t.Fatalf("renewed after %v, want %v", got.Sub(begin), tc.want)
			}
			if tc.want < 0 {
				return
			}
			if again := renewal.Suggested(&tc.spec, v, got, begin.Add(tc.now)); !again.Equal(got) {
				t.Errorf("%v becomes %v when it is read again", got, again)
			}
		})
	}
}

func TestNextAsk(t *testing.T) {
	tests := []struct {
		reason      string
		after, want time.Duration
	}{
		{"the CA does not say", 0, 6 * hour},
		{"it says two hours", 2 * hour, 2 * hour},
		{"at once", 1, time.Minute},
		{"next month", 30 * 24 * hour, 24 * hour},
	}
	for _, tc := range tests {
		if got := renewal.NextAsk(tc.after, least); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.reason, got, tc.want)
		}
		if got := renewal.NextAsk(tc.after, half); got != tc.want+tc.want/20 {
			t.Errorf("%s: not spread: %v", tc.reason, got)
		}
	}
}

func TestNextAskAfterError(t *testing.T) {
	tests := []struct {
		reason      string
		last, after time.Duration
		temporary   bool
		want        time.Duration
		final       bool
	}{
		{"the first error", 0, 0, true, time.Minute, false},
		{"the second", time.Minute, 0, true, 2 * time.Minute, false},
		{"one of many", 5 * hour, 0, true, 6 * hour, true},
		{"after the longest wait", 6*hour + 30*time.Minute, 0, true, 6 * hour, true},
		{"one that stays", 0, 0, false, 6 * hour, true},
		{"the CA says when", 0, hour, true, hour, false},
		{"the CA says less", 4 * time.Minute, time.Minute, true, 8 * time.Minute, false},
		{"the CA says next month", 0, 30 * 24 * hour, true, 24 * hour, false},
	}
	for _, tc := range tests {
		if got, final := renewal.NextAskAfterError(tc.last, tc.after, tc.temporary, least); got != tc.want || final != tc.final {
			t.Errorf("%s: %v %v, want %v %v", tc.reason, got, final, tc.want, tc.final)
		}
	}
}

func TestIsDue(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		reason string
		next   time.Time
		want   bool
	}{
		{"never asked", time.Time{}, true},
		{"now", now, true},
		{"in a second", now.Add(time.Second), false},
		{"in a day and a bit", now.Add(26 * hour), false},
		{"next year, as after the clock was wrong", now.Add(8760 * hour), true},
	}
	for _, tc := range tests {
		if got := renewal.IsDue(tc.next, now); got != tc.want {
			t.Errorf("%s: %v", tc.reason, got)
		}
	}
}
