package apiserver

import (
	"fmt"
	"math"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/certplane/certplane/internal/connections"
	"github.com/certplane/certplane/internal/share"
)

// LimitsConfig is the stanza "api.limits". A tenant is a user, a node, a
// bootstrap token, a namespace with all of its service accounts, or everybody
// without credentials. Members of system:masters and the server's own
// controllers are not limited, and neither are /livez, /readyz, /healthz and
// /version. A request too many is answered 429 with a Retry-After header, and
// clients come again.
type LimitsConfig struct {
	// maxReading is how many requests that only read are worked on at the same
	// time. Others wait, for 10s at most: a place that becomes free goes to the
	// tenant that has the fewest. A request takes a place when its body is there
	// and gives it back when its answer begins, so that slow clients hold none.
	// Watches do not count. 0 is no limit. Default: 400.
	MaxReading int `json:"maxReading"`
	// maxWriting is the same for requests that may change something, which
	// count on their own. Default: 400.
	MaxWriting int `json:"maxWriting"`
	// maxPerTenant is how many of the places for reading, and how many of those
	// for writing, one tenant has at the same time; its other requests wait. A
	// tenant is a user, a node, a bootstrap token, a namespace with all of its
	// service accounts, or everybody without credentials. Members of
	// system:masters and the server's own controllers are not limited.
	// 0 is no limit. Default: 50.
	MaxPerTenant int `json:"maxPerTenant"`
	// maxOpenPerTenant is how many requests of a tenant are under way at the same
	// time: those that arrive, wait, are worked on or are being answered. Watches
	// do not count. 0 is no limit. Default: 400.
	MaxOpenPerTenant int `json:"maxOpenPerTenant"`
	// maxWatchesPerTenant is how many watches a tenant has at the same time. Each
	// one costs about 50 KiB of memory. 0 is no limit. Default: 1000.
	MaxWatchesPerTenant int `json:"maxWatchesPerTenant"`
	// maxBodyMiB bounds the bodies of all requests under way, in MiB. While it is
	// taken, each tenant still has 256 KiB of its own. 0 is no limit.
	// Default: 256.
	MaxBodyMiB int `json:"maxBodyMiB"`
	// maxBodyMiBPerTenant is the same for one tenant. 0 is no limit. Default: 64.
	MaxBodyMiBPerTenant int `json:"maxBodyMiBPerTenant"`
	// maxAnswerMiB bounds the memory for answers that are encoded as a whole, in
	// MiB: YAML, JSON with line breaks (pretty), tables; and for lists that are read
	// from the store, such as those of Secrets. Other lists are sent object by object
	// and do not count. While it is taken, each tenant still has 1 MiB of its own.
	// 0 is no limit. Default: 256.
	MaxAnswerMiB int `json:"maxAnswerMiB"`
	// maxAnswerMiBPerTenant is the same for one tenant. A list that would take more
	// is refused: clients ask for it in parts (limit). 0 is no limit. Default: 128.
	MaxAnswerMiBPerTenant int `json:"maxAnswerMiBPerTenant"`
	// bodyTimeout is within what time the body of a request must be there; each
	// 16 KiB that arrive give a second more. A slower one is answered 408. A
	// duration such as 10s. Default: 10s.
	BodyTimeout metav1.Duration `json:"bodyTimeout"`
	// maxConnections is how many connections are open at the same time. One more
	// closes the oldest one of the tenant that has the most (of system:masters, only
	// if they have more than seven eighths of all); until its first
	// request is allowed, a connection counts for the address it comes from.
	// Three quarters of the files that the process may have open (ulimit -n) are
	// the most there can be. 0 is no limit besides. Default: 10000.
	MaxConnections int `json:"maxConnections"`
	// maxConnectionsPerTenant is how many connections one tenant has, or one
	// address; one more closes its oldest. Set it higher behind a load balancer
	// that hides the addresses of thousands of clients. 0 is no limit.
	// Default: 1000.
	MaxConnectionsPerTenant int `json:"maxConnectionsPerTenant"`
	// requestTimeout ends a request that takes longer, with the answer 504;
	// clients can ask for less. Watches do not count. The connection or stream of
	// a client that takes nothing of its answer for 10s ends earlier, and so does
	// that of a watch. A duration such as 60s. Default: 60s.
	RequestTimeout metav1.Duration `json:"requestTimeout"`
}

func defaultLimits() LimitsConfig {
	return LimitsConfig{
		MaxReading: 400, MaxWriting: 400, MaxPerTenant: 50, MaxOpenPerTenant: 400, MaxWatchesPerTenant: 1000,
		MaxBodyMiB: 256, MaxBodyMiBPerTenant: 64, MaxAnswerMiB: 256, MaxAnswerMiBPerTenant: 128, BodyTimeout: metav1.Duration{Duration: 10 * time.Second},
		MaxConnections: 10_000, MaxConnectionsPerTenant: 1000,
		RequestTimeout: metav1.Duration{Duration: time.Minute},
	}
}

func (c LimitsConfig) validate() error {
	for _, limit := range []struct {
		field string
		value int
	}{
		{"maxReading", c.MaxReading}, {"maxWriting", c.MaxWriting}, {"maxPerTenant", c.MaxPerTenant},
		{"maxOpenPerTenant", c.MaxOpenPerTenant}, {"maxWatchesPerTenant", c.MaxWatchesPerTenant},
		{"maxBodyMiB", c.MaxBodyMiB}, {"maxBodyMiBPerTenant", c.MaxBodyMiBPerTenant},
		{"maxAnswerMiB", c.MaxAnswerMiB}, {"maxAnswerMiBPerTenant", c.MaxAnswerMiBPerTenant},
		{"maxConnections", c.MaxConnections}, {"maxConnectionsPerTenant", c.MaxConnectionsPerTenant},
	} {
		if limit.value < 0 {
			return fmt.Errorf("api.limits.%s: %d must not be negative", limit.field, limit.value)
		}
		if limit.value > math.MaxInt32 {
			return fmt.Errorf("api.limits.%s: %d is too large; 0 is no limit", limit.field, limit.value)
		}
	}
	for _, limit := range []struct {
		field string
		value time.Duration
	}{{"requestTimeout", c.RequestTimeout.Duration}, {"bodyTimeout", c.BodyTimeout.Duration}} {
		if limit.value < time.Second {
			return fmt.Errorf("api.limits.%s: %s is too short: must be at least 1s", limit.field, limit.value)
		}
	}
	return nil
}

// unlimited is more than can occur: the library's filter counts requests for
// its metrics, and does not know their tenants.
const unlimited = 1 << 20

func (c LimitsConfig) applyTo(generic *genericapiserver.Config, console *Console) error {
	metrics, err := newLimitMetrics(legacyregistry.Registerer())
	if err != nil {
		return fmt.Errorf("registering the metrics of limits: %w", err)
	}
	l := newLimiter(c, generic, metrics)
	generic.SecureServing.Listener = l.connections
	generic.MaxRequestsInFlight, generic.MaxMutatingRequestsInFlight = unlimited, unlimited
	generic.RequestTimeout = c.RequestTimeout.Duration
	generic.BuildHandlerChainFunc = func(handler http.Handler, config *genericapiserver.Config) http.Handler {
		return l.withDeadlines(console.wrap(genericapiserver.DefaultBuildHandlerChain(l.withShares(handler), config)))
	}
	return nil
}

// limiter has the state that all requests share.
type limiter struct {
	cfg              LimitsConfig
	generic          *genericapiserver.Config
	reading, writing *share.Places
	open             *share.Budget // requests
	watches          *share.Budget
	bodies           *share.Budget // bytes
	answers          *share.Budget // bytes
	storeLists       *share.Places
	connections      *connections.Listener
	metrics          *limitMetrics
	events           gate // of watches
}

func newLimiter(c LimitsConfig, generic *genericapiserver.Config, metrics *limitMetrics) *limiter {
	return &limiter{
		cfg:        c,
		generic:    generic,
		reading:    share.NewPlaces(c.MaxReading, c.MaxPerTenant),
		writing:    share.NewPlaces(c.MaxWriting, c.MaxPerTenant),
		open:       share.NewBudget(0, int64(c.MaxOpenPerTenant), 0),
		watches:    share.NewBudget(0, int64(c.MaxWatchesPerTenant), 0),
		bodies:     share.NewBudget(int64(c.MaxBodyMiB)<<20, int64(c.MaxBodyMiBPerTenant)<<20, guaranteedBody),
		answers:    share.NewBudget(int64(c.MaxAnswerMiB)<<20, int64(c.MaxAnswerMiBPerTenant)<<20, guaranteedAnswer),
		storeLists: share.NewPlaces(maxStoreLists, maxStoreListsPerTenant),
		connections: connections.Listen(generic.SecureServing.Listener, connections.Config{
			Max:          maxConnections(c.MaxConnections),
			MaxPerHolder: c.MaxConnectionsPerTenant,
			Stall:        connectionStall,
			Closed:       func(h connections.Holder) { metrics.closed.WithLabelValues(h.Class).Inc() },
		}),
		metrics: metrics,
	}
}

// maxConnections leaves file descriptors for the store, which has to stop if it
// cannot open files.
func maxConnections(wanted int) int {
	files, known := maxOpenFiles()
	if !known {
		return wanted
	}
	if most := int(min(files, math.MaxInt32) / 4 * 3); wanted == 0 || most < wanted {
		return most
	}
	return wanted
}
