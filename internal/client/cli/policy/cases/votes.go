package cases

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/client/cli/policy/ask"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// votes returns approvals by people. Those without a time are from just before ago.
func (t *test) votes(of []v1alpha1.PolicyTestVote, ago time.Duration) ([]quorum.Vote, error) {
	var all []quorum.Vote
	for i, vote := range of {
		who, err := ask.User(&vote.As)
		if err != nil {
			return nil, fmt.Errorf("votes[%d].as: %w", i, err)
		}
		at := t.now.Add(-ago - time.Second)
		if vote.Ago != nil {
			at = t.now.Add(-vote.Ago.Duration)
		}
		all = append(all, quorum.Vote{
			Username: who.Username, UID: who.UID, Groups: who.Groups, Extra: who.Extra, Time: at, Override: t.override(who, vote.Override),
		})
	}
	return all, nil
}

// earlier returns the request that the case says is renewed.
func (c *testCase) earlier(kind v1alpha1.RequestKind) (v1alpha1.EarlierRequests, error) {
	renews := c.spec.Renews
	if renews == nil {
		return v1alpha1.EarlierRequests{}, nil
	}
	if renews.Lifetime.Duration <= 0 {
		return v1alpha1.EarlierRequests{}, errors.New("lifetime: must be more than zero")
	}
	issued := c.test.now.Add(-renews.Ago.Duration)
	first := v1alpha1.EarlierRequest{
		StoredRequest: v1alpha1.StoredRequest{Kind: kind, Name: "earlier", UID: "earlier"},
		NotBefore:     metav1.NewTime(issued), NotAfter: metav1.NewTime(issued.Add(renews.Lifetime.Duration)),
	}
	approvals, err := c.test.votes(renews.Votes, renews.Ago.Duration)
	for _, v := range approvals {
		first.Votes = append(first.Votes, v.Logged())
	}
	return v1alpha1.EarlierRequests{Requests: []v1alpha1.EarlierRequest{first}}, err
}
