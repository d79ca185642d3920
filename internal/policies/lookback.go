package policies

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies/stored"
	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/requestkind"
)

// Bounds of a look back.
const (
	lookBackFor   = time.Hour
	lookBackAt    = 1000                  // stored requests of all kinds
	lookBackReads = time.Second           // for all, reading included
	lookBackTakes = 50 * time.Millisecond // for deciding about them
)

// Advice warns authors of policies of their effects. It is safe for concurrent use.
type Advice struct {
	clock  clock.PassiveClock
	source *source
	facts  *Facts
	keys   *keys
	seals  *Seals
}

// Advice returns the advice for authors of policies.
func (p *Policies) Advice() *Advice { return &Advice{p.clock, p.source, p.facts, p.keys, p.seals} }

// LookBack is the effect that a policy would have had on requests that were approved
// lately.
type LookBack struct {
	// Approved is how many requests were decided again, Refused are the decisions that
	// would have refused a request.
	Approved int
	Refused  []*v1alpha1.PolicyDecision
}

// LookBack decides again about requests that were approved, by people, policies or
// programs, in the last hour, as if a policy were in force in the place of the one with
// its name. Requests that cannot be read in time are skipped.
func (a *Advice) LookBack(ctx context.Context, policy *certpolicy.Policy) LookBack {
	ctx, cancel := context.WithTimeout(ctx, lookBackReads)
	defer cancel()
	var found LookBack
	set, err := a.source.set()
	if err != nil {
		return found
	}
	others := slices.DeleteFunc(slices.Clone(set.Policies()), func(other *certpolicy.Policy) bool { return other.Name() == policy.Name() })
	after, alone := certpolicy.SetOf(append(others, policy), set.Exceptions()), certpolicy.SetOf([]*certpolicy.Policy{policy}, nil)
	approved := a.approvedLately(ctx, alone, policy.Spec().Match.Kinds)
	began := a.clock.Now()
	for _, one := range approved {
		if a.clock.Since(began) > lookBackTakes || ctx.Err() != nil {
			break
		}
		found.Approved++
		in := certpolicy.Input{Stage: v1alpha1.StageSign, Request: one.Request, Time: began, Votes: a.seals.Votes(one.Request, ConditionsOf(one.Object))}
		if in.Request.Kind == v1alpha1.PodCertificateRequests && !certified(&in, one.Object) {
			continue // its names come from its signer
		}
		in.Facts = a.facts.Of(ctx, &in.Request, after.Needs(&in.Request))
		if d := after.Decide(in); d.Outcome == v1alpha1.OutcomeDeny && set.Decide(in).Outcome != v1alpha1.OutcomeDeny {
			found.Refused = append(found.Refused, d)
		}
	}
	return found
}

// approvedLately returns stored requests of kinds, without any of all kinds, that
// policies can be about and that were approved lately.
func (a *Advice) approvedLately(ctx context.Context, about *certpolicy.Set, kinds []v1alpha1.RequestKind) []stored.Stored {
	if len(kinds) == 0 {
		for _, k := range requestkind.All {
			kinds = append(kinds, k.Name)
		}
	}
	var found []stored.Stored
	left := int64(lookBackAt)
	for _, kind := range kinds {
		if left <= 0 {
			break
		}
		all, err := stored.List(ctx, a.keys.api, a.keys.kinds, kind, left)
		if err != nil {
			klog.FromContext(ctx).V(2).Info("Cannot look at the requests that were approved lately", "kind", kind, "err", err)
		}
		left -= int64(len(all))
		for _, one := range all {
			when := requestkind.Of(one.Object).GrantedAt(one.Object) // of a pod: when it was issued
			if !when.IsZero() && a.clock.Since(when) < lookBackFor && about.Concerns(one.Kind, certpolicy.SignerName(one.Request)) {
				found = append(found, one)
			}
		}
	}
	return found
}

// certified has in decide about the certificate that a pod's request has got. It
// reports whether there is one.
func certified(in *certpolicy.Input, object client.Object) bool {
	chain, err := pki.ParseCertificates(requestkind.Of(object).Certificate(object))
	if err != nil || len(chain) == 0 {
		return false
	}
	in.Certificate = chain[0]
	return true
}
