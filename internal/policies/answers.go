package policies

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// How long answers are kept: a newly granted right should take effect soon.
const (
	keepYes = 10 * time.Second
	keepNo  = 2 * time.Second
)

// keptAnswers is how many answers are kept; the one that was not used for the
// longest time goes first.
const keptAnswers = 4096

// answers caches the answers of an AccessFunc for a while. Nil caches nothing. It is
// safe for concurrent use.
type answers struct {
	then  AccessFunc
	clock clock.PassiveClock
	kept  *lru.Cache
	// age is incremented to invalidate all earlier answers.
	age atomic.Int64
}

type answer struct {
	allowed bool
	until   time.Time
	age     int64
}

func newAnswers(then AccessFunc, clock clock.PassiveClock) *answers {
	return &answers{then: then, clock: clock, kept: lru.New(keptAnswers)}
}

// ask is an AccessFunc. It does not cache errors.
func (a *answers) ask(ctx context.Context, who request.Requester, what certpolicy.Access) (bool, error) {
	question, err := json.Marshal([]any{who, what})
	if err != nil {
		return false, fmt.Errorf("asking whether %s may %s: %w", who.Username, what, err)
	}
	key, age := sha256.Sum256(question), a.age.Load()
	if kept, found := a.kept.Get(key); found {
		if kept := kept.(answer); kept.age == age && a.clock.Now().Before(kept.until) {
			return kept.allowed, nil
		}
	}
	asked := a.clock.Now()
	allowed, err := a.then(ctx, who, what)
	if err != nil {
		return false, err
	}
	keep := keepNo
	if allowed {
		keep = keepYes
	}
	a.kept.Add(key, answer{allowed, asked.Add(keep), age})
	return allowed, nil
}

// forget invalidates all answers, also of questions in progress: rights have changed.
func (a *answers) forget() {
	if a != nil {
		a.age.Add(1)
	}
}
