package certpolicy_test

import (
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
)

// Specifications of policies that many tests use.
const (
	// everything permits every request.
	everything = `
effect: Allow
match: {signers: ["*"]}
certificate:
  subject:
    commonName: {}
    serialNumber: {}
    organizations: {}
    organizationalUnits: {}
    countries: {}
    localities: {}
    provinces: {}
    streetAddresses: {}
    postalCodes: {}
    other: [{oid: 0.9.2342.19200300.100.1.1}, {oid: 1.2.840.113549.1.9.1}]
  names:
    dns: {wildcards: true}
    ip: {}
    uri: {}
    email: {}
    other: [{oid: 1.3.6.1.4.1.311.20.2.3}]
  usages:
    allowed: [any, digital signature, content commitment, key encipherment, key agreement, data encipherment,
      cert sign, crl sign, encipher only, decipher only]
  authority: {allowed: true}
  extensions: {allowed: [1.2.3]}
`
	// web permits the DNS names of a zone to a server.
	web = `
effect: Allow
match: {signers: ["*"]}
certificate:
  names: {dns: {zones: [shop.example.com]}}
  usages: {allowed: [digital signature, key encipherment, server auth]}
`
)

// policy returns a policy with a specification in YAML.
func policy(t testing.TB, name, spec string) *v1alpha1.CertificatePolicy {
	t.Helper()
	p := &v1alpha1.CertificatePolicy{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 3}}
	if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
		t.Fatalf("policy %s: %v\n%s", name, err, spec)
	}
	return p
}

// exception returns an exception with a specification in YAML.
func exception(t testing.TB, name, spec string) *v1alpha1.CertificatePolicyException {
	t.Helper()
	x := &v1alpha1.CertificatePolicyException{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}}
	if err := yaml.UnmarshalStrict([]byte(spec), &x.Spec); err != nil {
		t.Fatalf("exception %s: %v\n%s", name, err, spec)
	}
	return x
}

// set compiles policies, which must be valid, by name.
func set(t testing.TB, specs map[string]string) *certpolicy.Set {
	t.Helper()
	return setWith(t, specs, nil)
}

// setWith is set with exceptions.
func setWith(t testing.TB, specs, exceptions map[string]string) *certpolicy.Set {
	t.Helper()
	var policies []*v1alpha1.CertificatePolicy
	for name, spec := range specs {
		p := policy(t, name, spec)
		if _, errs, _ := certpolicy.Compile(p); len(errs) > 0 {
			t.Fatalf("policy %s: %v\n%s", name, errs.ToAggregate(), spec)
		}
		policies = append(policies, p)
	}
	var exempt []*v1alpha1.CertificatePolicyException
	for name, spec := range exceptions {
		x := exception(t, name, spec)
		if _, errs := certpolicy.CompileException(x); len(errs) > 0 {
			t.Fatalf("exception %s: %v\n%s", name, errs.ToAggregate(), spec)
		}
		exempt = append(exempt, x)
	}
	return certpolicy.NewSet(policies, exempt)
}

// decide decides about a request by policies.
func decide(t testing.TB, s *certpolicy.Set, a asked) *v1alpha1.PolicyDecision {
	t.Helper()
	in := a.inputFor(t, s)
	decision := s.Decide(in)
	if in.Certificate != nil { // signers have judged the request before
		before := in
		before.Certificate = nil
		after, _ := s.Opinions(before).About(in).Decide(in.Stage, in.Time, in.Votes)
		if got, want := encode(t, after), encode(t, decision); got != want {
			t.Errorf("after the request, the certificate is judged\n%s\nwant\n%s", got, want)
		}
	}
	return decision
}

// inputFor is input with how much of the quotas of policies is used.
func (a asked) inputFor(t testing.TB, s *certpolicy.Set) certpolicy.Input {
	t.Helper()
	in := a.input(t)
	if a.quotasUnknown {
		return in
	}
	in.Facts.Quotas = map[certpolicy.Quota]certpolicy.QuotaUse{}
	for _, q := range s.Quotas(&in.Request) {
		in.Facts.Quotas[q] = a.used[q.Name]
	}
	return in
}

// encode returns a decision as JSON.
func encode(t testing.TB, d *v1alpha1.PolicyDecision) string {
	t.Helper()
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// brief describes what refuses or delays a request: "Deny p
// certificate.names.dns NameNotPermitted dnsNames[1]=www.example.org".
// Violations that an exception covers are in parentheses.
func brief(d *v1alpha1.PolicyDecision) string {
	parts := []string{string(d.Outcome)}
	for _, v := range d.Violations {
		text := fmt.Sprintf("%s %s %s", v.Policy, v.At, v.Reason)
		if v.Field != "" {
			text += " " + v.Field
		}
		if v.Value != "" {
			text += "=" + v.Value
		}
		if v.Exception != "" {
			text = "(" + text + " by " + v.Exception + ")"
		}
		parts = append(parts, text)
	}
	if d.Outcome == v1alpha1.OutcomeWait {
		for _, o := range d.Open {
			parts = append(parts, fmt.Sprintf("%s %s wants %s", o.Policy, o.At, o.Fact))
		}
	}
	return strings.Join(parts, "; ")
}

// considered returns what a policy says about a request.
func considered(t testing.TB, d *v1alpha1.PolicyDecision, name string) v1alpha1.ConsideredPolicy {
	t.Helper()
	for _, c := range d.Considered {
		if c.Policy == name {
			return c
		}
	}
	return v1alpha1.ConsideredPolicy{}
}

func serviceAccountOf(username string) (namespace string, isAccount bool) {
	namespace, _, err := serviceaccount.SplitUsername(username)
	return namespace, err == nil
}

// compiled compiles a policy that must be valid.
func compiled(t testing.TB, p *v1alpha1.CertificatePolicy) *certpolicy.Policy {
	t.Helper()
	one, errs, _ := certpolicy.Compile(p)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	return one
}

func setOf(policies ...*v1alpha1.CertificatePolicy) *certpolicy.Set {
	return certpolicy.NewSet(policies, nil)
}

func ipNet(text string) []*net.IPNet {
	_, network, err := net.ParseCIDR(text)
	if err != nil {
		panic(err)
	}
	return []*net.IPNet{network}
}
