package challenge

import (
	"errors"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/order"
)

// Limited is an error of a call that was not made because the CA limits
// requests.
type Limited struct {
	Until time.Time
	// What is limited, and Detail what the CA has said of it.
	What, Detail string
}

// Error implements error.
func (l *Limited) Error() string { return "the CA limits " + l.What + ": " + l.Detail }

// CallFailed returns the result of a Read, Accept or Poll that failed. Nothing
// that is not the requester's fault is final.
func (s Situation) CallFailed(step Step, err error) Result {
	r := s.result()
	reason := callReason(step) + err.Error()
	r.Memory = r.Memory.failed(step, s.Now, s.wait(asking))
	verdict, problem := judge(err)
	switch verdict {
	case order.Wait:
		limit := s.limit(err)
		r.Memory.Due = limit.Until
		reason = reasonLimited + minute(limit.Until) + " because " + limit.Error()
	case order.IssuersFault:
		r.Memory.blamed = true
		reason += "; the account of the issuer needs attention"
	case order.Gone, order.Permanent:
		return s.refused(r, step, stateAfter(verdict, problem), reason)
	case order.Retry, order.Reread:
		if problem != nil && problem.RetryAfter.After(r.Memory.Due) {
			r.Memory.Due = earliest(problem.RetryAfter, s.Now.Add(limited))
		}
	}
	if step == Accept {
		r.Memory.Read = false // the CA may have begun nevertheless
	}
	r.Status.Reason = Stable(reason)
	return r
}

// refused returns the result of a permanent error. After a refusal to validate, the
// authorization is read, as it may need no validation any more.
func (s Situation) refused(r Result, step Step, state acmev1.State, reason string) Result {
	reason = Stable(reason)
	if step != Accept {
		return s.fail(r, state, reason)
	}
	r.Memory.Read, r.Memory.Step = false, Nothing
	r.Memory.refusal = &refusal{state: state, reason: reason}
	r.Status.Reason = reason
	return r
}

// limit returns until when a CA limits requests, with the CA's message.
func (s Situation) limit(err error) Limited {
	limit := Limited{What: "requests"}
	var own *Limited
	var problem *rfc8555.Problem
	switch {
	case errors.As(err, &own):
		limit = *own
		limit.Until = order.Bounded(limit.Until, s.Now)
	case errors.As(err, &problem):
		limit.Until, limit.Detail = order.WaitUntil(problem, s.Now), problem.Detail
	}
	if soon := s.Now.Add(time.Second); limit.Until.Before(soon) {
		limit.Until = soon
	}
	limit.Until = s.Now.Add(s.vary(limit.Until.Sub(s.Now))) // not all at once
	return limit
}

func callReason(step Step) string {
	if step == Accept {
		return reasonAccept
	}
	return reasonRead
}

// judge returns what an error means, and the problem if it is one.
func judge(err error) (order.Verdict, *rfc8555.Problem) {
	var own *Limited
	var problem *rfc8555.Problem
	switch {
	case errors.As(err, &own):
		return order.Wait, nil
	case errors.As(err, &problem):
		return order.Judge(problem), problem
	}
	return order.Retry, nil
}

// BlamesAccount reports whether an error of the CA is about the account of the
// issuer.
func BlamesAccount(err error) bool {
	verdict, _ := judge(err)
	return verdict == order.IssuersFault
}

// stateAfter returns the state after a permanent error.
func stateAfter(verdict order.Verdict, p *rfc8555.Problem) acmev1.State {
	if verdict == order.Gone || (p != nil && p.HasType(rfc8555.ProblemMalformed)) {
		return acmev1.Expired
	}
	return acmev1.Errored
}
