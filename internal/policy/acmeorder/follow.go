package acmeorder

import (
	"cmp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/policy/request"
)

// Reasons of conditions of orders that wait.
const (
	reasonWaitsForApproval = "WaitingForApproval"
	reasonWaitsForSigner   = "WaitingForSigner"
)

// RecordWait records what an order that is processing waits for; nil if that is already
// recorded.
func RecordWait(o *order, v Verdict, now time.Time) *orderStatus {
	kind, reason := v1alpha1.AcmeOrderApproved, reasonWaitsForApproval
	if v.WaitsFor == WaitsForSigner {
		kind, reason = v1alpha1.AcmeOrderIssued, reasonWaitsForSigner
	}
	if v.WaitsFor == "" || o.Status.State != v1alpha1.AcmeOrderProcessing {
		return nil
	}
	if says := meta.FindStatusCondition(o.Status.Conditions, kind); says != nil && says.Status == metav1.ConditionUnknown && says.Message == v.Message {
		return nil
	}
	s := o.Status.DeepCopy()
	condition(s, kind, metav1.ConditionUnknown, reason, v.Message, now)
	return s
}

// HideReason returns a problem without its reason, if the endpoint keeps reasons of
// refusals from clients.
func HideReason(p *rfc8555.Problem, o *order, e *v1alpha1.AcmeEndpointSpec) *rfc8555.Problem {
	if p == nil {
		return nil
	}
	return hidden(p, o.Name, e.Approval.HideReasons)
}

// EndpointGone is the problem of an order whose endpoint was deleted.
func EndpointGone() *rfc8555.Problem {
	return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the endpoint does not exist anymore")
}

// ProfileGone is the problem of an order whose profile the endpoint does not have
// anymore.
func ProfileGone(o *order) *rfc8555.Problem {
	return rfc8555.NewProblem(400, rfc8555.ProblemInvalidProfile, "the endpoint has no profile %s anymore", rfc8555.Quote(cmp.Or(o.Spec.Profile, "without a name")))
}

// AccountGone is the problem of an order whose account was deleted.
func AccountGone() *rfc8555.Problem {
	return rfc8555.NewProblem(403, rfc8555.ProblemUnauthorized, "the account does not exist anymore")
}

// RequestTaken is the problem of an order whose request's name another one has.
func RequestTaken() *rfc8555.Problem {
	return rfc8555.NewProblem(500, rfc8555.ProblemServerInternal, "another request has the name of the order's request")
}

// IsTrying reports whether an order has challenges that are to be tried, now or later.
func IsTrying(o *v1alpha1.AcmeOrder) bool {
	if o.Status.State != v1alpha1.AcmeOrderOpen {
		return false
	}
	for i := range o.Status.Authorizations {
		a := &o.Status.Authorizations[i]
		for j := range a.Challenges {
			if a.State == rfc8555.StatePending && a.Challenges[j].State == rfc8555.StateProcessing {
				return true
			}
		}
	}
	return false
}

// EndAccount returns the changed status of an account that is not in force; nil if the
// status already shows that. An account revoked by a person stays revoked. An account
// whose external key or ServiceAccount has ended is in force again when that object is
// back.
func EndAccount(f AccountFacts, now time.Time) *v1alpha1.AcmeAccountStatus {
	a := f.Account
	s := a.Status.DeepCopy()
	switch ended := f.Problem() != nil; {
	case a.Spec.Decision == v1alpha1.AcmeDecisionRevoked && s.State == v1alpha1.AcmeAccountValid:
		s.State = v1alpha1.AcmeAccountRevoked
		s.Ended = whole(now)
	case ended && s.Ended == nil:
		s.Ended = whole(now)
	case !ended && s.Ended != nil:
		s.Ended = nil
	default:
		return nil
	}
	return s
}

// OrderOfRequest returns the name of the order whose request has a name; empty if
// none can have.
func OrderOfRequest(name string) string {
	if of, found := strings.CutPrefix(name, RequestName(&order{})); found {
		return of
	}
	return ""
}

// OrderKeyOf returns the only order that a request can be made for: orders are in the
// namespace of their ServiceAccount, which is the requester, and the names of requests
// follow from those of orders. It is false if there can be none.
func OrderKeyOf(requester, namespace, name string) (key types.NamespacedName, possible bool) {
	of, _, isAccount := request.ServiceAccountOf(requester)
	key = types.NamespacedName{Namespace: of, Name: OrderOfRequest(name)}
	return key, isAccount && key.Name != "" && (namespace == "" || namespace == of)
}

// NamesRequest reports whether an order refers to a request of this kind and name. Only
// the UID shows whether it is the same request.
func NamesRequest(o *v1alpha1.AcmeOrder, r request.Request) bool {
	of := o.Status.Request
	return of != nil && of.Kind == string(r.Kind) && of.Namespace == r.Namespace && of.Name == r.Name
}
