package sources

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// way is a combination of policies and conditions that permits a request for the name.
type way struct {
	// requesters limits the requesters, and decides names the approvers; empty if
	// policies do not.
	requesters, decides string
	// open are the conditions that depend on the request.
	open []string
}

// ways returns the ways in which the policies permit a sample, and the reason if none
// does. The policies evaluate the sample like a request, except for conditions that
// depend on the request (requester, namespace, expressions): these are assumed to be met,
// and listed.
func (n Name) ways(policies []v1alpha1.CertificatePolicy, exceptions []v1alpha1.CertificatePolicyException, sample request.Request, now time.Time) (found []way, because string) {
	var limits, rest []*v1alpha1.CertificatePolicy
	var open []string
	var allows []variant
	signerName := certpolicy.SignerName(sample)
	for i := range policies {
		p := &policies[i]
		if !concerns(p, sample.Kind, signerName) {
			continue
		}
		v := n.variantOf(p, sample.Usages)
		switch {
		case p.Spec.Effect == v1alpha1.PolicyAllow:
			allows = append(allows, v)
		case v.requesters != "" && v.limits():
			open = append(open, fmt.Sprintf("CertificatePolicy %s limits the requests that it matches (%s)", p.Name, v.requesters))
		case v.requesters == "" && p.Spec.Effect == v1alpha1.PolicyLimit:
			limits, open = append(limits, v.policy), append(open, v.open...)
		case v.requesters == "":
			rest = append(rest, v.policy)
		}
	}
	decide := func(policies ...*v1alpha1.CertificatePolicy) *v1alpha1.PolicyDecision {
		return certpolicy.NewSet(policies, pointers(exceptions)).Decide(certpolicy.Input{Stage: v1alpha1.StageCheck, Request: sample, Time: now})
	}
	if d := decide(limits...); d.Outcome == v1alpha1.OutcomeDeny {
		return nil, d.Message // regardless of other policies
	}
	always := slices.Concat(limits, rest)
	alone := decide(always...)
	for _, allow := range allows {
		d := decide(append(slices.Clone(always), allow.policy)...)
		if d.Outcome == v1alpha1.OutcomeDeny {
			because = d.Message
			continue
		}
		w := way{decides: decidesText(d), open: slices.Concat(open, allow.open)}
		if w.requesters = "those that CertificatePolicy " + allow.policy.Name + " matches"; allow.requesters != "" {
			w.requesters += " (" + allow.requesters + ")"
		}
		found = append(found, w)
	}
	if slices.ContainsFunc(allows, func(v variant) bool { return v.requesters == "" }) {
		return found, because // every request matches an Allow policy
	}
	if alone.Outcome != v1alpha1.OutcomeDeny {
		found = append(found, way{decides: decidesText(alone), open: open})
	}
	return found, cmp.Or(because, alone.Message)
}

// concerns reports whether a policy can match requests of a kind for a signer.
func concerns(p *v1alpha1.CertificatePolicy, kind v1alpha1.RequestKind, signerName string) bool {
	return certpolicy.NewSet([]*v1alpha1.CertificatePolicy{p}, nil).Governs(kind, signerName)
}

// decidesText names the approvers; empty if no policy decides and any user with the right
// may approve.
func decidesText(d *v1alpha1.PolicyDecision) string {
	switch d.Outcome {
	case v1alpha1.OutcomeApprove:
		return "automatic: approved by CertificatePolicy " + d.Policy.Name
	case v1alpha1.OutcomeNeedPeople:
		return "people: " + d.Message
	case v1alpha1.OutcomeWait:
		return "unknown without a request: " + d.Message
	}
	return ""
}

// variant is a policy without the conditions that depend on the request.
type variant struct {
	policy *v1alpha1.CertificatePolicy
	// requesters are the parts of match that select requesters, empty for all.
	requesters string
	open       []string
}

// limits reports whether the policy can refuse a request for its names, or requires people.
func (v variant) limits() bool {
	s := &v.policy.Spec
	return s.Certificate == nil || s.Certificate.Names != nil || len(v.open) > 0 || s.Approval != nil
}

func (n Name) variantOf(of *v1alpha1.CertificatePolicy, usages []string) variant {
	p := of.DeepCopy()
	v := variant{policy: p, requesters: requestersOf(&p.Spec.Match)}
	p.Spec.Match = v1alpha1.PolicyMatch{Kinds: p.Spec.Match.Kinds, Signers: p.Spec.Match.Signers}
	if len(p.Spec.Rules) > 0 {
		v.open = append(v.open, fmt.Sprintf("the rules of CertificatePolicy %s hold", p.Name))
		p.Spec.Rules = nil
	}
	p.Spec.Quotas = nil
	if p.Spec.Certificate == nil {
		return v
	}
	named := p.Spec.Certificate.Names
	p.Spec.Certificate = &v1alpha1.CertificateConditions{}
	if p.Spec.Effect == v1alpha1.PolicyAllow {
		p.Spec.Certificate.Usages = &v1alpha1.UsageConditions{Allowed: usages}
	}
	if named == nil {
		return v
	}
	if n.dependent(named) {
		v.open = append(v.open, fmt.Sprintf("CertificatePolicy %s permits the name for this request", p.Name))
	}
	p.Spec.Certificate.Names = n.only(named)
	return v
}

// requestersOf names the conditions of a policy that select requesters.
func requestersOf(m *v1alpha1.PolicyMatch) string {
	var parts []string
	add := func(given bool, part string) {
		if given {
			parts = append(parts, part)
		}
	}
	if who := m.Requesters; who != nil {
		for _, list := range []struct {
			kind  string
			names []string
		}{{"Group", who.Groups}, {"User", who.Users}, {"ServiceAccount", who.ServiceAccounts}} {
			for _, name := range list.names {
				parts = append(parts, list.kind+" "+name)
			}
		}
		add(who.Excluded != nil, "match.requesters.excluded")
	}
	for _, a := range m.Access {
		add(true, "users who may "+a.Verb+" "+cmp.Or(strings.TrimSpace(a.Resource+" "+a.Name), "it"))
	}
	if m.Namespaces != nil {
		add(len(m.Namespaces.Names) > 0, "namespaces "+strings.Join(m.Namespaces.Names, ", "))
		add(len(m.Namespaces.Names) == 0, "match.namespaces")
	}
	add(len(m.Origins) > 0, "match.origins")
	add(len(m.Conditions) > 0, "match.conditions")
	return strings.Join(parts, ", ")
}

// dependent reports whether the conditions on names of this kind depend on the request.
func (n Name) dependent(c *v1alpha1.NameConditions) bool {
	texts := fieldOf(n,
		func() []string {
			if c.DNS == nil {
				return nil
			}
			return append(slices.Concat(c.DNS.Zones, c.DNS.Patterns), expressionText(c.DNS.Expression))
		},
		func() []string {
			if c.IP == nil {
				return nil
			}
			return []string{expressionText(c.IP.Expression)}
		},
		func() []string {
			if c.URI == nil {
				return nil
			}
			return append(slices.Clone(c.URI.Patterns), expressionText(c.URI.Expression))
		},
		func() []string {
			if c.Email == nil {
				return nil
			}
			return append(slices.Concat(c.Email.Domains, c.Email.Patterns), expressionText(c.Email.Expression))
		},
	)()
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(text, "{") })
}

// expressionText replaces an expression among texts with variables.
func expressionText(e v1alpha1.CEL) string {
	if e == "" {
		return ""
	}
	return "{" + string(e) + "}"
}

// only returns the conditions on names of this kind, for a certificate with one such
// name. It omits conditions that depend on the request.
func (n Name) only(c *v1alpha1.NameConditions) *v1alpha1.NameConditions {
	depends, one := n.dependent(c), &v1alpha1.NameConditions{}
	return fieldOf(n,
		func() *v1alpha1.NameConditions {
			if one.DNS = c.DNS; one.DNS != nil {
				if one.DNS.Max = nil; depends {
					one.DNS = &v1alpha1.DNSConditions{Excluded: withoutVariables(c.DNS.Excluded), Wildcards: c.DNS.Wildcards}
				}
			}
			return one
		},
		func() *v1alpha1.NameConditions {
			if one.IP = c.IP; one.IP != nil {
				one.IP.Max, one.IP.Expression = nil, ""
			}
			return one
		},
		func() *v1alpha1.NameConditions {
			if one.URI = c.URI; one.URI != nil {
				if one.URI.Max = nil; depends {
					one.URI = &v1alpha1.URIConditions{}
				}
			}
			return one
		},
		func() *v1alpha1.NameConditions {
			if one.Email = c.Email; one.Email != nil {
				if one.Email.Max = nil; depends {
					one.Email = &v1alpha1.EmailConditions{}
				}
			}
			return one
		},
	)()
}

// withoutVariables returns the excluded names that are the same for all requests.
func withoutVariables(e *v1alpha1.ExcludedDNS) *v1alpha1.ExcludedDNS {
	if e == nil {
		return nil
	}
	hasVariable := func(text string) bool { return strings.Contains(text, "{") }
	return &v1alpha1.ExcludedDNS{Zones: slices.DeleteFunc(slices.Clone(e.Zones), hasVariable), Patterns: slices.DeleteFunc(slices.Clone(e.Patterns), hasVariable)}
}

func pointers[T any](items []T) []*T {
	all := make([]*T, len(items))
	for i := range items {
		all[i] = &items[i]
	}
	return all
}
