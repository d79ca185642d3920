package retention

import (
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/pki"
)

var now = time.Date(2026, 5, 4, 12, 0, 0, 500, time.UTC)

var limits = Limits{
	Issued: time.Hour, Denied: time.Hour, Failed: time.Hour,
	Pending: 24 * time.Hour, Approved: 24 * time.Hour, Undecided: 168 * time.Hour,
	Fetch: 5 * time.Minute,
}

const (
	approved = certificatesv1.CertificateApproved
	denied   = certificatesv1.CertificateDenied
	failed   = certificatesv1.CertificateFailed
	remark   = "Remark"
)

// change makes a request what a test is about.
type change func(*csr)

// newCSR makes a request that was created so long ago.
func newCSR(age time.Duration, changes ...change) *csr {
	c := &csr{ObjectMeta: metav1.ObjectMeta{Name: "x", CreationTimestamp: metav1.NewTime(now.Add(-age))}}
	for _, change := range changes {
		change(c)
	}
	return c
}

// says adds a condition that was updated age ago.
func says(kind certificatesv1.RequestConditionType, age time.Duration) change {
	return func(c *csr) {
		c.Status.Conditions = append(c.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: kind, LastUpdateTime: metav1.NewTime(now.Add(-age)),
		})
	}
}

// saysWithoutTime adds a condition without a time.
func saysWithoutTime(kind certificatesv1.RequestConditionType) change {
	return func(c *csr) {
		c.Status.Conditions = append(c.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: kind})
	}
}

// valid adds a certificate that was made so long ago and ends then.
func valid(t testing.TB, made, ends time.Duration) change {
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	root, err := pki.NewRoot(pki.UnrecordedSigning, "x", key, made+ends, now.Add(-made))
	if err != nil {
		t.Fatal(err)
	}
	return func(c *csr) { c.Status.Certificate = pki.EncodeCertificates(root.Certificate()) }
}

func garbage(c *csr) { c.Status.Certificate = []byte("garbage") }

func TestDecide(t *testing.T) {
	const minute, hour, day = time.Minute, time.Hour, 24 * time.Hour
	old := valid(t, 9*day, day) // made long ago, still valid
	tests := []struct {
		reason string
		csr    *csr
		want   Reason
		again  time.Duration // after now; 0: never
	}{
		{"issued, approved lately", newCSR(day, says(approved, 50*minute), old), "", 10 * minute},
		{"issued, approved long ago", newCSR(day, says(approved, 2*hour), old), Issued, 0},
		{"approved not long ago, not issued", newCSR(day, says(approved, 50*minute)), "", day - 50*minute},
		{"approved long ago, not issued", newCSR(day, says(approved, 5*hour)), "", 19 * hour},
		{"approved too long ago, not issued", newCSR(3*day, says(approved, 25*hour)), Approved, 0},
		{"denied lately", newCSR(day, says(denied, 50*minute)), "", 10 * minute},
		{"denied long ago", newCSR(day, says(denied, 2*hour)), Denied, 0},
		{"failed lately, though approved long ago", newCSR(day, says(approved, 2*hour), says(failed, 50*minute)), "", 10 * minute},
		{"failed long ago", newCSR(day, says(approved, 2*hour), says(failed, 2*hour)), Failed, 0},
		{"failed lately, though approved too long ago", newCSR(3*day, says(approved, 25*hour), says(failed, 50*minute)), Approved, 0},
		{"pending", newCSR(5 * hour), "", 19 * hour},
		{"pending for too long", newCSR(25 * hour), Pending, 0},
		{"expired, approved lately", newCSR(hour, says(approved, 50*minute), valid(t, day, -hour)), Expired, 0},
		{"expires before it is old", newCSR(hour, says(approved, 50*minute), valid(t, day, 3*minute)), "", 3 * minute},
		{"no certificate at all, approved long ago", newCSR(day, says(approved, 2*hour), garbage), Issued, 0},
		{"no certificate at all, approved lately", newCSR(day, says(approved, 50*minute), garbage), "", 10 * minute},
		{"expired, but nobody approved it", newCSR(day, valid(t, day, -hour), says(remark, hour)), "", 144 * hour},

		{"the order of classes", newCSR(3*day, says(approved, 2*day), says(denied, 2*day), old), Issued, 0},
		{"denied counts before failed", newCSR(3*day, says(failed, 2*day), says(denied, 2*day)), Denied, 0},
		{"denied counts before approved", newCSR(3*day, says(approved, 2*day), says(denied, 2*day)), Denied, 0},

		{"exactly as old as allowed", newCSR(day), "", time.Nanosecond},
		{"a moment older", newCSR(day + time.Nanosecond), Pending, 0},
		{"denied exactly as long ago as allowed", newCSR(day, says(denied, hour)), "", time.Nanosecond},

		{"only a remark", newCSR(25*hour, says(remark, 25*hour)), "", 6*day - hour},
		{"only a remark, for too long", newCSR(8*day, says(remark, minute)), Undecided, 0},
		{"a decision that does not tell its time", newCSR(2*day, saysWithoutTime(denied)), "", 5 * day},
		{"a decision that does not tell its time, for too long", newCSR(8*day, saysWithoutTime(approved)), Undecided, 0},
		{"a remark besides an approval", newCSR(2*day, says(remark, 2*day), says(approved, hour)), "", 23 * hour},
		{"no times at all", &csr{}, "", 0},

		{"approved long ago, issued now", newCSR(day, says(approved, 2*hour), valid(t, 0, day)), "", 5 * minute},
		{"approved long ago, issued a while ago", newCSR(day, says(approved, 2*hour), valid(t, 6*minute, day)), Issued, 0},
		{"begins in the future", newCSR(day, says(approved, 2*hour), valid(t, -hour, day)), Issued, 0},

		{"being deleted", newCSR(3*day, func(c *csr) { c.DeletionTimestamp = &metav1.Time{Time: now} }), "", 0},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			got := Decide(tc.csr, now, limits)
			if got.Reason != tc.want || got.Delete() != (tc.want != "") {
				t.Fatalf("got %+v, want %q", got, tc.want)
			}
			if got.Delete() != (got.Message != "") {
				t.Errorf("message %q", got.Message)
			}
			checkAgain(t, tc.csr, got.Again, tc.again)
		})
	}
}

// checkAgain checks the time Again of a verdict: nothing changes before that
// time, and then something does. The times in certificates are whole seconds.
func checkAgain(t *testing.T, c *csr, again time.Time, want time.Duration) {
	t.Helper()
	if again.IsZero() != (want == 0) || want != 0 && (again.Sub(now)-want).Abs() > time.Second {
		t.Fatalf("to be looked at again at %v, want %v after now", again, want)
	}
	if want == 0 {
		return
	}
	if Decide(c, again.Add(-time.Nanosecond), limits).Delete() {
		t.Error("it is deleted before it is looked at again")
	}
	if !Decide(c, again, limits).Delete() {
		t.Error("it is not deleted when it is looked at again")
	}
}

func TestLimits(t *testing.T) {
	long := 1000 * time.Hour
	for _, c := range []*csr{
		newCSR(long), newCSR(long, says(denied, long)), newCSR(long, says(failed, long)), newCSR(long, says(remark, long)),
		newCSR(long, says(approved, long)), newCSR(long, says(approved, long), valid(t, long, time.Hour)),
	} {
		if got := Decide(c, now, Limits{}); got.Delete() {
			t.Errorf("%v: without limits it is deleted as %s", c.Status.Conditions, got.Reason)
		}
		short := Limits{Issued: 1, Denied: 1, Failed: 1, Pending: 1, Approved: 1, Undecided: 1}
		if got := Decide(c, now, short); !got.Delete() {
			t.Errorf("%v: it is kept over the shortest limits", c.Status.Conditions)
		}
	}
	expired := newCSR(long, says(approved, long), valid(t, long, -time.Hour))
	if got := Decide(expired, now, Limits{}); got.Reason != Expired {
		t.Errorf("an expired one gets %+v", got)
	}
	if got := Decide(expired, now.Add(-time.Hour-time.Second), Limits{}); got.Delete() || got.Again.Before(expiryOf(t, expired)) {
		t.Errorf("one that is about to expire gets %+v", got)
	}
}

func expiryOf(t *testing.T, c *csr) time.Time {
	t.Helper()
	cert := certificate(c.Status.Certificate)
	if cert == nil {
		t.Fatal("no certificate")
	}
	return cert.NotAfter
}
