package challenge

import (
	"testing"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/api/certmanager"
)

var assumedNow = time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)

func named(name string, change func(*acmev1.Challenge)) *acmev1.Challenge {
	ch := &acmev1.Challenge{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, CreationTimestamp: metav1.Time{Time: assumedNow.Add(-time.Minute)}}}
	ch.Spec.DNSName = name + ".example.com"
	if change != nil {
		change(ch)
	}
	return ch
}

func TestSlowest(t *testing.T) {
	status := func(s acmev1.ChallengeStatus) func(*acmev1.Challenge) {
		return func(ch *acmev1.Challenge) { ch.Status = s }
	}
	since := &metav1.Time{Time: assumedNow.Add(-time.Minute)}
	waiting := named("waiting", nil)
	checked := named("checked", status(acmev1.ChallengeStatus{State: acmev1.Pending, Processing: true, Presented: true, PresentedAt: since}))
	unread := named("unread", status(acmev1.ChallengeStatus{Processing: true}))
	polled := named("polled", status(acmev1.ChallengeStatus{State: acmev1.Processing, Processing: true, Presented: true, PresentedAt: since}))
	late := named("late", status(acmev1.ChallengeStatus{State: acmev1.Pending, Processing: true, Presented: true, PresentedAt: &metav1.Time{Time: assumedNow.Add(-25 * time.Hour)}}))
	failed := named("failed", status(acmev1.ChallengeStatus{State: acmev1.Invalid}))
	valid := named("valid", status(acmev1.ChallengeStatus{State: acmev1.Valid}))
	older := named("older", func(ch *acmev1.Challenge) { ch.CreationTimestamp.Time = assumedNow.Add(-time.Hour) })
	for _, tc := range []struct {
		reason string
		all    []*acmev1.Challenge
		want   *acmev1.Challenge
	}{
		{"none is left", []*acmev1.Challenge{valid}, nil},
		{"one is left", []*acmev1.Challenge{valid, polled}, polled},
		{"the one that has come least far", []*acmev1.Challenge{polled, checked, unread, valid}, unread},
		{"the one that waits for its turn", []*acmev1.Challenge{unread, waiting}, waiting},
		{"the one that is given up next", []*acmev1.Challenge{waiting, late}, late},
		{"the one that has failed", []*acmev1.Challenge{late, failed, waiting}, failed},
		{"the oldest", []*acmev1.Challenge{waiting, older}, older},
		{"the first name", []*acmev1.Challenge{waiting, named("a", nil)}, named("a", nil)},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			got := Slowest(tc.all, assumedNow)
			if (got == nil) != (tc.want == nil) || got != nil && got.Name != tc.want.Name {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

func TestHolders(t *testing.T) {
	tls := func(name string, processing bool, state acmev1.State) *acmev1.Challenge {
		return named(name, func(ch *acmev1.Challenge) {
			ch.Spec.Type, ch.Spec.DNSName = certmanager.TypeTLSALPN01, "same.example.com"
			ch.Status.Processing, ch.Status.State = processing, state
		})
	}
	own := tls("own", false, "")
	for _, tc := range []struct {
		reason string
		other  *acmev1.Challenge
		want   int
	}{
		{"another one is worked on", tls("other", true, acmev1.Pending), 1},
		{"another one waits, too", tls("other", false, ""), 0},
		{"another one has ended", tls("other", true, acmev1.Valid), 0},
		{"another name", named("other", func(ch *acmev1.Challenge) { ch.Spec.Type, ch.Status.Processing = certmanager.TypeTLSALPN01, true }), 0},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			if got := Holders(own, []*acmev1.Challenge{own, tc.other}); len(got) != tc.want {
				t.Errorf("%d holders, want %d", len(got), tc.want)
			}
		})
	}
	if got := Holders(named("http", nil), []*acmev1.Challenge{own}); got != nil {
		t.Errorf("a Challenge without a place waits for %v", got)
	}
}
