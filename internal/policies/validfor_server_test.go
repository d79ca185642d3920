package policies_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	admission "github.com/certplane/certplane/internal/admission/certpolicy"
	"github.com/certplane/certplane/internal/apitest"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/run/server"
)

// An approval counts until its time is over. Then the same person can approve
// again, and nobody counts who has left the group before that; who has left it
// since the approval does.
func TestValidFor(t *testing.T) {
	f := start(t, func(c *server.Config) { c.Controllers = []string{} })
	f.create(&v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: "two"}, Spec: v1alpha1.CertificatePolicySpec{
		Effect:   v1alpha1.PolicyLimit,
		Match:    v1alpha1.PolicyMatch{Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}, Signers: []string{"example.com/ca"}},
		Approval: &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: new(requirement(2, "1 of pki", "1 of security"))},
	}})
	stored := apitest.Create(t, f.api, apitest.NewCSR(t, "timed", "example.com/ca", pki.Subject{CommonName: "timed"}, apitest.NewKey(t)))

	clock := clocktesting.NewFakePassiveClock(stored.CreationTimestamp.Time)
	key, err := policies.DeriveSealKey(apitest.NewKey(t))
	if err != nil {
		t.Fatal(err)
	}
	seals := &policies.Seals{}
	if err := seals.Use(key); err != nil {
		t.Fatal(err)
	}
	p, err := policies.New(policies.Config{API: f.server.Admin(t), Settings: policies.DefaultSettings(), Defined: true, Seals: seals, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	go p.Run(t.Context())
	if !p.WaitUntilKnown(t.Context()) {
		t.Fatal("the policies are not known")
	}
	checks := admission.New(p, nil)
	approve := func(name string, groups ...string) (string, string) {
		a := admission.OfCSR(with(stored, approval(&voter{name: name})), stored, "approval")
		a.User, a.MayApprove = quorum.Voter{Person: quorum.Person{Username: name, Groups: groups}}, func(context.Context) error { return nil }
		conditions, answer := checks.Mutate(t.Context(), a)
		if answer.Refusal != nil {
			return "", answer.Refusal.Error()
		}
		admission.ToCSR(stored, stored.DeepCopy(), conditions)
		return short(stored.Status.Conditions), fmt.Sprint(answer.Warnings)
	}
	for _, step := range []struct {
		reason         string
		after          time.Duration
		name, group    string
		wants, answers string
	}{
		{"the first", 0, "alice", "pki", "alice of pki approved, 1 of 2", "recorded as approval 1 of 2"},
		{"again", 71 * time.Hour, "alice", "pki", "alice of pki approved, 1 of 2", "you have approved already"},
		{"again, when the first is too old, and not of the group any more", 2 * time.Hour, "alice", "dev", "", "you are in none of the groups pki, security"},
		{"again, when the first is too old", 0, "alice", "pki", "alice of pki approved, 1 of 2", "recorded as approval 1 of 2"},
		{"not of the group any more", time.Hour, "alice", "dev", "alice of pki approved, 1 of 2", "you have approved already"},
		{"the second", 0, "bob", "security", "Approved=True", ""},
	} {
		clock.SetTime(clock.Now().Add(step.after))
		got, answer := approve(step.name, step.group)
		if !strings.Contains(got, step.wants) || !strings.Contains(answer, step.answers) || has(stored.Status.Conditions, "Approved") != (step.wants == "Approved=True") {
			t.Errorf("%s: %s, %s", step.reason, got, answer)
		}
	}
}
