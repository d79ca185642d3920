package account

import (
	"context"
	"sync"
	"time"

	"golang.org/x/oauth2"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
)

// retryPeriod is the time between a failed renewal and the next attempt, while
// the old token is still valid.
const retryPeriod = 10 * time.Second

// source is the token of one account, renewed when four fifths of its life are
// over, as kubelets do it for pods. It is safe for concurrent use.
type source struct {
	clock   clock.PassiveClock
	request func(context.Context) (*authenticationv1.TokenRequestStatus, error)

	mu       sync.Mutex // guards all below; held while a token is asked for
	token    string     // empty if there is none
	obtained time.Time
	renewal  time.Time
	end      time.Time
}

// Token implements oauth2.TokenSource, which takes no context: the calling client sets the
// timeout.
func (s *source) Token() (*oauth2.Token, error) {
	token, err := s.current(context.Background())
	if err != nil {
		return nil, err
	}
	return &oauth2.Token{AccessToken: token}, nil
}

func (s *source) current(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.token != "" && now.Before(s.renewal) {
		return s.token, nil
	}
	answer, err := s.request(ctx)
	switch {
	case err == nil:
		s.keep(answer, now)
	case s.token == "" || !now.Before(s.end):
		return "", err
	default:
		klog.FromContext(ctx).Error(err, "A service account token could not be renewed; the old one still holds", "until", s.end)
		s.renewal = now.Add(retryPeriod)
	}
	return s.token, nil
}

func (s *source) keep(answer *authenticationv1.TokenRequestStatus, now time.Time) {
	s.token, s.obtained, s.end = answer.Token, now, answer.ExpirationTimestamp.Time
	s.renewal = now.Add(s.end.Sub(now) / 5 * 4)
}

// ResetTokenOlderThan implements transport.ResettableTokenSource. It is called
// when the API has refused the token of a request that began at t.
func (s *source) ResetTokenOlderThan(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.obtained.Before(t) {
		s.token = ""
	}
}
