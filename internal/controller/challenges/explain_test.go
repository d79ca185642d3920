package challenges

import (
	"errors"
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/client/explain/explaintest"
	"github.com/certplane/certplane/internal/policy/challenge"
)

// presented is the status of a Challenge whose answer is there since at.
func presented(at time.Time) acmev1.ChallengeStatus {
	return acmev1.ChallengeStatus{Processing: true, Presented: true, PresentedAt: &metav1.Time{Time: at}, State: acmev1.Pending}
}

func finalized(ch *acmev1.Challenge) { ch.Finalizers = []string{challenge.Finalizers[0]} }

func waiting(ch *acmev1.Challenge) {
	ch.Spec.Solver.WaitInsteadOfSelfCheck = &metav1.Duration{Duration: time.Hour}
}

// failing lets one call of a CA fail.
func failing(call string, err error) func(string) error {
	return func(made string) error {
		if made == call {
			return err
		}
		return nil
	}
}

// rows are the situations that a pass over a Challenge tells apart, in the order
// in which it does. The controller and the explanation must decide alike in each.
var rows = []struct {
	reason string
	create func(*acmev1.Challenge)
	// status is what the Challenge has at first; then may change the world, in
	// which the controller works for after.
	status func(now time.Time) acmev1.ChallengeStatus
	then   func(*world, *acmev1.Challenge)
	after  time.Duration
	want   challenge.Step
}{
	{
		reason: "deleted, and not cleaned up", create: finalized, want: challenge.CleanUp,
		status: presented, then: func(w *world, ch *acmev1.Challenge) { w.delete(ch) },
	},
	{
		reason: "valid, and not cleaned up", create: finalized, want: challenge.CleanUp,
		status: func(time.Time) acmev1.ChallengeStatus {
			return acmev1.ChallengeStatus{State: acmev1.Valid, Processing: true, Presented: true}
		},
	},
	{
		reason: "failed, and not closed", want: challenge.Close,
		status: func(time.Time) acmev1.ChallengeStatus {
			return acmev1.ChallengeStatus{State: acmev1.Invalid, Processing: true}
		},
	},
	{
		reason: "failed, and closed", want: challenge.Nothing,
		status: func(time.Time) acmev1.ChallengeStatus { return acmev1.ChallengeStatus{State: acmev1.Invalid} },
	},
	{reason: "not begun", want: challenge.Start},
	{
		reason: "not read yet", want: challenge.Read,
		status: func(time.Time) acmev1.ChallengeStatus { return acmev1.ChallengeStatus{Processing: true} },
	},
	{
		reason: "there is no issuer", after: time.Second, want: challenge.Read,
		then: func(w *world, _ *acmev1.Challenge) {
			if err := w.api.Delete(w.Context(), &cmv1.ClusterIssuer{ObjectMeta: metav1.ObjectMeta{Name: "le"}}); err != nil {
				w.Fatal(err)
			}
		},
	},
	{
		reason: "the CA does not say its state", after: time.Second, want: challenge.Read,
		then: func(w *world, _ *acmev1.Challenge) {
			w.ca.fails = failing("authorization", errors.New("no route to host"))
		},
	},
	{
		reason: "its answer cannot be presented", after: time.Second, want: challenge.Present,
		then: func(w *world, _ *acmev1.Challenge) { w.net.present = errors.New("no such zone") },
	},
	{
		reason: "its answer is not seen", after: time.Second, want: challenge.Check,
		then: func(w *world, _ *acmev1.Challenge) {
			w.net.visible = func(*acmev1.Challenge) error { return errors.New("not there") }
		},
	},
	{reason: "it waits instead of a self check", create: waiting, after: time.Second, want: challenge.Delay},
	{
		reason: "the wait instead of a self check has ended", create: waiting, want: challenge.Accept,
		status: func(now time.Time) acmev1.ChallengeStatus { return presented(now.Add(-2 * time.Hour)) },
	},
	{
		reason: "its answer was seen, and slower servers get time", after: time.Second, want: challenge.Accept,
		then: func(w *world, _ *acmev1.Challenge) { w.net.delay = time.Hour },
	},
	{
		reason: "the CA cannot be asked to validate", after: time.Second, want: challenge.Accept,
		then: func(w *world, _ *acmev1.Challenge) { w.ca.fails = failing("accept", errors.New("no route to host")) },
	},
	{
		reason: "the CA limits validations", after: time.Second, want: challenge.Accept,
		then: func(w *world, _ *acmev1.Challenge) {
			w.ca.fails = failing("accept", &rfc8555.Problem{Type: rfc8555.Namespace + rfc8555.ProblemRateLimited, Status: 429})
		},
	},
	{
		reason: "the CA has refused to validate", after: time.Minute, want: challenge.Nothing,
		then: func(w *world, _ *acmev1.Challenge) {
			w.ca.fails = failing("accept", &rfc8555.Problem{Type: rfc8555.Namespace + rfc8555.ProblemMalformed, Status: 400})
		},
	},
	{
		reason: "the CA validates", after: time.Second, want: challenge.Poll,
		then: func(w *world, _ *acmev1.Challenge) { w.ca.slow = 1000 },
	},
	{
		reason: "it has taken a day", want: challenge.GiveUp,
		status: func(now time.Time) acmev1.ChallengeStatus { return presented(now.Add(-25 * time.Hour)) },
	},
}

func TestExplainedAsDecided(t *testing.T) {
	for _, row := range rows {
		t.Run(row.reason, func(t *testing.T) {
			w := newWorld(t)
			create := row.create
			if create == nil {
				create = func(*acmev1.Challenge) {}
			}
			ch := w.create("shop", "a", create)
			if row.status != nil {
				ch.Status = row.status(w.clock.Now())
				if err := w.api.Status().Update(t.Context(), ch); err != nil {
					t.Fatal(err)
				}
			}
			if row.then != nil {
				row.then(w, ch)
			}
			if row.after > 0 {
				w.run(row.after)
			}
			if decided := w.decided(ch); decided != row.want {
				t.Errorf("the controller decides %q, want %q; %+v", decided, row.want, w.get(ch).Status)
			}
			e, err := explain.Challenge(t.Context(), explaintest.Reader{Reader: w.api}, explain.Query{Namespace: "shop", Name: "a", Now: w.clock.Now()})
			if err != nil || e.Decision.Step != row.want {
				t.Errorf("the explanation says %q, error %v, want %q", e.Decision.Step, err, row.want)
			}
		})
	}
}

// decided returns what the controller does next. What it has not read from the
// CA since its start, although another one has, it reads first.
func (w *world) decided(ch *acmev1.Challenge) challenge.Step {
	w.Helper()
	s := w.controller.situation(w.get(ch))
	next := s.Next()
	if next.Step == challenge.Read && s.Challenge.Status.State != acmev1.Unknown {
		s = s.After(s.HasRead(*w.ca.authorizations[ch.Spec.AuthorizationURL]))
		next = s.Next()
	}
	return next.Step
}
