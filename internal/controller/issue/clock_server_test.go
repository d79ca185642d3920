package issue_test

import (
	"fmt"
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/certplane/certplane/internal/api/certmanager"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/controller/issue"
	"github.com/certplane/certplane/internal/policy/issuance"
	"github.com/certplane/certplane/internal/process/changewatch"
)

// newClockWorld is a world whose Certificates use the test's clock. The clock
// starts at the present time and stands still until the test sets it. After
// setting it, the test must notify the controller by turn or touch.
func newClockWorld(t *testing.T) (*world, *clocktesting.FakePassiveClock) {
	t.Helper()
	return newClockWorldOn(t, untended.Start(t), func(*world, *issue.Config) {})
}

// newClockWorldOn is newClockWorld on a server without the controller, whose
// configuration change changes.
func newClockWorldOn(t *testing.T, s *apitest.Server, change func(*world, *issue.Config)) (*world, *clocktesting.FakePassiveClock) {
	t.Helper()
	w := newWorldOn(t, s)
	clock := newClock(w)
	t.Cleanup(startIssuing(t, w, clock, change))
	return w, clock
}

// newClock returns the clock of a world, which stands still at the present time.
func newClock(w *world) *clocktesting.FakePassiveClock {
	clock := clocktesting.NewFakePassiveClock(time.Now())
	w.now = clock.Now
	return clock
}

// startIssuing starts the controller, whose configuration change changes, and
// returns what stops it.
func startIssuing(t *testing.T, w *world, clock *clocktesting.FakePassiveClock, change func(*world, *issue.Config)) (stop func()) {
	t.Helper()
	mgr, err := ctrl.NewManager(w.Admin(t), ctrl.Options{Scheme: w.api.Scheme(), Metrics: metricsserver.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: ptr.To(true)}})
	if err != nil {
		t.Fatal(err)
	}
	secrets, err := changewatch.New(w.Admin(t), changewatch.Secrets, "")
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := discovery.NewDiscoveryClientForConfig(w.Admin(t))
	if err != nil {
		t.Fatal(err)
	}
	cfg := issue.Config{
		Cache: w.Admin(t), API: w.Admin(t), Secrets: secrets, Client: w.everywhere, Versions: kinds.ServerResourcesForGroupVersionWithContext,
		Settings: issue.DefaultCertificateSettings(), Clock: clock,
	}
	change(w, &cfg)
	if err := issue.Add(mgr, cfg); err != nil {
		t.Fatal(err)
	}
	return apitest.Work(t, mgr)
}

// touch makes the controller look at a Certificate.
func (w *world) touch(t testing.TB, name string) (label string) {
	t.Helper()
	w.change(t, name, func(crt *cmv1.Certificate) {
		label = fmt.Sprint(crt.Generation)
		crt.Spec.SecretTemplate = &cmv1.CertificateSecretTemplate{Labels: map[string]string{"touched": label}}
	})
	return label
}

// turn returns once everything that is due for a Certificate has been done, if
// that was not an issuance: the Secret's labels are written last.
func (w *world) turn(t testing.TB, name string) *cmv1.Certificate {
	t.Helper()
	label := w.touch(t, name)
	w.secret(t, name+"-tls", "is tended", func(s *corev1.Secret) bool { return s.Labels["touched"] == label })
	crt, _ := get[cmv1.Certificate](t, w, name)
	return crt
}

// A certificate is renewed in time. Failed issuances are tried again after one
// hour, two, four and so on to 32. Nothing happens in between, whatever clocks
// do.
func TestTimes(t *testing.T) {
	w, clock := newClockWorld(t)
	crt := newCertificate("web")
	crt.Spec.Duration = &metav1.Duration{Duration: time.Hour}
	crt.Spec.RenewBeforePercentage = ptr.To[int32](25)
	w.create(t, crt)
	w.waiting(t, "web-1")
	clock.SetTime(clock.Now().Add(2 * time.Minute)) // more than the time that the request took to be made
	w.touch(t, "web")
	w.says(t, "web", `CertificateRequest "web-1" waits for approval: approve or deny it, or check that its approver is running and has the verb approve for Player.test.example.com/us`)
	first := w.sign(t, "web-1")
	crt = w.issued(t, "web", 1)
	if due := crt.Status.RenewalTime; due == nil || !due.Time.Equal(first.NotAfter.Add(-15*time.Minute)) {
		t.Errorf("renewed at %v, want a quarter of an hour before %v", due, first.NotAfter)
	}

	for _, jump := range []time.Duration{-24 * time.Hour, 44 * time.Minute} {
		clock.SetTime(first.NotBefore.Add(jump))
		if crt := w.turn(t, "web"); !certmanager.CertificateIs(crt, cmv1.CertificateConditionReady) || certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) {
			t.Errorf("%v after it was issued: %+v", jump, crt.Status)
		}
	}
	clock.SetTime(first.NotBefore.Add(45 * time.Minute))
	w.touch(t, "web")
	w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, issuance.ReasonRenewing)

	for n, wait := range []time.Duration{1, 2, 4, 8, 16, 32, 32} {
		wait *= time.Hour
		w.refuse(t, "web-2")
		crt := eventually(t, w, "web", "has failed again", func(crt *cmv1.Certificate) bool {
			return crt.Status.FailedIssuanceAttempts != nil && *crt.Status.FailedIssuanceAttempts == n+1 && crt.Status.NextPrivateKeySecretName == nil
		})
		failed := crt.Status.LastFailureTime.Time
		clock.SetTime(failed.Add(wait - time.Second))
		if crt := w.turn(t, "web"); certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) {
			t.Fatalf("tried again %v after failure %d, want after %v", wait-time.Second, n+1, wait)
		}
		clock.SetTime(failed.Add(wait))
		w.touch(t, "web")
		w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, issuance.ReasonRenewing)
	}
	w.condition(t, "web", cmv1.CertificateConditionReady, cmmeta.ConditionFalse, issuance.ReasonExpired)
	second := w.sign(t, "web-2")
	crt = w.issued(t, "web", 2)
	w.holds(t, "web-tls", second)
	if crt.Status.FailedIssuanceAttempts != nil || crt.Status.LastFailureTime != nil {
		t.Errorf("the failures are not forgotten: %+v", crt.Status)
	}
}

// A certificate is renewed in a window, or in the next one if that is missed.
func TestWindows(t *testing.T) {
	w, clock := newClockWorld(t)
	begin := clock.Now()
	window := begin.UTC().Add(26 * time.Hour).Truncate(time.Hour)
	crt := newCertificate("web")
	crt.Spec.Duration, crt.Spec.RenewBefore = &metav1.Duration{Duration: 96 * time.Hour}, &metav1.Duration{Duration: 72 * time.Hour}
	crt.Spec.Renewal = &cmv1.CertificateRenewal{Windows: []cmv1.CertificateRenewalWindows{{
		Cron: fmt.Sprintf("0 %d * * *", window.Hour()), WindowDuration: &metav1.Duration{Duration: time.Hour},
	}}}
	w.create(t, crt)
	w.sign(t, "web-1")
	w.issued(t, "web", 1)
	for _, tc := range []struct{ at, want time.Time }{
		{window.Add(-time.Second), window},
		{window.Add(time.Hour), window.Add(24 * time.Hour)},
	} {
		clock.SetTime(tc.at)
		crt := w.turn(t, "web")
		if due := crt.Status.RenewalTime; due == nil || !due.Time.Equal(tc.want) || certmanager.CertificateIs(crt, cmv1.CertificateConditionIssuing) {
			t.Errorf("at %v: %+v, want renewal at %v", tc.at, crt.Status, tc.want)
		}
	}
	clock.SetTime(window.Add(24*time.Hour + 59*time.Minute))
	w.touch(t, "web")
	w.condition(t, "web", cmv1.CertificateConditionIssuing, cmmeta.ConditionTrue, issuance.ReasonRenewing)
	w.sign(t, "web-2")
	w.issued(t, "web", 2)
}
