package renewal_test

import (
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/issuance/renewal"
)

func TestTime(t *testing.T) {
	begin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before := func(d time.Duration) cmv1.CertificateSpec {
		return cmv1.CertificateSpec{RenewBefore: &metav1.Duration{Duration: d}}
	}
	share := func(n int32) cmv1.CertificateSpec {
		return cmv1.CertificateSpec{RenewBeforePercentage: ptr.To(n)}
	}
	const century = 100 * 365 * 24 * time.Hour
	tests := []struct {
		reason string
		spec   cmv1.CertificateSpec
		life   time.Duration
		want   time.Duration // from the beginning; negative: never
	}{
		{"a third remains", cmv1.CertificateSpec{}, 90 * time.Hour, 60 * time.Hour},
		{"an hour before the end", before(time.Hour), 90 * time.Hour, 89 * time.Hour},
		{"the issuer gave less than renewBefore", before(100 * time.Hour), 90 * time.Hour, 60 * time.Hour},
		{"the issuer gave as much as renewBefore", before(90 * time.Hour), 90 * time.Hour, 60 * time.Hour},
		{"no renewBefore", before(0), 90 * time.Hour, 60 * time.Hour},
		{"a quarter remains", share(25), 100 * time.Hour, 75 * time.Hour},
		{"a share that is none", share(100), 90 * time.Hour, 60 * time.Hour},
		{"a share of a century", share(50), century, century / 2},
		{"whole seconds", cmv1.CertificateSpec{}, 10 * time.Second, 6 * time.Second},
		{"the spec's duration does not count", cmv1.CertificateSpec{Duration: &metav1.Duration{Duration: 900 * time.Hour}}, 90 * time.Hour, 60 * time.Hour},
		{"by hand", cmv1.CertificateSpec{Renewal: &cmv1.CertificateRenewal{Policy: cmv1.CertificateRenewalPolicyDisabled}}, 90 * time.Hour, -1},
		{"by time", cmv1.CertificateSpec{Renewal: &cmv1.CertificateRenewal{Policy: cmv1.CertificateRenewalPolicyRenewBefore}}, 90 * time.Hour, 60 * time.Hour},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got := renewal.Time(&tc.spec, pki.Validity{NotBefore: begin, NotAfter: begin.Add(tc.life)}, begin)
			if want := begin.Add(tc.want); tc.want >= 0 && !got.Equal(want) || tc.want < 0 && !got.IsZero() {
				t.Errorf("renewed after %v, want %v", got.Sub(begin), tc.want)
			}
		})
	}
}

// A window in use does not move the time, however often it is asked for.
func TestTimeInWindows(t *testing.T) {
	begin := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	validity := pki.Validity{NotBefore: begin, NotAfter: begin.Add(90 * time.Hour)} // due on 3 March at noon
	window := func(cron, zone string) cmv1.CertificateRenewalWindows {
		return cmv1.CertificateRenewalWindows{Cron: cron, Timezone: zone, WindowDuration: &metav1.Duration{Duration: time.Hour}}
	}
	tests := []struct {
		reason  string
		windows []cmv1.CertificateRenewalWindows
		now     time.Duration // after begin
		want    time.Duration
		outside bool
	}{
		{"long before", []cmv1.CertificateRenewalWindows{window("0 22 * * *", "")}, 0, 70 * time.Hour, false},
		{"the first of several", []cmv1.CertificateRenewalWindows{window("0 23 * * *", ""), window("0 22 * * *", "Etc/GMT-2")}, 0, 68 * time.Hour, false},
		{"open", []cmv1.CertificateRenewalWindows{window("0 22 * * *", "")}, 70*time.Hour + time.Minute, 60 * time.Hour, false},
		{"too late before the end", []cmv1.CertificateRenewalWindows{window("56 17 4 * *", "")}, 0, 60 * time.Hour, true},
		{"just before the end", []cmv1.CertificateRenewalWindows{window("55 17 4 * *", "")}, 0, 90*time.Hour - 5*time.Minute, false},
		{"past the end", []cmv1.CertificateRenewalWindows{window("0 22 * * *", "")}, 100 * time.Hour, 60 * time.Hour, true},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			spec := &cmv1.CertificateSpec{Renewal: &cmv1.CertificateRenewal{Windows: tc.windows}}
			if got := renewal.Time(spec, validity, begin.Add(tc.now)); !got.Equal(begin.Add(tc.want)) {
				t.Errorf("renewed after %v, want %v", got.Sub(begin), tc.want)
			}
			if got := renewal.Outside(spec, validity, time.Time{}, begin.Add(tc.now)); (got != "") != tc.outside {
				t.Errorf("outside: %q", got)
			}
		})
	}
}
