package quorum

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/duration"
)

// The reasons for which an approval is refused, or does not count.
const (
	// ReasonSelfApproval: the voter is the requester.
	ReasonSelfApproval = "SelfApproval"
	// ReasonImpersonated: another user acts in the voter's name.
	ReasonImpersonated = "Impersonated"
	// ReasonNotAPerson: a node, an anonymous user, a component of the control
	// plane, or a service account where these do not count.
	ReasonNotAPerson = "NotAPerson"
	// ReasonNotIdentified: the voter lacks the extra value that tells people
	// apart.
	ReasonNotIdentified = "NotIdentified"
	// ReasonNotAmongApprovers: the voter is in none of the groups of which
	// people are still needed.
	ReasonNotAmongApprovers = "NotAmongApprovers"
	// ReasonAlreadyApproved: the voter has approved, and that approval counts.
	ReasonAlreadyApproved = "AlreadyApproved"
	// ReasonNotNeeded: enough people have approved.
	ReasonNotNeeded = "NotNeeded"
	// ReasonTooManyApprovals: the request has MaxVotes votes.
	ReasonTooManyApprovals = "TooManyApprovals"

	reasonExpired = "Expired"
	// reasonOtherOrder: the approval is of an earlier order of an ACME client.
	reasonOtherOrder = "OtherOrder"
)

// objection is why an approval does not count. The zero value is none.
type objection struct {
	reason, because string
}

// components are the usernames of the control plane's own components.
var components = []string{user.APIServerUser, user.KubeControllerManager, user.KubeScheduler, user.KubeProxy}

// notAPerson returns an objection to users behind which there is nobody.
func notAPerson(username string, groups []string) objection {
	switch {
	case username == "" || username == user.Anonymous || slices.Contains(groups, user.AllUnauthenticated):
		return objection{ReasonNotAPerson, "anonymous users are nobody in particular"}
	case strings.HasPrefix(username, nodeid.UserPrefix) || slices.Contains(groups, user.NodesGroup):
		return objection{ReasonNotAPerson, "a node is not a person"}
	case slices.Contains(components, username):
		return objection{ReasonNotAPerson, "a component of the control plane is not a person"}
	default:
		return objection{}
	}
}

// isServiceAccount reports whether a user is a service account. Its tokens can
// be minted by somebody else.
func isServiceAccount(username string, groups []string) bool {
	return strings.HasPrefix(username, serviceaccount.ServiceAccountUsernamePrefix) ||
		slices.Contains(groups, serviceaccount.AllServiceAccountsGroup)
}

// IsPerson reports whether a user is somebody in particular who acts in their own name,
// and not the requester.
func (v Voter) IsPerson(requester Person) bool {
	return v.Impersonator == "" && notAPerson(v.Username, v.Groups) == (objection{}) && !isServiceAccount(v.Username, v.Groups) &&
		!samePerson("", new(voteOf(v.Person, time.Time{})), new(voteOf(requester, time.Time{})))
}

// distinctKey returns the key of the extra value that tells people apart, or
// nothing if the username does.
func (r Requirement) distinctKey() string {
	key, _ := strings.CutPrefix(r.People.DistinctBy, "Extra:")
	if key == r.People.DistinctBy {
		return ""
	}
	return key
}

// objection returns why a vote cannot count for r, whoever else has voted, and
// whatever its groups are.
func (r Requirement) objection(v *Vote, requester Person, now time.Time) objection {
	if o := notAPerson(v.Username, v.Groups); o != (objection{}) {
		return o
	}
	key := r.distinctKey()
	switch {
	case !r.People.ServiceAccounts && isServiceAccount(v.Username, v.Groups):
		return objection{ReasonNotAPerson, "service accounts do not count as people"}
	case key != "" && (len(v.Extra[key]) != 1 || v.Extra[key][0] == ""):
		return objection{ReasonNotIdentified, fmt.Sprintf("people are told apart by the extra value %q, of which the user has not exactly one", key)}
	case samePerson(key, v, new(voteOf(requester, time.Time{}))):
		return objection{ReasonSelfApproval, "nobody approves their own request"}
	case v.CarriedFrom != "" && !r.carries():
		return objection{reasonOtherOrder, "the policy does not let approvals of earlier orders count"}
	case !now.Before(v.Time.Add(r.ValidFor())):
		return objection{reasonExpired, fmt.Sprintf("approvals count for %s", duration.Format(r.ValidFor()))}
	default:
		return objection{}
	}
}

// samePerson reports whether a and b are votes of one person: one that has the
// same username, UID, or extra value of key in both.
func samePerson(key string, a, b *Vote) bool {
	if a.Username != "" && a.Username == b.Username || a.UID != "" && a.UID == b.UID {
		return true
	}
	return key != "" && slices.ContainsFunc(a.Extra[key], func(value string) bool {
		return value != "" && slices.Contains(b.Extra[key], value)
	})
}
