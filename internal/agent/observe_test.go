package agent

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/certplane/certplane/internal/agent/status"
)

// A problem that changes each time is logged a few times, then once a minute, and at last as
// it ends. Other problems are logged meanwhile.
func TestLogIsLimited(t *testing.T) {
	var text strings.Builder
	ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&text))))
	clock := testingclock.NewFakeClock(time.Now())
	a := &agent{clock: clock, board: status.NewBoard(filepath.Join(t.TempDir(), "status.json"), status.Host{}), logged: map[string]*loggedProblem{}}
	put := func(name, problem string) {
		a.board.Put(status.Pod{Namespace: "shop", Name: name, Error: problem})
		a.log(ctx)
	}
	for i := range 600 { // ten minutes
		problem := fmt.Sprintf("attempt %d failed", i)
		if i%2 == 1 {
			problem = ""
		}
		put("web", problem)
		clock.Step(time.Second)
	}
	if n := strings.Count(text.String(), "Problem found"); n < 5 || n > 15 {
		t.Errorf("a problem that comes and goes is logged %d times in ten minutes", n)
	}
	put("db", "broken")
	if n := strings.Count(text.String(), `"Problem found" problem="shop/db: broken"`); n != 1 {
		t.Errorf("another problem is logged %d times, want once", n)
	}
	put("web", "")
	put("db", "")
	for range 600 {
		a.log(ctx)
		clock.Step(time.Second)
	}
	if found, resolved := strings.Count(text.String(), "Problem found"), strings.Count(text.String(), "Problem resolved"); found != resolved {
		t.Errorf("%d problems are found, and %d resolved", found, resolved)
	}
	if len(a.logged) != 0 {
		t.Errorf("what is long over is kept: %v", a.logged)
	}
}
