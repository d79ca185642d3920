package policies

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
	"github.com/certplane/certplane/internal/policy/request"
)

var began = time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)

// fixture are Policies without an API.
type fixture struct {
	*testing.T
	*Policies
	registry *prometheus.Registry
	time     *clocktesting.FakeClock
}

func open(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, registry: prometheus.NewRegistry(), time: clocktesting.NewFakeClock(began)}
	nodes := func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
		mapper := meta.NewDefaultRESTMapper(nil)
		mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
		return mapper, nil
	}
	p, err := New(Config{API: &rest.Config{Host: "https://127.0.0.1:1"}, Mapper: nodes, Settings: DefaultSettings(), Metrics: f.registry, Clock: f.time, Seals: &Seals{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	f.Policies = p
	return f
}

// use puts policies into force.
func (f *fixture) use(policies ...*v1alpha1.CertificatePolicy) {
	f.source.mu.Lock()
	clear(f.source.policies)
	for _, p := range policies {
		f.source.policies[p.Name], _, _ = certpolicy.Compile(p)
	}
	f.source.publish()
	f.source.mu.Unlock()
	f.source.changes.Tell(struct{}{})
}

func policy(name string, change func(*v1alpha1.CertificatePolicySpec)) *v1alpha1.CertificatePolicy {
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 1}, Spec: v1alpha1.CertificatePolicySpec{
		Effect: v1alpha1.PolicyLimit, Match: v1alpha1.PolicyMatch{Signers: []string{"example.com/web"}, Kinds: []v1alpha1.RequestKind{v1alpha1.CertificateSigningRequests}},
	}}
	change(&p.Spec)
	return p
}

func asked(uid, signerName string) request.Request {
	return request.FromCSR(&certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "r-" + uid, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(began)},
		Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: signerName, Username: "alice"},
	})
}

func (f *fixture) want(metric string, lines ...string) {
	f.Helper()
	var text strings.Builder
	for _, line := range lines {
		text.WriteString("certplane_policy_" + line + "\n")
	}
	all, err := f.registry.Gather()
	if err != nil {
		f.Fatal(err)
	}
	header := ""
	for _, family := range all {
		if family.GetName() == "certplane_policy_"+metric && len(lines) > 0 {
			header = "# HELP " + family.GetName() + " " + family.GetHelp() + "\n# TYPE " + family.GetName() + " " + strings.ToLower(family.GetType().String()) + "\n"
		}
	}
	if err := testutil.GatherAndCompare(f.registry, strings.NewReader(header+text.String()), "certplane_policy_"+metric); err != nil {
		f.Error(err)
	}
}

func fourEyes(s *v1alpha1.CertificatePolicySpec) {
	s.Approval = &v1alpha1.PolicyApproval{Mode: v1alpha1.ApprovePeople, People: &v1alpha1.PeopleRequirement{Count: 2}}
}

// The requests here cannot be read, so that each policy that is about them denies.
func TestMetrics(t *testing.T) {
	f := open(t)
	f.use(policy("everybody", func(s *v1alpha1.CertificatePolicySpec) { s.Match.Signers = []string{"*"} }), policy("web", func(*v1alpha1.CertificatePolicySpec) {}),
		policy("shadow", func(s *v1alpha1.CertificatePolicySpec) { s.Mode = v1alpha1.PolicyShadow }),
		policy("broken", func(s *v1alpha1.CertificatePolicySpec) {
			s.Match.Signers, s.Rules = []string{"example.com/other"}, []v1alpha1.PolicyRule{{Name: "x", Expression: "no such thing"}}
		}))
	for range 3 { // loops decide again
		f.Next(t.Context(), asked("1", "example.com/web"), nil)
		f.Next(t.Context(), asked("2", "example.com/x-2"), nil)
		f.Next(t.Context(), asked("3", "example.com/x-3"), nil)
	}
	f.want("decisions_total",
		`decisions_total{kind="CertificateSigningRequest",outcome="Deny",signer="example.com/web",stage="Approver"} 1`,
		`decisions_total{kind="CertificateSigningRequest",outcome="Deny",signer="other",stage="Approver"} 2`)
	f.want("violations_total", `violations_total{at="request",policy="everybody"} 3`)
	f.want("shadow_total", `shadow_total{policy="shadow",was="Deny",would="Deny"} 1`)
	f.want("ready", `ready{policy="broken"} 0`, `ready{policy="everybody"} 1`, `ready{policy="shadow"} 1`, `ready{policy="web"} 1`)
	if n, err := testutil.GatherAndCount(f.registry, "certplane_policy_duration_seconds"); n != 1 || err != nil {
		t.Errorf("%d series of durations, error %v", n, err)
	}
	f.use(policy("web", func(*v1alpha1.CertificatePolicySpec) {}))
	f.want("ready", `ready{policy="web"} 1`)
	f.want("violations_total")
	f.want("shadow_total")
	if problems, err := testutil.GatherAndLint(f.registry); err != nil || len(problems) > 0 {
		t.Errorf("problems %v, error %v", problems, err)
	}
}

func TestWaiting(t *testing.T) {
	f := open(t)
	f.use(policy("four-eyes", fourEyes), policy("six-eyes", fourEyes))
	needs := &Decision{PolicyDecision: &v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeNeedPeople, People: &v1alpha1.PeopleDecision{Requirements: []v1alpha1.PeopleMissing{
		{Policy: "four-eyes", Count: 2, Missing: []v1alpha1.PeopleFrom{{Count: 1}}}, {Policy: "six-eyes", Count: 3, Missing: []v1alpha1.PeopleFrom{{Count: 1}}},
	}}}}
	first, second := asked("1", "example.com/web"), asked("2", "example.com/web")
	for range 2 {
		f.undecided.waits(&first, needs, 0)
		f.undecided.waits(&second, needs, 0)
	}
	f.want("waiting", `waiting{policy="four-eyes"} 2`, `waiting{policy="six-eyes"} 2`)
	f.use(policy("four-eyes", fourEyes))
	f.Undecided().Ended(first.Kind, types.NamespacedName{Name: first.Name})
	f.want("waiting", `waiting{policy="four-eyes"} 1`)
	f.undecided.waits(&second, &Decision{PolicyDecision: &v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeApprove}}, 0)
	f.want("waiting", `waiting{policy="four-eyes"} 0`)
}

func TestVotesAreCounted(t *testing.T) {
	f := open(t)
	d := &v1alpha1.PolicyDecision{People: &v1alpha1.PeopleDecision{Requirements: []v1alpha1.PeopleMissing{{Policy: "four-eyes"}}}}
	f.Recorder().CountVote(d, VoteRecorded)
	f.Recorder().CountVote(d, VoteRecorded)
	f.Recorder().CountVote(d, VoteRefused)
	f.Recorder().CountVote(&v1alpha1.PolicyDecision{}, VoteComplete)
	f.want("votes_total", `votes_total{policy="four-eyes",result="recorded"} 2`, `votes_total{policy="four-eyes",result="refused"} 1`)
}

// A policy that can be overridden has the number zero before somebody does.
func TestOverridesAreCounted(t *testing.T) {
	f := open(t)
	f.use(policy("strict", fourEyes), policy("four-eyes", func(s *v1alpha1.CertificatePolicySpec) {
		fourEyes(s)
		s.Approval.People.Override = v1alpha1.OverrideAllowed
	}))
	f.Recorder().CountOverride(nil)
	f.want("overrides_total", `overrides_total{policy="four-eyes"} 0`)
	f.Recorder().CountOverride(&quorum.Override{Policies: []string{"four-eyes"}})
	f.want("overrides_total", `overrides_total{policy="four-eyes"} 1`)
	f.use(policy("strict", fourEyes))
	f.want("overrides_total")
}

func TestFreshness(t *testing.T) {
	f := open(t)
	steps := []struct {
		reason string
		do     func()
		want   time.Duration
	}{
		{"nothing is watched yet", func() {}, 0},
		{"both are watched", func() { f.freshness.watched(PoliciesResource, true); f.freshness.watched(ExceptionsResource, true) }, 0},
		{"a watch ends", func() { f.freshness.watched(PoliciesResource, false) }, time.Minute},
		{"another attempt fails", func() { f.freshness.watched(PoliciesResource, false) }, 2 * time.Minute},
		{"it is watched again", func() { f.freshness.watched(PoliciesResource, true) }, 0},
	}
	for _, step := range steps {
		step.do()
		f.time.Step(time.Minute)
		if got := f.freshness.age(); got != step.want {
			t.Errorf("%s: the age is %v, want %v", step.reason, got, step.want)
		}
	}
}

// What did not fit into a quota is counted, but not what an exception covers.
func TestQuotaMetric(t *testing.T) {
	f := open(t)
	f.recorder.metrics.decided(&v1alpha1.PolicyDecision{Outcome: v1alpha1.OutcomeDeny, Violations: []v1alpha1.PolicyViolation{
		{Policy: "web", At: "quotas[daily]", Reason: certpolicy.ReasonQuota}, {Policy: "web", At: "quotas[hourly]", Reason: certpolicy.ReasonQuota, Exception: "x"},
		{Policy: "web", At: "rules[quotas]", Reason: certpolicy.ReasonQuota},
	}}, "example.com/web")
	f.want("quota_refused_total", `quota_refused_total{policy="web",quota="daily"} 1`)
}
