package issuance_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/issuance"
)

// A renewBefore of nearly the whole lifetime would cause continuous renewals.
// Renewals are some minutes apart, and the condition says so.
func TestRenewalsAreApart(t *testing.T) {
	w := newWorld(t)
	at := w.requests[0].CreationTimestamp.Time
	if at.IsZero() {
		at = now
		w.requests[0].CreationTimestamp = metav1.NewTime(now)
	}
	life := w.crt.Spec.Duration
	if life == nil {
		life = &metav1.Duration{Duration: 90 * 24 * time.Hour}
	}
	w.crt.Spec.RenewBefore = &metav1.Duration{Duration: life.Duration - time.Second}
	for after, starts := range map[time.Duration]bool{2 * time.Second: false, 4*time.Minute + 59*time.Second: false, 5 * time.Minute: true} {
		moment := at.Add(after)
		start := backoff.Decide(w.situation(), moment)
		if start.Why.None() == starts {
			t.Errorf("after %v: %+v", after, start)
		}
		if !starts && (!start.Again.Equal(at.Add(5*time.Minute)) || !strings.Contains(start.Held, "shorten spec.renewBefore")) {
			t.Errorf("after %v it looks again at %v: %s", after, start.Again, start.Held)
		}
		ready := issuance.Ready(w.situation(), moment)
		if !ready.Problem.None() || !ready.Often || !ready.RenewalTime.Time.Equal(at.Add(5*time.Minute)) {
			t.Errorf("after %v: %+v", after, ready)
		}
		issuance.SetReadiness(w.crt, ready, moment)
		if got := w.crt.Status.Conditions[len(w.crt.Status.Conditions)-1].Message; !strings.Contains(got, "renewals are at least 5m0s apart") {
			t.Errorf("condition %q", got)
		}
	}
	// Other problems do not wait.
	w.secret.Data = nil
	if start := backoff.Decide(w.situation(), at.Add(2*time.Second)); start.Why.None() {
		t.Errorf("without a certificate: %+v", start)
	}
}
