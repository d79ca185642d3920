package certpolicy

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/request"
)

// Opinions are what the policies of a set say about a request, apart from whether
// enough people have approved it. It never changes, and is safe for concurrent
// use.
type Opinions struct {
	set *Set
	// in is the input, without the parsed parts.
	in Input
	// requester is the user; for pods, their service account.
	requester request.Requester
	// unreadable is why the request cannot be judged at all.
	unreadable error
	// opinions are the opinions of the enforced policies, tried the opinions of the
	// policies in the modes Shadow and Warn, both in the order of their names.
	opinions, tried []*opinion
	// considered are the opinions as decisions list them.
	considered []v1alpha1.ConsideredPolicy
	// lifetime and forCA are what the request asks for. An unreadable request may ask
	// for a CA.
	lifetime lifetime
	forCA    bool
	cost     uint64
	// results are the results of the expressions.
	results expression.Results
	request v1alpha1.DecidedRequest
}

// About returns what the policies say about the request with a finished
// certificate, where in is what was judged and the certificate. Expressions that
// do not read the certificate are not evaluated again.
func (all *Opinions) About(in Input) *Opinions { return all.set.opinions(in, all.results) }

// Answers reports whether the set has the same opinions about in, so that it need
// not be asked again. Votes do not matter, and of the stage only
// whether quotas are checked, if there are any. Finished certificates and requests of
// pods are always judged again.
func (all *Opinions) Answers(s *Set, in *Input) bool {
	return all.set == s && all.holdsAt(in.Time) && (!s.limited || checksQuotas(all.in.Stage) == checksQuotas(in.Stage)) && len(in.Request.PEM) > 0 &&
		in.Certificate == nil && all.in.Certificate == nil && in.Prospective == nil && all.in.Prospective == nil &&
		all.in.Request.Created.Equal(in.Request.Created) && reflect.DeepEqual(all.in.question(), in.question())
}

// question returns the part of in that opinions depend on, without times and certificates.
func (in *Input) question() *Input {
	q := &Input{Request: in.Request.Unparsed(), Facts: in.Facts, Patience: in.Patience, SealsUnknown: in.SealsUnknown}
	q.Request.Created = time.Time{}
	return q
}

// holdsAt reports whether the opinions would be the same at now, which must not be before
// the time of the input: no exception has ended in between, and the patience with open
// conditions is not over.
func (all *Opinions) holdsAt(now time.Time) bool {
	if now.Before(all.in.Time) {
		return false
	}
	for _, x := range all.set.exceptions {
		if x.remaining(all.in.Time) > 0 && x.remaining(now) <= 0 {
			return false
		}
	}
	over := all.in.Request.Created.Add(all.in.Patience)
	return all.in.Patience == 0 || !all.in.Time.Before(over) || now.Before(over)
}

// Lifetime returns the lifetime that the policies leave to signers of this server: from
// the Limits that apply and the Allow policy that approves the request. Call it only for
// opinions about a request without a finished certificate. A lifetime that a policy refuses instead
// of shortening it is not signed at all.
func (all *Opinions) Lifetime() request.LifetimeLimits {
	best := bestOf(all.opinions)
	var l request.LifetimeLimits
	for _, o := range all.opinions {
		if !o.applies || o.policy.spec.Certificate == nil || o.policy.spec.Certificate.Lifetime == nil {
			continue
		}
		if o.policy.spec.Effect == v1alpha1.PolicyLimit || o == best {
			of := o.policy.spec.Certificate.Lifetime
			l.Max, l.Default = smaller(l.Max, of.Max), smaller(l.Default, of.Default)
		}
	}
	return l
}

func smaller(a *time.Duration, b *metav1.Duration) *time.Duration {
	if b == nil || a != nil && *a <= b.Duration {
		return a
	}
	return &b.Duration
}
