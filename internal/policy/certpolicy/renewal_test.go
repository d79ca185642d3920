package certpolicy_test

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/quorum"
)

const renewedByItself = `{match: {kinds: [CertificateSigningRequest, CertificateRequest]}, approval: {mode: People, renewals: Automatic, people: {count: 2, override: Allowed,
  from: [{groups: [pki], count: 1}, {groups: [security], count: 1}]}}}`

func vote(user, group string, ago time.Duration) quorum.Vote {
	return quorum.Vote{Username: user, Groups: []string{group}, Time: now.Add(-ago)}
}

// first is an earlier request with a certificate of ten days, of which five are over.
func first(votes ...quorum.Vote) v1alpha1.EarlierRequest {
	const day = 24 * time.Hour
	one := v1alpha1.EarlierRequest{
		StoredRequest: v1alpha1.StoredRequest{Kind: csrs, Name: "web-6", UID: "u6"},
		NotBefore:     metav1.NewTime(now.Add(-5 * day)), NotAfter: metav1.NewTime(now.Add(5 * day)),
	}
	for _, v := range votes {
		one.Votes = append(one.Votes, v.Logged())
	}
	return one
}

func approvedFirst() v1alpha1.EarlierRequest {
	return first(vote("bob", "pki", 5*24*time.Hour), vote("carol", "security", 6*24*time.Hour))
}

func renewalField() fieldCase {
	return fieldCase{spec: renewedByItself, ordinary: "NeedPeople", with: "Approve", without: "NeedPeople",
		ask: func(a *asked) { a.earlier = []v1alpha1.EarlierRequest{approvedFirst()} }}
}

// TestRenewals: what renews a certificate that people have approved needs none.
func TestRenewals(t *testing.T) {
	const day = 24 * time.Hour
	renews := func(change func(*v1alpha1.EarlierRequest)) func(*asked) {
		return func(a *asked) {
			one := approvedFirst()
			if change != nil {
				change(&one)
			}
			a.earlier = []v1alpha1.EarlierRequest{first(), one}
		}
	}
	votes := func(votes ...quorum.Vote) func(*asked) {
		return func(a *asked) { a.earlier = []v1alpha1.EarlierRequest{first(votes...)} }
	}
	limit := strings.Replace(renewedByItself, "{match: {", `{effect: Limit, match: {signers: ["*"], `, 1)
	other := strings.Replace(limit, "renewals: Automatic, ", "", 1)
	for _, tc := range []struct {
		reason string
		beside string
		ask    []func(*asked)
		want   string
	}{
		{"nothing is renewed", "", nil, "NeedPeople"},
		{"it renews", "", fns(renews(nil)), "Approve"},
		{"its own approvals are enough", "", fns(func(a *asked) { a.votes = []quorum.Vote{vote("bob", "pki", 0), vote("carol", "security", 0)} }), "Approve"},
		{"the certificate is over", "", fns(renews(func(e *v1alpha1.EarlierRequest) { e.NotAfter = metav1.NewTime(now) })), "NeedPeople"},
		{"the certificate is not valid yet", "", fns(renews(func(e *v1alpha1.EarlierRequest) { e.NotBefore = metav1.NewTime(now.Add(time.Second)) })), "NeedPeople"},
		{"too few had approved", "", fns(votes(vote("bob", "pki", 5*day))), "NeedPeople"},
		{"people of other groups had approved", "", fns(votes(vote("bob", "pki", 5*day), vote("dora", "pki", 5*day))), "NeedPeople"},
		{"an approval was over at the last one", "", fns(votes(vote("bob", "pki", 9*day), vote("carol", "security", 5*day))), "NeedPeople"},
		{"somebody had overridden the policy", "", fns(votes(func() quorum.Vote {
			v := vote("bob", "pki", 5*day)
			v.Override = &quorum.Override{Why: "an outage", Policies: []string{"p"}}
			return v
		}())), "NeedPeople"},
		{"the requester had approved", "", fns(votes(vote("alice", "pki", 5*day), vote("carol", "security", 5*day))), "NeedPeople"},
		{"for as long as before", "", fns(renews(nil), func(a *asked) { a.duration = 10 * day }), "Approve"},
		{"for longer", "", fns(renews(nil), func(a *asked) { a.duration = 10*day + time.Second }), "NeedPeople"},
		{"for a lifetime that the signer chooses", "", fns(renews(nil), func(a *asked) { a.noLife = true }), "Approve"},
		{"a CA", "", fns(renews(nil), func(a *asked) { a.ca = &pki.BasicConstraints{IsCA: true} }), "NeedPeople"},
		{"a CA by its usage", "", fns(renews(nil), func(a *asked) { a.usages = append(a.usages, "cert sign") }), "NeedPeople"},
		{"earlier requests are not known", "", fns(func(a *asked) { a.earlierUnknown = true }), "NeedPeople"},
		{"another policy has people approve renewals too", other, fns(renews(nil)), "NeedPeople"},
		{"all policies permit it", limit, fns(renews(nil)), "Approve"},
		{"another policy refuses it", `{effect: Limit, match: {signers: ["*"]}, rules: [{name: never, expression: "false"}]}`, fns(renews(nil)), "Deny; q rules[never] RuleViolated"},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			all := map[string]string{"everything": everything, "p": limit}
			if tc.beside != "" {
				all["q"] = tc.beside
			}
			d := decide(t, set(t, all), of(csrs).but(tc.ask...))
			if got := brief(d); got != tc.want {
				t.Errorf("%s, want %s\n%s", got, tc.want, d.Message)
			}
			if unknown := tc.reason == "earlier requests are not known"; unknown != (len(d.Open) == 1 && d.Open[0].Fact == "the earlier requests of the owner") {
				t.Errorf("what is not known: %+v", d.Open)
			}
			renewed := d.Renews != nil
			if d.Outcome == v1alpha1.OutcomeApprove && renewed != (len(d.Request.UID) > 0 && d.People == nil) {
				t.Errorf("it renews %+v", d.Renews)
			}
			if renewed && (d.Renews.Name != "web-6" || d.Renews.Lifetime.Duration != 10*day) {
				t.Errorf("it renews %+v", d.Renews)
			}
		})
	}
}

// TestRenewedLifetime: the finished certificate is not valid for longer either, but for
// how long it was valid before the decision does not matter.
func TestRenewedLifetime(t *testing.T) {
	limit := strings.Replace(renewedByItself, "{match: {", `{effect: Limit, match: {signers: ["*"], `, 1)
	s := set(t, map[string]string{"everything": everything, "p": limit})
	for rest, want := range map[time.Duration]string{240 * time.Hour: "Approve", 240*time.Hour + time.Second: "NeedPeople"} {
		d := decide(t, s, of(csrs).but(func(a *asked) {
			a.earlier = []v1alpha1.EarlierRequest{approvedFirst()}
			a.certificate = &x509.Certificate{PublicKey: keyOf(pki.ECDSAP256).Public(), DNSNames: a.dns, NotBefore: now.Add(-5 * time.Minute), NotAfter: now.Add(rest)}
		}))
		if got := brief(d); got != want {
			t.Errorf("%v: %s, want %s", rest, got, want)
		}
	}
}

func TestRenewalsAreValidated(t *testing.T) {
	for spec, want := range map[string]string{
		`{effect: Limit, match: {signers: ["*"], kinds: [CertificateRequest]}, approval: {mode: People, renewals: Always, people: {count: 2}}}`: "spec.approval.renewals",
		`{effect: Allow, match: {signers: ["*"]}, certificate: {usages: {allowed: [any]}}, approval: {renewals: Automatic}}`:                    "spec.approval.renewals",
	} {
		if _, errs, _ := certpolicy.Compile(policy(t, "p", spec)); len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: %v, want %s", spec, errs, want)
		}
	}
}

// TestRenewsInExpressions: expressions see what the request renews, as of its creation,
// and ask for it first.
func TestRenewsInExpressions(t *testing.T) {
	const day = 24 * time.Hour
	earlier := func(change func(*asked, *v1alpha1.EarlierRequest)) func(*asked) {
		return func(a *asked) {
			one := approvedFirst()
			if change != nil {
				change(a, &one)
			}
			a.earlier = []v1alpha1.EarlierRequest{first(), one}
		}
	}
	for _, tt := range []struct {
		reason, expression string
		ask                func(*asked)
		want               string
	}{
		{"who approved", "renews.approvedBy == ['bob', 'carol']", earlier(nil), "Approve"},
		{"who has not", "'dora' in renews.approvedBy", earlier(nil), "Leave"},
		{"until when", "renews.notAfter > request.time + duration('24h')", earlier(nil), "Approve"},
		{"another key", "renews.sameKey", earlier(nil), "Leave"},
		{"the same key", "renews.sameKey", earlier(func(a *asked, one *v1alpha1.EarlierRequest) {
			one.KeyFingerprint = pki.KeyFingerprint(a.request(t).Key)
		}), "Approve"},
		{"it had ended", "has(renews.notAfter)", earlier(func(a *asked, one *v1alpha1.EarlierRequest) { one.NotAfter = metav1.NewTime(now.Add(-day)) }), "Leave"},
		{"it ends while the request waits", "has(renews.notAfter)", earlier(func(a *asked, one *v1alpha1.EarlierRequest) {
			one.NotAfter, a.at = metav1.NewTime(now.Add(day)), now.Add(2*day)
		}), "Approve"},
		{"nothing", "!has(renews.notAfter)", nil, "Approve"},
		{"nothing, unasked", "renews.sameKey", nil, "Leave"},
		{"not known yet", "!has(renews.notAfter)", func(a *asked) { a.earlierUnknown = true }, "Wait; p match wants the earlier requests of the owner"},
	} {
		s := set(t, map[string]string{"p": `{effect: Allow, match: {signers: ["*"], conditions: [{name: c, expression: "` + tt.expression + `"}]}, certificate: {names: {dns: {}}, usages: {allowed: [any, digital signature]}}}`})
		ask := of(csrs)
		if tt.ask != nil {
			ask = ask.but(tt.ask)
		}
		if got := brief(decide(t, s, ask)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.reason, got, tt.want)
		}
		if in := ask.input(t); !s.Needs(&in.Request).Earlier || !s.NeedsRequests() {
			t.Errorf("%s: the earlier requests are not looked up", tt.reason)
		}
	}
	exception := map[string]string{"x": `{policies: [p], items: [certificate.names.dns], match: {signers: ["*"], requesters: {users: [alice]}, conditions: [{name: renewal, expression: "has(renews.notAfter)"}]}, reason: test, notAfter: "2026-12-01T00:00:00Z"}`}
	if s := setWith(t, map[string]string{"p": everything}, exception); !s.NeedsRequests() {
		t.Error("the earlier requests are not looked up for an exception that reads them")
	}
	if in := of(csrs).input(t); set(t, map[string]string{"p": everything}).Needs(&in.Request).Earlier {
		t.Error("earlier requests are looked up that no policy reads")
	}
}
