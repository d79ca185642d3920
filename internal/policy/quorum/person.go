package quorum

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/certplane/certplane/internal/api/nodeid"
	"github.com/certplane/certplane/internal/process/duration"
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
	// ReasonNotAmongApprovers: the voter is in none of the groups whose people are
	// still needed.
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

// components are the usernames of the control plane's own components.
var components = []string{user.APIServerUser, user.KubeControllerManager, user.KubeScheduler, user.KubeProxy}

// notAPerson returns an objection to users that do not stand for a person.
func notAPerson(username string, groups []string) *Refusal {
	switch {
	case username == "" || username == user.Anonymous || slices.Contains(groups, user.AllUnauthenticated):
		return &Refusal{ReasonNotAPerson, "anonymous users cannot be told apart"}
	case strings.HasPrefix(username, nodeid.UserPrefix) || slices.Contains(groups, user.NodesGroup):
		return &Refusal{ReasonNotAPerson, "a node is not a person"}
	case slices.Contains(components, username):
		return &Refusal{ReasonNotAPerson, "a component of the control plane is not a person"}
	default:
		return nil
	}
}

// isServiceAccount reports whether a user is a service account. Other users can mint
// its tokens.
func isServiceAccount(username string, groups []string) bool {
	return strings.HasPrefix(username, serviceaccount.ServiceAccountUsernamePrefix) ||
		slices.Contains(groups, serviceaccount.AllServiceAccountsGroup)
}

// IsPerson reports whether the user is an identified person, acts in their own name,
// and is not the requester.
func (v Voter) IsPerson(requester Person) bool {
	return v.Impersonator == "" && notAPerson(v.Username, v.Groups) == nil && !isServiceAccount(v.Username, v.Groups) &&
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

// objection returns why a vote cannot count for r, independently of other votes and of
// the voter's groups.
func (r Requirement) objection(v *Vote, requester Person, now time.Time) *Refusal {
	if o := notAPerson(v.Username, v.Groups); o != nil {
		return o
	}
	key := r.distinctKey()
	switch {
	case !r.People.ServiceAccounts && isServiceAccount(v.Username, v.Groups):
		return &Refusal{ReasonNotAPerson, "service accounts do not count as people"}
	case key != "" && (len(v.Extra[key]) != 1 || v.Extra[key][0] == ""):
		return &Refusal{ReasonNotIdentified, fmt.Sprintf("people are told apart by the extra value %q, and the user does not have exactly one", key)}
	case samePerson(key, v, new(voteOf(requester, time.Time{}))):
		return &Refusal{ReasonSelfApproval, "requesters cannot approve their own requests"}
	case v.CarriedFrom != "" && !r.carries():
		return &Refusal{reasonOtherOrder, "the policy does not let approvals of earlier orders count"}
	case !now.Before(v.Time.Add(r.ValidFor())):
		return &Refusal{reasonExpired, fmt.Sprintf("approvals count for %s", duration.Format(r.ValidFor()))}
	default:
		return nil
	}
}

// samePerson reports whether a and b are votes of one person: with the same username,
// UID, or extra value of key.
func samePerson(key string, a, b *Vote) bool {
	if a.Username != "" && a.Username == b.Username || a.UID != "" && a.UID == b.UID {
		return true
	}
	return key != "" && slices.ContainsFunc(a.Extra[key], func(value string) bool {
		return value != "" && slices.Contains(b.Extra[key], value)
	})
}
