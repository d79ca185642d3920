package fairshare

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func user(name string) Tenant { return Tenant{"user", name} }
func node(name string) Tenant { return Tenant{"node", name} }

// take takes a place, which must be free.
func take(t *testing.T, p *Places, tenant Tenant) (leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	leave, err := p.Take(ctx, tenant)
	if err != nil {
		t.Fatalf("%v gets no place: %v", tenant, err)
	}
	return leave
}

func refuse(t *testing.T, p *Places, tenant Tenant) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Take(ctx, tenant); !errors.Is(err, ErrTooLong) {
		t.Fatalf("%v gets a place: %v", tenant, err)
	}
}

func TestPlacesAreBounded(t *testing.T) {
	p := NewPlaces(3, 2)
	first := take(t, p, user("a"))
	take(t, p, user("a"))
	refuse(t, p, user("a")) // its own bound
	take(t, p, user("b"))
	refuse(t, p, user("c")) // that of all
	first()
	first() // a second call gives nothing back
	take(t, p, user("c"))
	refuse(t, p, user("d"))
}

func TestNoLimit(t *testing.T) {
	p := NewPlaces(0, 0)
	for range 1000 {
		take(t, p, user("a"))
	}
}

// The tenant that has least is served first, however long others have waited
// and however many they are.
func TestFreePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(4, 3)
		leave := []func(){take(t, p, node("n1")), take(t, p, node("n1")), take(t, p, node("n2")), take(t, p, user("a"))}
		var mu sync.Mutex
		var order []Tenant
		for _, tenant := range []Tenant{node("n1"), node("n1"), node("n3"), user("a"), user("b"), node("n4")} {
			go func() {
				leave, err := p.Take(t.Context(), tenant)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				order = append(order, tenant)
				mu.Unlock()
				time.Sleep(time.Hour)
				leave()
			}()
			synctest.Wait()
		}
		want := []Tenant{
			user("b"),  // users have one place, nodes two; b has none
			node("n1"), // users have two, nodes one; n1 has none left and came first
			node("n3"), // has none, n1 one
			user("a"),  // users have one, nodes two
		}
		leave[0]()
		synctest.Wait()
		for _, end := range leave[1:] {
			end()
			synctest.Wait()
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if len(order) != 6 || !slices.Equal(order[:len(want)], want) {
			t.Errorf("served %v, want first %v", order, want)
		}
		if len(p.tenants)+len(p.waiting)+len(p.classes) != 0 || p.inUse != 0 {
			t.Errorf("left behind: %v %v %v", p.tenants, p.waiting, p.classes)
		}
	})
}

// A caller that stops waiting takes no place.
func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPlaces(1, 0)
		leave := take(t, p, user("a"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := p.Take(ctx, user("b")); !errors.Is(err, ErrTooLong) {
			t.Fatal(err)
		}
		leave()
		take(t, p, user("c"))
	})
}

func TestBudget(t *testing.T) {
	b := NewBudget(100, 60, 10)
	steps := []struct {
		tenant Tenant
		n      int64
		want   bool
		reason string
	}{
		{user("a"), 60, true, "within its bound"},
		{user("a"), 1, false, "over its bound"},
		{user("b"), 40, true, "within the total"},
		{user("c"), 10, true, "guaranteed, although the total is taken"},
		{user("c"), 1, false, "more than is guaranteed"},
		{node("c"), 10, true, "another tenant of the same name"},
	}
	for _, step := range steps {
		if got := b.Take(step.tenant, step.n); got != step.want {
			t.Errorf("%v takes %d: %t; %s", step.tenant, step.n, got, step.reason)
		}
	}
	b.Give(user("a"), 60)
	if !b.Take(user("c"), 20) {
		t.Error("what was given back cannot be taken")
	}
	b.Give(user("b"), 40)
	b.Give(user("c"), 30)
	b.Give(node("c"), 10)
	if len(b.held) != 0 || b.used != 0 {
		t.Errorf("left behind: %v", b.held)
	}
}
