package quorum

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/policy/request"
)

// Record is a sealed vote: the voter, the request, and the time.
type Record struct {
	// Kind, Namespace, Name and UID identify the request. Digest is the digest of its
	// content.
	Kind      v1alpha1.RequestKind `json:"kind"`
	Namespace string               `json:"namespace,omitempty"`
	Name      string               `json:"name"`
	UID       string               `json:"uid"`
	Digest    string               `json:"digest"`
	// User and UserUID are the voter's. The record keeps only the groups and extra
	// values that policies named at the vote.
	User    string              `json:"user"`
	UserUID string              `json:"userUID,omitempty"`
	Groups  []string            `json:"groups,omitempty"`
	Extra   map[string][]string `json:"extra,omitempty"`
	// Time is the time of the vote, to the second.
	Time time.Time `json:"time"`
	// Policies are the policies that required people.
	Policies []RecordedPolicy `json:"policies,omitempty"`
	// N is the number in the type of the condition.
	N int `json:"n"`
	// Override is nil unless the approval overrides policies. Versions that do not
	// know it do not count the approval.
	Override *Override `json:"override,omitempty"`
	// Order is nil unless the approval may count for later orders of an ACME client.
	// Versions that do not know it do not count the approval.
	Order *OrderApproval `json:"order,omitempty"`
}

// OrderApproval is the record of an approval of an ACME order's request.
type OrderApproval struct {
	Terms request.OrderTerms `json:"terms"`
	// Groups and Extra are all groups and extra values of the voter, to check later
	// whether the voter may still approve.
	Groups []string            `json:"groups,omitempty"`
	Extra  map[string][]string `json:"extra,omitempty"`
}

// RecordedPolicy is a policy at the time of a vote.
type RecordedPolicy struct {
	Name   string `json:"name"`
	Digest string `json:"digest,omitempty"`
}

// record returns the record, with the number n, of an approval by the user of a write. It
// keeps the groups that the requirements of all policies name: another policy than those
// that apply now may count them.
func (w *Write) record(n int, applying []Requirement) Record {
	vote, r := VoteFor(w.User.Person, w.Now, append(slices.Clone(applying), w.All...)), w.Request
	return Record{
		Kind: r.Kind, Namespace: r.Namespace, Name: r.Name, UID: r.UID, Digest: Digest(r),
		User: vote.Username, UserUID: vote.UID, Groups: vote.Groups, Extra: vote.Extra, Time: vote.Time, N: n,
		Policies: RecordedPolicies(applying),
	}
}

// VoteFor returns a person's vote in its recorded form: to the second, and with only
// the groups and extra values that requirements name.
func VoteFor(voter Person, at time.Time, reqs []Requirement) Vote {
	vote := Vote{Username: voter.Username, UID: voter.UID, Groups: named(voter.Groups, groupsOf(reqs)), Time: at.UTC().Truncate(time.Second)}
	for _, req := range reqs {
		key := req.distinctKey()
		if values := voter.Extra[key]; key != "" && len(values) > 0 {
			if vote.Extra == nil {
				vote.Extra = map[string][]string{}
			}
			vote.Extra[key] = values
		}
	}
	return vote
}

// RecordedPolicies returns the policies that require people, sorted by name.
func RecordedPolicies(reqs []Requirement) []RecordedPolicy {
	var policies []RecordedPolicy
	for _, req := range reqs {
		policies = append(policies, RecordedPolicy{Name: req.Policy, Digest: req.Digest})
	}
	slices.SortFunc(policies, func(a, b RecordedPolicy) int { return strings.Compare(a.Name, b.Name) })
	return policies
}

// Vote returns the vote that is recorded.
func (r Record) Vote() Vote {
	return Vote{Username: r.User, UID: r.UserUID, Groups: r.Groups, Extra: r.Extra, Time: r.Time, Override: r.Override}
}

// isOf reports whether the record is of a user's approval.
func (r Record) isOf(p Person) bool { return r.User == p.Username && r.UserUID == p.UID }

// checkFor returns an error unless the record is an approval of this request with its
// present content, and has the number n.
func (r Record) checkFor(req request.Request, digest string, n int) error {
	switch {
	case r.Kind != req.Kind || r.Namespace != req.Namespace || r.Name != req.Name:
		return fmt.Errorf("the record is of an approval of %s %s", r.Kind, request.FullName(r.Namespace, r.Name))
	case r.UID != req.UID || r.UID == "":
		return errors.New("the record is of an approval of an earlier request of this name")
	case r.Digest != digest:
		return errors.New("the record is of an approval of other content")
	case r.N != n:
		return fmt.Errorf("the record belongs to condition %s", VoteType(r.N))
	case r.User == "" || r.Time.IsZero():
		return errors.New("the record has no user or time")
	default:
		return nil
	}
}
