package account

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
)

// issuer hands out numbered tokens that hold for an hour, or fails.
type issuer struct {
	clock  *clocktesting.FakePassiveClock
	issued int
	broken bool
}

func (i *issuer) request(context.Context) (*authenticationv1.TokenRequestStatus, error) {
	if i.broken {
		return nil, errors.New("broken")
	}
	i.issued++
	return &authenticationv1.TokenRequestStatus{
		Token: fmt.Sprint("token-", i.issued), ExpirationTimestamp: metav1.NewTime(i.clock.Now().Add(time.Hour)),
	}, nil
}

func tokenOf(token *oauth2.Token) string {
	if token == nil {
		return ""
	}
	return token.AccessToken
}

// The steps are those of one process's life.
func TestTokenIsRenewed(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	i := &issuer{clock: clocktesting.NewFakePassiveClock(start)}
	s := &source{clock: i.clock, request: i.request}
	for _, step := range []struct {
		reason  string
		after   time.Duration // since the start
		broken  bool          // requests for tokens fail
		refused bool          // the API refuses what was used before
		want    string        // empty: an error
	}{
		{reason: "the first use", want: "token-1"},
		{reason: "used again", after: 47 * time.Minute, want: "token-1"},
		{reason: "four fifths are over", after: 48 * time.Minute, want: "token-2"},
		{reason: "renewal fails, and the token still holds", after: (48 + 59) * time.Minute, broken: true, want: "token-2"},
		{reason: "not tried again at once", after: (48+59)*time.Minute + 9*time.Second, want: "token-2"},
		{reason: "tried again soon", after: (48+59)*time.Minute + 10*time.Second, want: "token-3"},
		{reason: "refused before its end", after: 108 * time.Minute, refused: true, want: "token-4"},
		{reason: "nothing left that holds", after: 200 * time.Minute, broken: true},
		{reason: "issued again", after: 201 * time.Minute, want: "token-5"},
	} {
		i.clock.SetTime(start.Add(step.after))
		i.broken = step.broken
		if step.refused {
			s.ResetTokenOlderThan(i.clock.Now())
		}
		token, err := s.Token()
		if got := tokenOf(token); got != step.want || (err == nil) != (step.want != "") {
			t.Errorf("%s: token %q and error %v, want %q", step.reason, got, err, step.want)
		}
	}
}

// A refused request that began before the token was obtained says nothing about
// the token.
func TestLateRefusal(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	i := &issuer{clock: clocktesting.NewFakePassiveClock(start)}
	s := &source{clock: i.clock, request: i.request}
	if _, err := s.Token(); err != nil {
		t.Fatal(err)
	}
	s.ResetTokenOlderThan(start.Add(-time.Second))
	if token, err := s.Token(); tokenOf(token) != "token-1" {
		t.Errorf("token %q and error %v", tokenOf(token), err)
	}
}
