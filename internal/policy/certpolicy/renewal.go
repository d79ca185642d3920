package certpolicy

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// earlierFact is the fact that open conditions about renewals need.
const earlierFact = "the earlier requests of the owner"

// renewedBy returns the variable for expressions about the last earlier request whose
// certificate was valid when the request was created; nil if there is none. Each policy
// sets how many people had to approve that request.
func renewedBy(in *Input) *expression.Renewed {
	if in.Facts.Earlier.Value == nil {
		return nil
	}
	for _, first := range in.Facts.Earlier.Value.Requests {
		if at := in.Request.Created; len(first.Votes) == 0 || at.Before(first.NotBefore.Time) || !at.Before(first.NotAfter.Time) {
			continue
		}
		renewed := &expression.Renewed{
			NotAfter: first.NotAfter.Time,
			SameKey:  in.Request.Key != nil && first.KeyFingerprint == pki.KeyFingerprint(in.Request.Key),
		}
		for _, v := range first.Votes {
			renewed.ApprovedBy = append(renewed.ApprovedBy, v.Username)
		}
		slices.Sort(renewed.ApprovedBy)
		renewed.ApprovedBy = slices.Compact(renewed.ApprovedBy)
		return renewed
	}
	return nil
}

// renewed takes away the requirements of policies that permit renewals without people,
// if the request renews a certificate that enough people have approved. While the
// earlier requests are not known, people have to approve the request.
func (d decider) renewed() decider {
	earlier := d.in.Facts.Earlier
	var open []quorum.Requirement
	for _, req := range d.requirements {
		switch p := d.set.Policy(req.Policy); {
		case p == nil || p.spec.Approval.Renewals != v1alpha1.RenewAutomatic || d.forCA:
			open = append(open, req)
		case !earlier.Known:
			open = append(open, req)
			d.open = append(d.open, v1alpha1.OpenCondition{Policy: req.Policy, At: "approval.renewals", Fact: earlierFact})
		default:
			first := d.firstOf(req, earlier.Value)
			if first == nil {
				open = append(open, req)
				continue
			}
			if d.renews == nil || lifetimeOf(first) < d.renews.Lifetime.Duration {
				d.renews = renewalOf(first)
			}
		}
	}
	d.requirements = open
	return d
}

// asked returns the requested lifetime, and whether any part of the request asks for
// the certificate of a CA.
func asked(e *evaluation) (lifetime, bool) {
	if e.content == nil {
		return lifetime{}, true
	}
	return e.content.lifetime, e.content.IsCA || e.in.Request.AsksForCA()
}

// firstOf returns the earlier request that a request renews, as far as a requirement
// is concerned; nil if it renews none.
func (d decider) firstOf(req quorum.Requirement, earlier *v1alpha1.EarlierRequests) *v1alpha1.EarlierRequest {
	if earlier == nil {
		return nil
	}
	for i := range earlier.Requests {
		first := &earlier.Requests[i]
		now, asked := d.now, d.lifetime
		valid := !now.Before(first.NotBefore.Time) && now.Before(first.NotAfter.Time)
		if valid && (!asked.known || asked.shortest <= lifetimeOf(first)) && d.approved(req, first) {
			return first
		}
	}
	return nil
}

// approved reports whether a requirement was met when the last person approved the
// request.
func (d decider) approved(req quorum.Requirement, first *v1alpha1.EarlierRequest) bool {
	var votes []quorum.Vote
	var last time.Time
	for _, v := range first.Votes {
		vote := quorum.FromLogged(v)
		vote.Override = nil // one person who overrides a policy is one person
		votes = append(votes, vote)
		if v.Time.After(last) {
			last = v.Time.Time
		}
	}
	return quorum.Count([]quorum.Requirement{req}, votes, d.requester, last).Met
}

func lifetimeOf(first *v1alpha1.EarlierRequest) time.Duration {
	return first.NotAfter.Sub(first.NotBefore.Time)
}

func renewalOf(first *v1alpha1.EarlierRequest) *v1alpha1.DecidedRenewal {
	return &v1alpha1.DecidedRenewal{
		Kind: first.Kind, Namespace: first.Namespace, Name: first.Name, UID: first.UID, Lifetime: metav1.Duration{Duration: lifetimeOf(first)},
	}
}
