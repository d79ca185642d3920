package acme

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/certplane/certplane/internal/api/rfc8555"
	"github.com/certplane/certplane/internal/process/duration"
)

// maxBuckets is the maximum number of budgets and orders in memory for an account. A scope
// without an entry has its full budget: the CA is asked, and applies its own limits.
const maxBuckets = 10_000

// budgets delay requests before the CA refuses them. They are for one account, are not
// stored, and begin full. limits.mu guards them.
type budgets struct {
	settings ClientSettings
	on       bool // the CA is one of those that the settings are for
	orders   bucket
	by       map[scope]*bucket
	// placed maps the URLs of orders with an unknown outcome to the budgets that they
	// count against; failed are the authorizations whose failures were counted.
	placed map[string][]scope
	failed map[string]bool
}

func newBudgets(s ClientSettings, host string) budgets {
	b := budgets{settings: s, on: slices.Contains(s.BudgetHosts, strings.ToLower(host))}
	if b.on {
		b.orders = bucket{size: s.NewOrders, period: s.NewOrdersPeriod.Duration}
		b.by, b.placed, b.failed = map[scope]*bucket{}, map[string][]scope{}, map[string]bool{}
	}
	return b
}

// sizeOf returns the budget of a class and the name of its setting.
func (b *budgets) sizeOf(class limitClass) (size int, period time.Duration, setting string) {
	s := b.settings
	switch class {
	case limitNewOrder:
		return s.NewOrders, s.NewOrdersPeriod.Duration, "acme.newOrders"
	case limitDomain:
		return s.CertificatesPerDomain, s.CertificatesPeriod.Duration, "acme.certificatesPerDomain"
	case limitSet:
		return s.CertificatesPerSet, s.CertificatesPeriod.Duration, "acme.certificatesPerSet"
	case limitIdentifier:
		return s.FailedAuthorizations, s.FailedAuthorizationsPeriod.Duration, "acme.failedAuthorizations"
	}
	return 0, 0, ""
}

// scopesOf returns what the certificate of an order counts against, the set of its
// names first. A set of
// names that this account has ordered before does not count against its domains:
// so does Let's Encrypt treat renewals.
func (b *budgets) scopesOf(m message) []scope {
	set := scope{limitSet, setOf(m)}
	if known, ok := b.by[set]; ok && known.used > 0 {
		return []scope{set}
	}
	all := []scope{set}
	for _, name := range m.names {
		if domain := registeredDomain(name); domain != "" && !slices.Contains(all, scope{limitDomain, domain}) {
			all = append(all, scope{limitDomain, domain})
		}
	}
	return all
}

// registeredDomain returns the domain below a public suffix that a name belongs
// to; "" for addresses and public suffixes.
func registeredDomain(name string) string {
	if net.ParseIP(name) != nil {
		return ""
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(base(name))
	if err != nil {
		return ""
	}
	return domain
}

// take counts a new order. It returns the budget that holds it back, if one does,
// and counts nothing then.
func (b *budgets) take(m message, now time.Time) *LimitedError {
	if !b.on {
		return nil
	}
	scopes := b.scopesOf(m)
	worst, wait := scope{}, time.Duration(0)
	consider := func(s scope, w time.Duration) {
		if w > wait {
			worst, wait = s, w
		}
	}
	for _, name := range m.names {
		s := scope{limitIdentifier, base(name)}
		if known, ok := b.by[s]; ok {
			consider(s, known.wait(now))
		}
	}
	for _, s := range scopes {
		if known, ok := b.by[s]; ok {
			consider(s, known.wait(now))
		}
	}
	consider(scope{class: limitNewOrder}, b.orders.wait(now))
	if wait > 0 {
		return b.error(worst, now.Add(wait))
	}
	b.orders.take(now)
	for _, s := range scopes {
		if known := b.bucket(s, now); known != nil {
			known.take(now)
		}
	}
	if set, ok := b.by[scopes[0]]; ok {
		set.domains = scopes[1:]
	}
	return nil
}

func (b *budgets) error(s scope, until time.Time) *LimitedError {
	size, period, setting := b.sizeOf(s.class)
	return &LimitedError{Until: until, Limit: string(s.class), Detail: fmt.Sprintf("the configuration allows %d%s in %s (%s)", size, s.about(), duration.Format(period), setting)}
}

// about names what a budget is for.
func (s scope) about() string {
	switch s.class {
	case limitDomain, limitIdentifier:
		return " for " + s.name
	case limitSet:
		return " for exactly these names"
	}
	return ""
}

// bucket returns a budget; nil if there is none.
func (b *budgets) bucket(s scope, now time.Time) *bucket {
	if known, ok := b.by[s]; ok {
		return known
	}
	size, period, _ := b.sizeOf(s.class)
	if size == 0 {
		return nil
	}
	if len(b.by) >= maxBuckets {
		b.dropFull(now)
	}
	if len(b.by) >= maxBuckets {
		return nil
	}
	b.by[s] = &bucket{size: size, period: period}
	return b.by[s]
}

// dropFull removes the unused budgets.
func (b *budgets) dropFull(now time.Time) {
	for s, known := range b.by {
		if known.refill(now); known.used == 0 {
			delete(b.by, s)
		}
	}
}

// placedOrder remembers what an order was counted against.
func (b *budgets) placedOrder(url string, m message) {
	switch _, again := b.placed[url]; {
	case !b.on || len(b.placed) >= maxBuckets:
	case again: // CAs answer with an order that they have for the same names
		b.refused(m)
	default:
		b.placed[url] = b.counted(m)
	}
}

// counted returns what the latest order for a set of names was counted against.
func (b *budgets) counted(m message) []scope {
	set := scope{limitSet, setOf(m)}
	if known, ok := b.by[set]; ok {
		return append([]scope{set}, known.domains...)
	}
	return nil
}

// refused gives back what a new order was counted against that the CA has
// refused.
func (b *budgets) refused(m message) { b.giveBack(b.counted(m)) }

func (b *budgets) giveBack(scopes []scope) {
	for _, s := range scopes {
		if known, ok := b.by[s]; ok {
			known.used = max(0, known.used-1)
		}
	}
}

// ended gives back what an order was counted against that has failed: CAs count
// certificates.
func (b *budgets) ended(url, status string) {
	scopes, ok := b.placed[url]
	switch {
	case !ok, status != rfc8555.StateValid && status != rfc8555.StateInvalid && status != rfc8555.StateExpired:
		return
	case status != rfc8555.StateValid:
		b.giveBack(scopes)
	}
	delete(b.placed, url)
}

// authorized counts an authorization that has failed, once.
func (b *budgets) authorized(a rfc8555.Authorization, now time.Time) {
	if !b.on || a.Status != rfc8555.StateInvalid || b.failed[a.URL] {
		return
	}
	if len(b.failed) >= maxBuckets {
		clear(b.failed)
	}
	b.failed[a.URL] = true
	if known := b.bucket(scope{limitIdentifier, strings.ToLower(a.Identifier.Value)}, now); known != nil {
		known.take(now)
	}
}

// near is how much of the budget for a set of names is left when users are warned.
const near = 1

// nearLimit describes a budget that an order has nearly used up; "" if there is
// none.
func (b *budgets) nearLimit(m message, now time.Time) string {
	known, ok := b.by[scope{limitSet, setOf(m)}]
	if !ok {
		return ""
	}
	known.refill(now)
	left := known.size - int(known.used+0.999)
	if left > near {
		return ""
	}
	return fmt.Sprintf("The CA issues %d certificates for exactly these names in %s, and %d more can be ordered now; "+
		"renewals that name the certificate they replace do not count", known.size, duration.Format(known.period), max(0, left))
}

// bucket is a token bucket that starts full. Its zero value has no limit.
type bucket struct {
	size   int
	period time.Duration

	used float64
	at   time.Time
	// domains are the further budgets that the latest order for this set of names counts
	// against.
	domains []scope
}

func (b *bucket) rate() float64 { return float64(b.size) / float64(b.period) }

// refill gives back what time has given back.
func (b *bucket) refill(now time.Time) {
	if b.size == 0 {
		return
	}
	if passed := now.Sub(b.at); passed > 0 {
		b.used = max(0, b.used-float64(min(passed, b.period))*b.rate())
		b.at = now
	}
}

// wait returns when there will be a token; 0 if there is one.
func (b *bucket) wait(now time.Time) time.Duration {
	if b.size == 0 {
		return 0
	}
	b.refill(now)
	if b.used+1 > float64(b.size) {
		return max(time.Second, time.Duration((b.used+1-float64(b.size))/b.rate()))
	}
	return 0
}

// take takes a token. If none is left, it returns the wait until the next one.
func (b *bucket) take(now time.Time) (wait time.Duration) {
	if wait = b.wait(now); wait == 0 && b.size > 0 {
		b.used++
	}
	return wait
}
