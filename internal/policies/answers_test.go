package policies

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/policy/certpolicy"
	"github.com/certplane/certplane/internal/policy/request"
)

// Answers are kept as long as they may be, for those who have asked and what they
// have asked, and not after roles have changed.
func TestAnswers(t *testing.T) {
	time0 := clocktesting.NewFakePassiveClock(began)
	asked, allowed, err := 0, true, error(nil)
	during := func() {}
	kept := newAnswers(func(context.Context, request.Requester, certpolicy.Access) (bool, error) {
		asked++
		during()
		return allowed, err
	}, time0)
	alice := request.Requester{Username: "alice", Groups: []string{"web"}, Extra: map[string][]string{"a": {"b"}, "c": {"d"}}}
	use := certpolicy.Access{Verb: "use", Group: "certplane.dev", Resource: "certificatepolicies", Name: "web", Namespace: "shop"}
	want := func(what string, who request.Requester, about certpolicy.Access, yes bool, questions int) {
		t.Helper()
		got, gotErr := kept.ask(t.Context(), who, about)
		if got != yes || !errors.Is(gotErr, err) || asked != questions {
			t.Errorf("%s: %v, %v, %d questions; want %v and %d", what, got, gotErr, asked, yes, questions)
		}
	}
	want("first", alice, use, true, 1)
	time0.SetTime(began.Add(keepYes - 1))
	want("a yes is kept", alice, use, true, 1)
	other := alice
	other.Groups = nil
	want("other groups", other, use, true, 2)
	elsewhere := use
	elsewhere.Namespace = "bank"
	want("another namespace", alice, elsewhere, true, 3)
	time0.SetTime(began.Add(keepYes))
	allowed = false
	want("a yes ends", alice, use, false, 4)
	time0.SetTime(began.Add(keepYes + keepNo - 1))
	allowed = true
	want("a no is kept", alice, use, false, 4)
	time0.SetTime(began.Add(keepYes + keepNo))
	want("a no ends", alice, use, true, 5)
	kept.forget()
	allowed = false
	want("roles have changed", alice, use, false, 6)
	during, allowed = kept.forget, true
	time0.SetTime(began.Add(time.Hour))
	want("roles change meanwhile", alice, use, true, 7)
	during = func() {}
	want("what was answered meanwhile is not used", alice, use, true, 8)
	err, allowed = errors.New("no answer"), false
	kept.forget()
	want("an error", alice, use, false, 9)
	err = nil
	want("an error is not kept", alice, use, false, 10)
	for i := range 2 * keptAnswers {
		want("many", request.Requester{Username: fmt.Sprint("user-", i)}, use, false, 11+i)
	}
	if n := kept.kept.Len(); n != keptAnswers {
		t.Errorf("%d answers are kept", n)
	}
	(*answers)(nil).forget()
}
