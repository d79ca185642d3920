package hostile

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// maxMemory is the limit for the server's memory during an attack, in MiB.
const maxMemory = 1500

// longEnv has the tests make floods, too: "make hostile".
const longEnv = "CERTPLANE_HOSTILE_LONG"

// While an attack is under way, all other clients are served.
func TestAttacks(t *testing.T) {
	w, attacks := start(t), slices.Concat(acmeAttacks, fills, attacks)
	t.Run("nobody attacks", func(t *testing.T) { w.observe(t, w.observers(t)) })
	if os.Getenv(longEnv) != "" {
		attacks = slices.Concat(floods, attacks)
	}
	for _, attack := range attacks {
		for _, who := range attack.by {
			t.Run(attack.name+" by "+who, func(t *testing.T) { w.withstand(t, attack, who) })
		}
	}
	t.Run("after the attacks", func(t *testing.T) { w.observe(t, w.observers(t)) })
}

func (w *world) withstand(t *testing.T, attack attack, who string) {
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	counts, armed, ended := &tally{}, make(chan struct{}), make(chan error, 1)
	go func() { ended <- attack.run(ctx, w, w.attackers[who], counts, sync.OnceFunc(func() { close(armed) })) }()
	select {
	case <-armed:
	case err := <-ended:
		t.Fatalf("the attack ended before it was one: %v, %s", err, counts)
	case <-time.After(patience):
		t.Fatalf("the attack has not begun: %s", counts)
	}
	w.observe(t, w.observers(t))
	memory := w.memory()
	stop()
	if err := <-ended; err != nil && ctx.Err() == nil {
		t.Errorf("the attack: %v", err)
	}
	t.Logf("the attacker got %s; the server has %d MiB", counts, memory)
	if memory > maxMemory {
		t.Errorf("the attack makes the server take %d MiB, want at most %d", memory, maxMemory)
	}
}

// tally counts the answers to an attacker.
type tally struct {
	mu     sync.Mutex
	counts map[string]int
}

func (t *tally) add(what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.counts == nil {
		t.counts = map[string]int{}
	}
	t.counts[what]++
}

func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(t.counts)) {
		parts = append(parts, fmt.Sprintf("%d x %s", t.counts[what], what))
	}
	return strings.Join(parts, ", ")
}

// However many connections administrators have, health checks and users are served.
func TestConnectionsOfAdministrators(t *testing.T) {
	w := start(t)
	admin := w.Admin(t)
	admin.Dial = elsewhere
	ctx, stop := context.WithCancel(t.Context())
	counts, armed, ended := &tally{}, make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- hold(request{path: requestsPath + "?watch=true", unanswered: 16}, 400, 1)(ctx, w, admin, counts, func() { close(armed) })
	}()
	select {
	case <-armed:
	case <-time.After(patience):
		t.Fatalf("the connections are not there: %s", counts)
	}
	w.observe(t, slices.DeleteFunc(w.observers(t), func(o *observer) bool {
		return !slices.Contains([]string{"livez", "readyz", "version", "a user reads", "a user writes"}, o.name)
	}))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("the administrator got %s", counts)
}
