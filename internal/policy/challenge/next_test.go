package challenge

import (
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var now = time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)

// dns returns a Challenge that is being processed, with changes.
func dns(changes ...func(*acmev1.Challenge)) *acmev1.Challenge {
	ch := &acmev1.Challenge{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", CreationTimestamp: metav1.Time{Time: now.Add(-time.Minute)}},
		Spec: acmev1.ChallengeSpec{
			URL: "https://ca/chall/1", AuthorizationURL: "https://ca/authz/1", DNSName: "a.example.com",
			Type: acmev1.ACMEChallengeTypeDNS01, Token: "tok", Key: "hash",
			Solver: acmev1.ACMEChallengeSolver{DNS01: &acmev1.ACMEChallengeSolverDNS01{RFC2136: &acmev1.ACMEIssuerDNS01ProviderRFC2136{}}},
		},
		Status: acmev1.ChallengeStatus{Processing: true, State: acmev1.Pending},
	}
	for _, change := range changes {
		change(ch)
	}
	return ch
}

func http(ch *acmev1.Challenge) {
	ch.Spec.Type, ch.Spec.Key = acmev1.ACMEChallengeTypeHTTP01, "tok.thumb"
	ch.Spec.Solver = acmev1.ACMEChallengeSolver{HTTP01: &acmev1.ACMEChallengeSolverHTTP01{}}
}

func finalizer(ch *acmev1.Challenge) {
	ch.Finalizers = append(ch.Finalizers, acmev1.ACMEDomainQualifiedFinalizer)
}

func presented(ago time.Duration) func(*acmev1.Challenge) {
	return func(ch *acmev1.Challenge) {
		finalizer(ch)
		ch.Status.Presented, ch.Status.PresentedAt = true, &metav1.Time{Time: now.Add(-ago)}
	}
}

func unchecked(wait time.Duration) func(*acmev1.Challenge) {
	return func(ch *acmev1.Challenge) {
		ch.Spec.Solver.WaitInsteadOfSelfCheck = &metav1.Duration{Duration: wait}
	}
}

func state(s acmev1.State) func(*acmev1.Challenge) {
	return func(ch *acmev1.Challenge) { ch.Status.State = s }
}

func deleted(ago time.Duration) func(*acmev1.Challenge) {
	return func(ch *acmev1.Challenge) { ch.DeletionTimestamp = &metav1.Time{Time: now.Add(-ago)} }
}

func situation(ch *acmev1.Challenge, m Memory) Situation {
	return Situation{Challenge: ch, Memory: m, Now: now, Rules: Rules{Deadline: 24 * time.Hour}}
}

func TestNext(t *testing.T) {
	read := Memory{Read: true, Since: now.Add(-time.Minute)}
	with := func(change func(*Memory)) Memory { m := read; change(&m); return m }
	for _, tc := range []struct {
		reason string
		ch     *acmev1.Challenge
		memory Memory
		want   Plan
	}{
		{"new", dns(func(ch *acmev1.Challenge) { ch.Status = acmev1.ChallengeStatus{} }), Memory{}, Plan{Step: Start, At: now, NeedsSlot: true}},
		{"started", dns(state("")), Memory{}, Plan{Step: Read, At: now, NeedsSlot: true}},
		{"a new process reads before it does anything", dns(presented(time.Minute)), Memory{}, Plan{Step: Read, At: now, NeedsSlot: true}},
		{"read", dns(), read, Plan{Step: Present, At: now, NeedsSlot: true}},
		{"Present has failed", dns(), with(func(m *Memory) { m.Step, m.Due = Present, now.Add(time.Hour) }), Plan{Step: Present, At: now.Add(time.Hour), NeedsSlot: true}},
		{"presented", dns(presented(0)), read, Plan{Step: Check, At: now, NeedsSlot: true}},
		{"no self check, time not known", dns(presented(0), unchecked(0), func(ch *acmev1.Challenge) { ch.Status.PresentedAt = nil }), read, Plan{Step: Delay, At: now}},
		{"no self check, 0s", dns(presented(0), unchecked(0)), read, Plan{Step: Accept, At: now, NeedsSlot: true}},
		{"no self check, still waiting", dns(presented(10*time.Second), unchecked(30*time.Second)), read, Plan{Step: Delay, At: now}},
		{"no self check, has waited", dns(presented(30*time.Second), unchecked(30*time.Second)), read, Plan{Step: Accept, At: now, NeedsSlot: true}},
		{"self check has failed", dns(presented(0)), with(func(m *Memory) { m.Step, m.Due = Check, now.Add(2*time.Second) }), Plan{Step: Check, At: now.Add(2 * time.Second), NeedsSlot: true}},
		{"self check has succeeded", dns(presented(0)), with(func(m *Memory) { m.Passed = now }), Plan{Step: Accept, At: now, NeedsSlot: true}},
		{"self check wants a delay", dns(presented(0)), with(func(m *Memory) { m.Passed, m.Delay = now, time.Minute }), Plan{Step: Accept, At: now.Add(time.Minute), NeedsSlot: true}},
		{"accepted", dns(presented(0)), with(func(m *Memory) { m.Accepted, m.Step, m.Due = now, Poll, now.Add(time.Second) }), Plan{Step: Poll, At: now.Add(time.Second), KeepsSlot: true}},
		{"a CA that takes long", dns(presented(0)), with(func(m *Memory) { m.Accepted = now.Add(-2 * time.Minute) }), Plan{Step: Poll, At: now}},
		{"an error of Accept delays the next reading", dns(presented(0)), Memory{Step: Accept, Due: now.Add(time.Hour)}, Plan{Step: Read, At: now.Add(time.Hour), NeedsSlot: true}},
		{"no issuer", dns(), with(func(m *Memory) { m.Step, m.Due = FindIssuer, now.Add(5*time.Second) }), Plan{Step: Present, At: now.Add(5 * time.Second), NeedsSlot: true}},
		{"too long", dns(presented(24 * time.Hour)), read, Plan{Step: GiveUp, At: now}},
		{"too long before it could be presented", dns(), Memory{Since: now.Add(-25 * time.Hour)}, Plan{Step: GiveUp, At: now.Add(-time.Hour)}},
		{"the authorization expires before", dns(presented(time.Hour)), with(func(m *Memory) { m.Expires = now.Add(-time.Second) }), Plan{Step: GiveUp, At: now.Add(-time.Second)}},
		{"it is given up in time", dns(presented(24*time.Hour - time.Second)), with(func(m *Memory) { m.Step, m.Due = Check, now.Add(time.Minute) }), Plan{Step: Check, At: now.Add(time.Second), NeedsSlot: true}},
		{"waits for a slot as long as it takes", dns(func(ch *acmev1.Challenge) { ch.Status.Processing = false }), Memory{Since: now.Add(-48 * time.Hour)}, Plan{Step: Start, At: now, NeedsSlot: true}},
		{"valid", dns(presented(0), state(acmev1.Valid)), read, Plan{Step: CleanUp, At: now}},
		{"valid, clean-up has failed", dns(presented(0), state(acmev1.Valid)), with(func(m *Memory) { m.Step, m.Due = CleanUp, now.Add(time.Minute) }), Plan{Step: CleanUp, At: now.Add(time.Minute)}},
		{"errored, older finalizer", dns(state(acmev1.Errored), func(ch *acmev1.Challenge) { ch.Finalizers = []string{acmev1.ACMELegacyFinalizer} }), read, Plan{Step: CleanUp, At: now}},
		{"cleaned up", dns(state(acmev1.Invalid)), read, Plan{Step: Close, At: now}},
		{"closed", dns(state(acmev1.Invalid), func(ch *acmev1.Challenge) { ch.Status.Processing = false }), read, Plan{}},
		{"deleted", dns(presented(0), deleted(0)), with(func(m *Memory) { m.Accepted = now }), Plan{Step: CleanUp, At: now}},
		{"deleted before it was started", dns(deleted(0), func(ch *acmev1.Challenge) { ch.Status = acmev1.ChallengeStatus{} }), Memory{}, Plan{}},
		{"deleted, with the finalizer of another", dns(deleted(0), func(ch *acmev1.Challenge) { ch.Finalizers = []string{"x/y"} }), read, Plan{Step: Close, At: now}},
	} {
		if got := situation(tc.ch, tc.memory).Next(); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.reason, got, tc.want)
		}
	}
}

// What fails is tried at once when what it needs has changed, but not all the
// time, and a CA is not asked sooner than it wants.
func TestWoken(t *testing.T) {
	late := now.Add(time.Hour)
	for _, tc := range []struct {
		reason string
		memory Memory
		want   time.Time
	}{
		{"Present", Memory{Step: Present, Tried: now.Add(-time.Minute), Due: late}, now},
		{"clean-up", Memory{Step: CleanUp, Tried: now.Add(-time.Minute), Due: late}, now},
		{"issuer", Memory{Step: FindIssuer, Tried: now.Add(-time.Minute), Due: late}, now},
		{"tried just now", Memory{Step: Present, Tried: now, Due: late}, now.Add(wakePause)},
		{"rate limit", Memory{Step: Accept, Tried: now.Add(-time.Minute), Due: late}, late},
		{"the account's fault", Memory{Step: Accept, Tried: now.Add(-time.Minute), Due: late, blamed: true}, now},
		{"poll", Memory{Step: Poll, Due: late}, late},
	} {
		if got := tc.memory.Woken(now).Due; !got.Equal(tc.want) {
			t.Errorf("%s: due %s, want %s", tc.reason, got, tc.want)
		}
	}
}
