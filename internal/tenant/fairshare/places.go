package fairshare

import (
	"context"
	"errors"
	"sync"
)

// ErrTooLong reports that no place became free while a tenant was willing to
// wait.
var ErrTooLong = errors.New("no place became free in time")

// Places limit how much work is done at the same time. A tenant that requests
// more places than are free waits. A place that becomes free goes to the class
// with the fewest places, there to the tenant with the fewest, and there to the
// first that came. It is safe for concurrent use.
type Places struct {
	total, perTenant int

	mu      sync.Mutex
	inUse   int
	classes map[string]int // places in use
	tenants map[Tenant]*line
	waiting map[Tenant]*line // the lines with waiting callers
	arrived uint64           // counts the callers that have waited
}

// line is the number of places that one tenant has, and its waiting callers.
type line struct {
	inUse   int
	waiting []*waiter // in the order of their arrival
}

type waiter struct {
	arrival uint64
	granted chan struct{} // closed when there is a place
}

// NewPlaces returns total places. One tenant may have at most perTenant of them; 0 means no
// limit.
func NewPlaces(total, perTenant int) *Places {
	return &Places{
		total: total, perTenant: perTenant,
		classes: map[string]int{}, tenants: map[Tenant]*line{}, waiting: map[Tenant]*line{},
	}
}

// Take returns when tenant has got a place; leave gives it back and may be
// called more than once. Take fails with ErrTooLong when ctx ends before that.
func (p *Places) Take(ctx context.Context, tenant Tenant) (leave func(), err error) {
	p.mu.Lock()
	l := p.tenants[tenant]
	if l == nil {
		l = &line{}
		p.tenants[tenant] = l
	}
	leave = sync.OnceFunc(func() { p.give(tenant) })
	if p.mayHave(l) {
		p.occupy(tenant, l)
		p.mu.Unlock()
		return leave, nil
	}
	p.arrived++
	w := &waiter{arrival: p.arrived, granted: make(chan struct{})}
	l.waiting = append(l.waiting, w)
	p.waiting[tenant] = l
	p.mu.Unlock()

	select {
	case <-w.granted:
		return leave, nil
	case <-ctx.Done():
	}
	if p.withdraw(tenant, l, w) {
		return nil, ErrTooLong
	}
	return leave, nil // granted in the same moment
}

// mayHave reports whether the tenant of l can have one more place now.
func (p *Places) mayHave(l *line) bool {
	return (p.total == 0 || p.inUse < p.total) && (p.perTenant == 0 || l.inUse < p.perTenant)
}

func (p *Places) occupy(tenant Tenant, l *line) {
	p.inUse++
	p.classes[tenant.Class]++
	l.inUse++
}

func (p *Places) give(tenant Tenant) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.tenants[tenant]
	p.inUse--
	l.inUse--
	if p.classes[tenant.Class]--; p.classes[tenant.Class] == 0 {
		delete(p.classes, tenant.Class)
	}
	p.forget(tenant, l)
	next, found := p.next()
	if !found {
		return
	}
	l = p.tenants[next]
	p.occupy(next, l)
	close(l.waiting[0].granted)
	l.waiting = l.waiting[1:]
	if len(l.waiting) == 0 {
		delete(p.waiting, next)
	}
}

// next returns the tenant that gets the place that has become free.
func (p *Places) next() (best Tenant, found bool) {
	var line *line
	for tenant, l := range p.waiting {
		if p.mayHave(l) && (!found || p.before(tenant, l, best, line)) {
			best, line, found = tenant, l, true
		}
	}
	return best, found
}

func (p *Places) before(a Tenant, la *line, b Tenant, lb *line) bool {
	if x, y := p.classes[a.Class], p.classes[b.Class]; x != y {
		return x < y
	}
	if la.inUse != lb.inUse {
		return la.inUse < lb.inUse
	}
	return la.waiting[0].arrival < lb.waiting[0].arrival
}

// withdraw removes w from its line, and reports whether it was still in it.
func (p *Places) withdraw(tenant Tenant, l *line, w *waiter) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, other := range l.waiting {
		if other != w {
			continue
		}
		l.waiting = append(l.waiting[:i:i], l.waiting[i+1:]...)
		if len(l.waiting) == 0 {
			delete(p.waiting, tenant)
		}
		p.forget(tenant, l)
		return true
	}
	return false
}

// forget removes a tenant that has no places and does not wait for any.
func (p *Places) forget(tenant Tenant, l *line) {
	if l.inUse == 0 && len(l.waiting) == 0 {
		delete(p.tenants, tenant)
	}
}
