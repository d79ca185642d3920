package certpolicy

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/expression"
	"github.com/certplane/certplane/internal/policy/request"
)

// Judgement is what the policies of a set say about a request, apart from whether
// enough people have approved it. It never changes, and is safe for concurrent
// use.
type Judgement struct {
	set *Set
	// in is what was asked, without what is parsed.
	in Input
	// requester is the user, for pods their service account.
	requester request.Requester
	// unreadable is why the request cannot be judged at all.
	unreadable error
	// opinions are those of the enforced policies, tried those of the policies in
	// the modes Shadow and Warn, both in the order of their names.
	opinions, tried []*opinion
	// considered is what a decision shows of the opinions.
	considered []v1alpha1.ConsideredPolicy
	// lifetime and forCA are what is asked for; of what cannot be read, it may be a CA.
	lifetime lifetime
	forCA    bool
	cost     uint64
	// results are those of the expressions.
	results expression.Results
	request v1alpha1.DecidedRequest
}

// About returns what the policies say about the request with a finished
// certificate, where in is what was judged and the certificate. Expressions that
// do not read the certificate are not evaluated again.
func (j *Judgement) About(in Input) *Judgement { return j.set.judge(in, j.results) }

// Answers reports whether the judgement is what the set would say about in too,
// so that it need not be asked again. Votes do not matter, and of the stage only
// whether quotas are checked, if there are any. Finished certificates are always
// judged again, and so are requests of pods.
func (j *Judgement) Answers(s *Set, in *Input) bool {
	return j.set == s && j.holdsAt(in.Time) && (!s.limited || checksQuotas(j.in.Stage) == checksQuotas(in.Stage)) && len(in.Request.PEM) > 0 &&
		in.Certificate == nil && j.in.Certificate == nil && in.Prospective == nil && j.in.Prospective == nil &&
		j.in.Request.Created.Equal(in.Request.Created) && reflect.DeepEqual(j.in.question(), in.question())
}

// question is what a judgement depends on but times and certificates.
func (in *Input) question() *Input {
	q := &Input{Request: in.Request.Unparsed(), Facts: in.Facts, Patience: in.Patience, SealsUnknown: in.SealsUnknown}
	q.Request.Created = time.Time{}
	return q
}

// holdsAt reports whether the judgement would be the same at another time, which
// must not be before its own: no exception has ended meanwhile, and the patience
// with open conditions is not over.
func (j *Judgement) holdsAt(now time.Time) bool {
	if now.Before(j.in.Time) {
		return false
	}
	for _, x := range j.set.exceptions {
		if x.remaining(j.in.Time) > 0 && x.remaining(now) <= 0 {
			return false
		}
	}
	over := j.in.Request.Created.Add(j.in.Patience)
	return j.in.Patience == 0 || !j.in.Time.Before(over) || now.Before(over)
}

// Lifetime returns the lifetime that the policies leave to signers of this server: that
// of the Limits that apply, and of the Allow policy that the request is approved by. It
// is for judgements of what a request asks for. A lifetime that a policy refuses instead
// of shortening it is not signed at all.
func (j *Judgement) Lifetime() request.LifetimeLimits {
	best := bestOf(j.opinions)
	var l request.LifetimeLimits
	for _, o := range j.opinions {
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
