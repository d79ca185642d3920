package challenges

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/certplane/certplane/internal/policy/challenge"
)

// ChallengeSettings are the settings for Challenges in the stanza "acme".
type ChallengeSettings struct {
	// maxConcurrentChallenges is the maximum number of Challenges of all namespaces that
	// are presented, checked or validated at the same time. A Challenge that waits for its
	// next self check does not count. With a higher number, Challenges finish sooner, and
	// DNS providers and CAs get more requests at the same time. Default: 60.
	MaxConcurrentChallenges int `json:"maxConcurrentChallenges"`
	// checkPeriod is the time between two self checks of a Challenge, such as 10s. Default:
	// 0s, which means 2 seconds after the first self check, then increasing times up to a
	// minute.
	CheckPeriod metav1.Duration `json:"checkPeriod"`
	// selfCheckDeadline is the time after its presentation at which an unsolved Challenge
	// fails. The authorization may expire earlier. Default: 24h.
	SelfCheckDeadline metav1.Duration `json:"selfCheckDeadline"`
}

// DefaultChallengeSettings returns the defaults.
func DefaultChallengeSettings() ChallengeSettings {
	return ChallengeSettings{MaxConcurrentChallenges: 60, SelfCheckDeadline: metav1.Duration{Duration: challenge.DefaultDeadline}}
}

// Bounds of settings.
const (
	maxConcurrent  = 10_000
	minCheckPeriod = time.Second
	minDeadline    = time.Minute
)

// Validate returns an error for the first invalid value, with the path of its
// field.
func (s ChallengeSettings) Validate() error {
	if n := s.MaxConcurrentChallenges; n < 1 || n > maxConcurrent {
		return fmt.Errorf("acme.maxConcurrentChallenges: %d must be from 1 to %d", n, maxConcurrent)
	}
	if d := s.CheckPeriod.Duration; d != 0 && d < minCheckPeriod {
		return fmt.Errorf("acme.checkPeriod: %s must be 0s, or at least %s", d, minCheckPeriod)
	}
	if d := s.SelfCheckDeadline.Duration; d < minDeadline {
		return fmt.Errorf("acme.selfCheckDeadline: %s must be at least %s", d, minDeadline)
	}
	return nil
}

func (s ChallengeSettings) rules() challenge.Rules {
	return challenge.Rules{CheckPeriod: s.CheckPeriod.Duration, Deadline: s.SelfCheckDeadline.Duration}
}
