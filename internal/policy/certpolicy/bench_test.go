package certpolicy_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// manyPolicies are 100 policies, of which ten apply to a request for
// example.com/web, with five rules altogether. The others are for other
// signers.
func manyPolicies(b testing.TB) []*v1alpha1.CertificatePolicy {
	b.Helper()
	var all []*v1alpha1.CertificatePolicy
	add := func(name, spec string) { all = append(all, policy(b, name, spec)) }
	for i := range 5 {
		add(fmt.Sprintf("limit-%d", i), fmt.Sprintf(`
effect: Limit
match: {signers: ["example.com/*"]}
certificate:
  names: {max: 50, dns: {zones: [example.com, example.org], excluded: {zones: [secret%d.example.com]}}}
  keys: {types: [ECDSAP256, ECDSAP384, RSA3072]}
  lifetime: {max: 2160h}
rules: [{name: no-dev, expression: "!request.dnsNames.exists(n, inZone(n, 'dev%d.example.com')) || requester.username.startsWith('dev-')"}]
`, i, i))
	}
	for i := range 5 {
		add(fmt.Sprintf("allow-%d", i), fmt.Sprintf(`
effect: Allow
match: {signers: [example.com/web], requesters: {groups: [team-shop, team-%d]}}
certificate:
  subject: {commonName: {inNames: true}}
  names: {dns: {zones: [shop.example.com, team%d.example.com], patterns: ["*.{user}.example.com"]}}
  usages: {allowed: [digital signature, key encipherment, server auth]}
`, i, i))
	}
	for i := range 90 {
		signer := fmt.Sprintf("example.org/signer-%d", i)
		if i%3 == 0 {
			signer = fmt.Sprintf("group-%d.example.org/*", i)
		}
		add(fmt.Sprintf("other-%02d", i), `{effect: Allow, match: {signers: ["`+signer+`"]}, certificate: {names: {dns: {zones: [example.com]}}, usages: {allowed: [server auth]}}}`)
	}
	return all
}

func tenNames(a *asked) {
	a.dns = nil
	for i := range 10 {
		a.dns = append(a.dns, fmt.Sprintf("www%d.shop.example.com", i))
	}
}

// BenchmarkDecide: a decision with 100 policies of which ten apply, ten names
// and five rules. p50 and p99 are in microseconds.
func BenchmarkDecide(b *testing.B) {
	s := setOf(manyPolicies(b)...)
	for name, in := range map[string]certpolicy.Input{
		"approved": of(csrs).but(tenNames).input(b),
		"refused":  of(csrs).but(tenNames, func(a *asked) { a.dns[9] = "www.example.net"; a.duration = 9000 * time.Hour }).input(b),
		"other":    of(csrs).but(tenNames, func(a *asked) { a.signer = "example.net/none" }).input(b),
	} {
		b.Run(name, func(b *testing.B) {
			if d := s.Decide(in); (name == "approved") != (d.Outcome == v1alpha1.OutcomeApprove) || name != "other" && countApplying(d) != 10 {
				b.Fatalf("%s by %d policies", brief(d), countApplying(d))
			}
			b.ReportAllocs()
			took := make([]time.Duration, 0, b.N)
			for b.Loop() {
				start := time.Now()
				s.Decide(in)
				took = append(took, time.Since(start))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
		})
	}
}

func countApplying(d *v1alpha1.PolicyDecision) int {
	n := 0
	for _, c := range d.Considered {
		if c.Applies {
			n++
		}
	}
	return n
}

// BenchmarkCompile: one policy with a rule.
func BenchmarkCompile(b *testing.B) {
	p := manyPolicies(b)[0]
	b.ReportAllocs()
	for b.Loop() {
		certpolicy.Compile(p)
	}
}

// BenchmarkSet: the set of 100 compiled policies, as it is made when one of them
// changes.
func BenchmarkSet(b *testing.B) {
	var all []*certpolicy.Policy
	for _, p := range manyPolicies(b) {
		all = append(all, compiled(b, p))
	}
	b.ReportAllocs()
	for b.Loop() {
		certpolicy.SetOf(all, nil)
	}
}
