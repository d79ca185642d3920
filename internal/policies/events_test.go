package policies

import (
	"testing"
	"time"

	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

// readable returns a request that can be read.
func readable(t *testing.T) request.Request {
	t.Helper()
	key, err := pki.GenerateKey(pki.ECDSAP256)
	if err != nil {
		t.Fatal(err)
	}
	pem, err := pki.NewRequest(pki.Subject{CommonName: "web"}, key)
	if err != nil {
		t.Fatal(err)
	}
	return request.FromCSR(&certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "1", CreationTimestamp: metav1.NewTime(began)},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: "example.com/web", Username: "alice", Request: pem, Usages: []certificatesv1.KeyUsage{"client auth"},
		},
	})
}

func TestNoPolicyApplies(t *testing.T) {
	const begin = "No certificate policy is about this request, so a user has to approve it. The nearest is "
	users := func(names ...string) func(*v1alpha1.CertificatePolicySpec) {
		return func(s *v1alpha1.CertificatePolicySpec) {
			s.Match.Requesters = &v1alpha1.RequesterMatch{RequesterLists: v1alpha1.RequesterLists{Users: names}}
		}
	}
	pods := policy("pods", func(s *v1alpha1.CertificatePolicySpec) {
		s.Match.Conditions = []v1alpha1.MatchCondition{{Name: "never", Expression: "false"}}
	})
	secret := policy("secret", users("bob"))
	secret.Spec.Disclosure = v1alpha1.DiscloseReason
	for _, tt := range []struct {
		reason   string
		policies []*v1alpha1.CertificatePolicy
		age      time.Duration
		want     Outcome
	}{
		{"somebody may approve it at once", []*v1alpha1.CertificatePolicy{policy("web", users("bob"))}, 4 * time.Second,
			Outcome{Reason: EventNone, Message: begin + `web: match.requesters: "alice" is not among the requesters`, After: 6 * time.Second, Early: true}},
		{"the one of which more holds", []*v1alpha1.CertificatePolicy{policy("a", users("bob")), pods, policy("z", users("bob"))}, time.Minute,
			Outcome{Reason: EventNone, Message: begin + "pods: match.conditions[never]: the expression is false"}},
		{"a policy that does not say who is meant", []*v1alpha1.CertificatePolicy{secret}, time.Minute,
			Outcome{Reason: EventNone, Message: begin + "secret: match.requesters"}},
		{"a policy is about it", []*v1alpha1.CertificatePolicy{policy("a", users("bob")), policy("b", users("alice"))}, time.Minute, Outcome{}},
		{"only a shadow is for the signer", []*v1alpha1.CertificatePolicy{policy("a", func(s *v1alpha1.CertificatePolicySpec) { s.Mode = v1alpha1.PolicyShadow })}, time.Minute, Outcome{}},
	} {
		f := open(t)
		f.use(tt.policies...)
		f.time.Step(tt.age)
		got := f.Next(t.Context(), readable(t), nil)
		got.Decision = nil
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", tt.reason, diff)
		}
	}
}

// A policy that is not valid is another reason to wait than a fact.
func TestUnavailable(t *testing.T) {
	f := open(t)
	f.use(policy("broken", func(s *v1alpha1.CertificatePolicySpec) {
		s.Rules = []v1alpha1.PolicyRule{{Name: "x", Expression: "no such thing"}}
	}))
	if got := f.Next(t.Context(), readable(t), nil); got.Do != v1alpha1.OutcomeWait || got.Reason != EventUnknown {
		t.Errorf("got %+v", got)
	}
}

func TestNews(t *testing.T) {
	f := open(t)
	first, second := asked("1", "example.com/web"), asked("2", "example.com/web")
	for _, step := range []struct {
		reason       string
		request      request.Request
		event, about string
		want         bool
	}{
		{"the first", first, EventMissing, "0 of 2", true},
		{"the same", first, EventMissing, "0 of 2", false},
		{"of another request", second, EventMissing, "0 of 2", true},
		{"for another reason", first, EventFacts, "0 of 2", true},
		{"the same, with another one between", first, EventMissing, "0 of 2", false},
		{"another number", first, EventMissing, "1 of 2", true},
	} {
		if got := f.Events().News(types.UID(step.request.UID), step.event, step.about); got != step.want {
			t.Errorf("%s: got %t", step.reason, got)
		}
	}
}

// What an approval looks like is what quorum makes of it.
func TestNewVotes(t *testing.T) {
	f := open(t)
	key, err := pki.GenerateKey(pki.Ed25519)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Seals().Use(key); err != nil {
		t.Fatal(err)
	}
	r := readable(t)
	f.use(policy("four-eyes", fourEyes))
	vote := func(conditions []quorum.Condition, user string) []quorum.Condition {
		w := &quorum.Write{
			Request: r, Old: conditions, New: append([]quorum.Condition{{Type: "Approved", Status: "True"}}, conditions...),
			User: quorum.Voter{Person: request.Requester{Username: user}}, Now: f.time.Now(), Open: f.Seals().Open, Seal: f.Seals().Seal,
			Decide: func(votes []quorum.Vote) (*v1alpha1.PolicyDecision, []quorum.Requirement) {
				d, err := f.Decide(t.Context(), certpolicy.Input{Request: r, Votes: votes})
				if err != nil {
					t.Fatal(err)
				}
				return d.PolicyDecision, d.Requirements
			},
		}
		m, err := w.Mutate()
		if err != nil || m.Recorded == nil {
			t.Fatalf("the vote of %s: %+v, %v", user, m, err)
		}
		return m.Conditions
	}
	one := vote(nil, "bob")
	two := vote(one, "carol")
	forged := append([]quorum.Condition{{Type: "certplane.dev/approval-9", Status: "True", Message: "eve approved, 9 of 9 (sealed x)"}}, two...)
	for _, step := range []struct {
		reason     string
		conditions []quorum.Condition
		want       []string
	}{
		{"a vote", one, []string{"bob approved, 1 of 2"}},
		{"the same", one, nil},
		{"another one, and one that nobody has sealed", forged, []string{"carol approved, 2 of 2"}},
	} {
		var got []string
		for _, vote := range f.Events().NewVotes(r, step.conditions) {
			got = append(got, vote.Message)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: %s", step.reason, diff)
		}
	}
	f.events.reported = newSaid() // as in another process
	f.time.Step(voteIsNew + time.Second)
	if got := f.Events().NewVotes(r, two); got != nil {
		t.Errorf("old votes are reported again: %v", got)
	}
}

// Controllers work without policies.
func TestNilPolicies(t *testing.T) {
	var p *Policies
	r := request.FromCertificateRequest(&cmv1.CertificateRequest{})
	p.Undecided().Ended(r.Kind, types.NamespacedName{Name: "x"})
	if !p.Events().News("x", EventFacts, "") || p.Events().NewVotes(r, nil) != nil {
		t.Error("no policies have said something")
	}
}
