package acmeserver

import (
	"net/http"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/certplane/certplane/internal/api/rfc8555"
)

// Requests of an address that no account has signed: so many in a second, after so
// many at once. Of IPv6, a network of 64 bits is one address.
const (
	addressInterval = time.Second / 50
	addressBurst    = 200
	accountPeriod   = time.Hour
	keptAddresses   = 20000
	networkBits     = 64
)

// limits counts by address, in this process.
type limits struct {
	now func() time.Time
	// refused counts requests over a limit, by its name.
	refused *prometheus.CounterVec

	mu sync.Mutex
	// requests and accounts have, by address, the time at which all that was taken
	// is given back.
	requests, accounts *lru.Cache
}

func newLimits(now func() time.Time, refused *prometheus.CounterVec) *limits {
	return &limits{now: now, refused: refused, requests: lru.New(keptAddresses), accounts: lru.New(keptAddresses)}
}

// take counts one more event of an address, or none, and returns how long to wait
// before the next; zero if it is permitted. An event is given back each interval, and
// there can be burst of them.
func (l *limits) take(of *lru.Cache, address netip.Addr, interval time.Duration, burst int, count int) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	key, now := network(address), l.now()
	until := now
	if stored, ok := of.Get(key); ok && stored.(time.Time).After(now) {
		until = stored.(time.Time)
	}
	next := until.Add(time.Duration(count) * interval)
	if wait := until.Add(interval).Sub(now.Add(time.Duration(burst) * interval)); wait > 0 {
		return wait
	}
	if count > 0 {
		of.Add(key, next)
	}
	return 0
}

// network returns what addresses are counted by.
func network(address netip.Addr) netip.Prefix {
	if address.Is4() {
		return netip.PrefixFrom(address, address.BitLen())
	}
	prefix, _ := address.Prefix(networkBits)
	return prefix
}

// takeAddress counts a request without an account by the cost of its signature, and
// refuses it if the address is over its limit.
func (x *exchange) takeAddress() error { return x.limits.limitAddress(x.call, max(x.cost, 1)) }

// checkAddress refuses a request if there are too many, without counting it.
func (x *exchange) checkAddress() error { return x.limits.limitAddress(x.call, 0) }

func (l *limits) limitAddress(c *call, count int) error {
	if c.shared {
		return nil
	}
	wait := l.take(l.requests, c.address, addressInterval, addressBurst, count)
	if wait <= 0 {
		return nil
	}
	return l.limited(c.now, "requests", wait, "more than 50 requests in a second without an account have come from your address")
}

// limitNewAccounts returns the problem of an address with too many new accounts, nil if it
// is below the limit. It counts count further accounts; 0 only checks.
func (l *limits) limitNewAccounts(c *call, count int) *rfc8555.Problem {
	most := int(c.endpoint.Spec().Limits.AccountsPerAddressPerHour)
	if c.shared || most <= 0 {
		return nil
	}
	wait := l.take(l.accounts, c.address, accountPeriod/time.Duration(most), most, count)
	if wait <= 0 {
		return nil
	}
	return l.limited(c.now, "accountsPerAddressPerHour", wait, "more than %d accounts in an hour were made from your address (accountsPerAddressPerHour)", most)
}

func (l *limits) limited(now time.Time, limit string, wait time.Duration, format string, args ...any) *rfc8555.Problem {
	l.refused.WithLabelValues(limit).Inc()
	p := rfc8555.NewProblem(http.StatusTooManyRequests, rfc8555.ProblemRateLimited, format, args...)
	p.RetryAfter = now.Add(wait)
	return p
}
