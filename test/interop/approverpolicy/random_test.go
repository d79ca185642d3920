package approverpolicy

import (
	"encoding/asn1"
	"flag"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	approvermanager "github.com/cert-manager/approver-policy/pkg/approver/manager"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/approverpolicy"
	"github.com/certplane/certplane/internal/policy/crp"
)

var (
	seed  = flag.Uint64("seed", 0, "the seed of random cases; 0 is a new one each time")
	cases = flag.Int("cases", 10_000, "how many random cases are compared")
)

// seedOf returns the seed, which it prints.
func seedOf(t *testing.T) uint64 {
	t.Helper()
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("go test -run %s -seed %d -cases %d", t.Name(), *seed, *cases)
	return *seed
}

// generators returns a separate generator for each case, and prints the seed.
func generators(t *testing.T) func(yield func(int, generator) bool) {
	t.Helper()
	seedOf(t)
	return func(yield func(int, generator) bool) {
		for i := range *cases {
			if t.Failed() || !yield(i, generator{Rand: rand.New(rand.NewPCG(*seed, uint64(i)))}) {
				return
			}
		}
	}
}

// Each case is a request and up to four policies.
func TestDecisions(t *testing.T) {
	outcomes, said := map[v1alpha1.DecisionOutcome]int{}, map[string]int{}
	for i, g := range generators(t) {
		result := compareDecision(t, i, g.scenario())
		outcomes[result.Outcome]++
		for _, shape := range shapes {
			if strings.Contains(result.Message, shape) {
				said[shape]++
			}
		}
	}
	t.Log(outcomes, said)
	if *cases >= 10_000 {
		for _, shape := range shapes {
			if said[shape] == 0 {
				t.Errorf("no case is about %q", shape)
			}
		}
		for _, outcome := range []v1alpha1.DecisionOutcome{v1alpha1.OutcomeApprove, v1alpha1.OutcomeDeny, v1alpha1.OutcomeWait, v1alpha1.OutcomeLeave, failed} {
			if outcomes[outcome] == 0 {
				t.Errorf("no case is %s", outcome)
			}
		}
	}
}

// shapes are parts of messages: among many cases there must be some with each of
// them, or less is compared than it seems.
var shapes = []string{
	"no allowed values", "no allowed value]", "values: Invalid value", "value: Invalid value", "required: Required value: true",
	"spec.allowed.commonName[1]", "spec.allowed.subject.serialNumber", "spec.allowed.dnsNames", "spec.allowed.ipAddresses", "spec.allowed.uris", "spec.allowed.emailAddresses",
	"spec.allowed.subject.organizations", "spec.allowed.subject.countries", "spec.allowed.subject.organizationalUnits", "spec.allowed.subject.localities",
	"spec.allowed.subject.provinces", "spec.allowed.subject.streetAddresses", "spec.allowed.subject.postalCodes", "spec.allowed.subject.otherAttributes[", "spec.allowed.otherNames[",
	"spec.allowed.isCA: Invalid value: true: nil", "spec.allowed.isCA: Invalid value: true: false", "spec.allowed.usages: Invalid value", "]: nil",
	"validations[0]: Invalid value", "failed rule: ", "Internal error: ERROR: <input>", "Internal error: got ", "actual cost limit exceeded", "Unable to convert to serviceaccount",
	"<non-string value>", "directoryName SAN", "x400Address SAN", "ediPartyName SAN", "registeredID SAN", "could not be decoded: asn1: s", "trailing data",
	`spec.constraints.maxDuration: Invalid value: "nil"`, "spec.constraints.minDuration", "privateKey.algorithm", "privateKey.minSize", "privateKey.maxSize", `"-1"`, "] [b",
}

// Each rule is compared on its own, also those that random policies seldom have.
func TestRules(t *testing.T) {
	for i, g := range generators(t) {
		if i == 10*len(rules) {
			break
		}
		p := g.policy("p")
		p.Status.Conditions, p.Spec.Constraints, p.Spec.Selector = readyCondition, nil, approverpolicy.Selector{IssuerRef: &approverpolicy.IssuerSelector{}}
		p.Spec.Allowed = &approverpolicy.Allowed{DNSNames: &approverpolicy.AllowedValues{Validations: []approverpolicy.ValidationRule{{Rule: rules[i%len(rules)]}}}}
		s := scenario{policies: []*policy{p}, request: g.request()}
		s.request.Spec.Request = requestFor([]asn1.RawValue{generalName(2, []byte(pick(g, append(dnsNames, "x", "web", "5", "system:serviceaccount:shop:web"))))}).Spec.Request
		compareDecision(t, i, s)
	}
}

// failed stands for a request that cannot be evaluated.
const failed v1alpha1.DecisionOutcome = "failed"

func compareDecision(t *testing.T, i int, s scenario) crp.Decision {
	t.Helper()
	ours, ourErr := s.ours()
	theirs, theirErr := s.theirs(t)
	switch {
	case (ourErr == nil) != (theirErr == nil):
		t.Errorf("case %d:\nours   %+v, %v\ntheirs %+v, %v\n%s", i, ours, ourErr, theirs, theirErr, s)
	case ourErr != nil:
		return crp.Decision{Outcome: failed}
	case strings.Contains(ours.Message, "spec.allowed.subjectAltName.unreadable"):
		// A bit of a name's tag was turned over: certplane refuses it on purpose,
		// see TestDifferences.
	case known(ours) != comparable(theirs):
		t.Errorf("case %d:\nours   %+v\ntheirs %+v\n%s", i, known(ours), comparable(theirs), s)
	}
	return ours
}

var names = []string{"a", "b", "b-2", "c", "B", "a.b"}

func (g generator) scenario() scenario {
	s := scenario{request: g.request(), labels: pick(g, []map[string]string{nil, {"team": "web"}, {"team": "web", "tier": "1"}})}
	for _, name := range append(some(g, names, 3), some(g, names, 1)...) {
		if slices.ContainsFunc(s.policies, func(p *policy) bool { return p.Name == name }) {
			continue
		}
		s.policies = append(s.policies, g.policy(name))
		if g.chance(10) {
			s.refused = append(s.refused, name)
		}
	}
	// approver-policy evaluates policies in the order of the list.
	slices.SortFunc(s.policies, func(a, b *policy) int { return strings.Compare(a.Name, b.Name) })
	return s
}

// decided is what both sides tell of a decision.
type decided struct {
	result  approvermanager.ReviewResult
	message string
}

// known returns a decision of certplane. The message of a decision without a
// condition is only in the log of approver-policy.
func known(r crp.Decision) decided {
	switch r.Outcome {
	case v1alpha1.OutcomeApprove:
		return decided{approvermanager.ResultApproved, r.Message}
	case v1alpha1.OutcomeDeny:
		return decided{approvermanager.ResultDenied, r.Message}
	}
	return decided{approvermanager.ResultUnprocessed, ""}
}

// details are the state of Go's parser in its errors: it has addresses in memory,
// which are different each time.
var details = regexp.MustCompile(` \(\d+ vs \{[^}]*\}\) \{[^}]*\} \S* ?@\d+`)

func comparable(r approvermanager.ReviewResponse) decided {
	if r.Result == approvermanager.ResultUnprocessed {
		r.Message = ""
	}
	return decided{r.Result, details.ReplaceAllString(r.Message, "")}
}

// Each case is a policy that is written.
func TestValidation(t *testing.T) {
	webhook := newValidator(t)
	refused, texts := 0, map[string]bool{}
	for i, g := range generators(t) {
		p := g.brokenPolicy()
		ours, theirs := refusal(p), webhook.validate(t, p)
		if ours != theirs {
			t.Errorf("case %d:\nours   %s\ntheirs %s", i, ours, theirs)
		}
		if ours != "" {
			refused++
			texts[ours] = true
		}
	}
	t.Logf("%d refused, with %d texts", refused, len(slices.Collect(maps.Keys(texts))))
	if *cases >= 1_000 && (refused == 0 || refused == *cases) {
		t.Error("all are refused, or none")
	}
}
