package podsync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/agent/hook"
	"github.com/certplane/certplane/internal/agent/records"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/agent/volume"
)

// restoring stands for the content that programs have been notified of while files that
// were deleted are written again. It is not a digest.
const restoring = "restoring"

// actPause is the least time between actions of a volume for different content.
const actPause = 5 * time.Second

// act runs the actions of a volume that has new content, one after the other,
// and returns those that have failed. If they have run within actPause, it leaves
// the content to a later sync. A failed action does not stop the others,
// and is tried again until it succeeds. An action that has succeeded does not
// run again for the same content. For the first complete files each action has one
// attempt, whose failure is only logged: the program may start later, with these files.
func (v *podSync) act(ctx context.Context, s *volumeState, dir string, files volume.Files) []status.Action {
	content, lists, others := v.digests(s, files)
	var failed []status.Action
	if s.Notified != content {
		first := s.Notified == ""
		target := hook.Volume{Namespace: s.id.Namespace, Pod: s.id.Pod, Volume: s.id.Volume, Dir: dir, Change: hook.Others}
		switch {
		case lists != s.NotifiedLists && others == s.NotifiedOthers:
			target.Change = hook.Lists
		case lists != s.NotifiedLists, lists != "" && others == s.NotifiedOthers: // or deleted files were written again
			target.Change = hook.Both
		}
		if slices.ContainsFunc(v.k.Actions, func(a hook.Action) bool { return a.For(target) }) {
			if pause := v.k.attempts.pause(s.id, content, v.k.Clock.Now()); pause > 0 {
				v.wakeBy(v.k.Clock.Now().Add(pause))
				return nil
			}
		}
		failed = v.actAll(ctx, s, target, content)
		if first {
			failed = nil
		}
	}
	if len(failed) == 0 {
		s.Notified, s.NotifiedLists, s.NotifiedOthers, s.Done = content, lists, others, nil
	}
	return failed
}

// digests returns digests of all files, of the revocation lists, and of the other files. That
// of no lists is empty.
func (v *podSync) digests(s *volumeState, files volume.Files) (content, lists, others string) {
	only, rest := volume.Files{}, maps.Clone(files)
	for _, want := range v.manifest.Lists[s.id.Volume] {
		if file, there := files[want.Path]; there {
			only[want.Path] = file
			delete(rest, want.Path)
		}
	}
	if len(only) > 0 {
		lists = digest(only)
	}
	return digest(files), lists, digest(rest)
}

func (v *podSync) actAll(ctx context.Context, s *volumeState, target hook.Volume, content string) []status.Action {
	var failed []status.Action
	var done map[string]string // without actions that are no longer in the configuration
	for _, action := range v.k.Actions {
		key := action.Key()
		if !action.For(target) {
			continue
		}
		attempt := attempt{}
		if s.Done[key] != content {
			attempt = v.attempt(ctx, s, action, target, content)
		}
		if attempt.err == nil {
			if done == nil {
				done = map[string]string{}
			}
			done[key] = content
			continue
		}
		v.wakeBy(attempt.retryAt)
		failed = append(failed, status.Action{Name: action.String(), Error: "after the refresh: " + attempt.err.Error(), RetryAt: attempt.retryAt})
	}
	s.Done = done
	return failed
}

// attempt runs an action, unless it has failed for this content and its
// back-off has not ended.
func (v *podSync) attempt(ctx context.Context, s *volumeState, action hook.Action, target hook.Volume, content string) attempt {
	k, key := v.k, describe(s.id)+" "+action.Key()
	last, now := k.attempts.last(key), k.Clock.Now()
	if last.content == content && now.Before(last.retryAt) && !v.retry {
		return last
	}
	// A command has its own time limit.
	err := action.Do(context.WithoutCancel(ctx), target)
	k.Metrics.acted(err)
	logger := klog.FromContext(ctx).WithValues("pod", v.manifest.Key(), "volume", target.Volume, "action", action.String())
	switch {
	case err == nil:
		logger.Info("Notified a program of new files")
	case s.Notified == "":
		logger.Info("An action after the first files failed; it is not tried again, because its program may not run yet", "err", err)
	case last.err == nil || last.err.Error() != err.Error():
		logger.Error(err, "An action after a refresh failed; it is tried again")
	}
	return k.attempts.made(key, content, err, k.Clock.Now())
}

// attempts records the actions that have failed, each with its own back-off. It
// is safe for concurrent use.
type attempts struct {
	backoff workqueue.TypedRateLimiter[string]

	mu     sync.Mutex
	failed map[string]attempt     // by volume and action
	begun  map[records.ID]attempt // what the actions of a volume have run for last
}

// pause returns how long the actions of a volume must wait before they may run for some
// content. If it is 0, they run now.
func (a *attempts) pause(id records.ID, content string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	last, known := a.begun[id]
	if wait := last.retryAt.Sub(now); known && last.content != content && wait > 0 && wait <= actPause {
		return wait
	}
	a.begun[id] = attempt{content: content, retryAt: now.Add(actPause)}
	return 0
}

// attempt is the last attempt of an action for some content.
type attempt struct {
	content string
	err     error
	retryAt time.Time
}

func newAttempts() *attempts {
	return &attempts{
		backoff: workqueue.NewTypedItemExponentialFailureRateLimiter[string](500*time.Millisecond, time.Minute),
		failed:  map[string]attempt{}, begun: map[records.ID]attempt{},
	}
}

func (a *attempts) last(key string) attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failed[key]
}

func (a *attempts) made(key, content string, err error, now time.Time) attempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err == nil {
		a.backoff.Forget(key)
		delete(a.failed, key)
		return attempt{}
	}
	if a.failed[key].content != content {
		a.backoff.Forget(key)
	}
	made := attempt{content: content, err: err, retryAt: now.Add(a.backoff.When(key))}
	a.failed[key] = made
	return made
}

// digest returns a digest of the content of files.
func digest(files volume.Files) string {
	sum := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(sum, "%q %d\n", name, len(files[name].Data))
		sum.Write(files[name].Data)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}
