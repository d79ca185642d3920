package apiserver

import (
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/certplane/certplane/internal/tenant/connections"
	"github.com/certplane/certplane/internal/tenant/fairshare"
)

// LimitsConfig is the stanza "api.limits". A tenant is a user, a node, a
// bootstrap token, a namespace with all of its service accounts, or all clients
// without credentials together. Members of system:masters and the server's own
// controllers are not limited, and neither are /livez, /readyz, /healthz and
// /version. A request over a limit is answered 429 with a Retry-After header;
// clients then try again.
type LimitsConfig struct {
	// maxReading is the maximum number of read requests that are processed at the
	// same time. Others wait for at most 10s; a free place goes to the tenant
	// with the fewest places. A request takes a place when its body has arrived
	// and frees it when its answer begins, so that slow clients hold no places.
	// Watches do not count. 0 means no limit. Default: 400.
	MaxReading int `json:"maxReading"`
	// maxWriting is the same for requests that may change something, which are
	// counted separately. Default: 400.
	MaxWriting int `json:"maxWriting"`
	// maxPerTenant is the maximum number of places for reading that one tenant
	// has at the same time, and likewise of places for writing; its other
	// requests wait. A tenant is a user, a node, a bootstrap token, a namespace
	// with all of its service accounts, or all clients without credentials
	// together. Members of system:masters and the server's own controllers are
	// not limited. 0 means no limit. Default: 50.
	MaxPerTenant int `json:"maxPerTenant"`
	// maxOpenPerTenant is the maximum number of requests of a tenant under way at
	// the same time: those that arrive, wait, are processed or are being
	// answered. Watches do not count. 0 means no limit. Default: 400.
	MaxOpenPerTenant int `json:"maxOpenPerTenant"`
	// maxWatchesPerTenant is the maximum number of watches of a tenant at the
	// same time. Each takes about 50 KiB of memory. 0 means no limit. Default:
	// 1000.
	MaxWatchesPerTenant int `json:"maxWatchesPerTenant"`
	// maxBodyMiB bounds the bodies of all requests under way, in MiB. When the
	// limit is reached, each tenant can still use 256 KiB. 0 means no limit.
	// Default: 256.
	MaxBodyMiB int `json:"maxBodyMiB"`
	// maxBodyMiBPerTenant is the same for one tenant. 0 means no limit. Default:
	// 64.
	MaxBodyMiBPerTenant int `json:"maxBodyMiBPerTenant"`
	// maxAnswerMiB bounds the memory, in MiB, for answers that are encoded as a
	// whole (YAML, pretty JSON and tables) and for lists that are read from the
	// store, such as lists of Secrets. Other lists are sent object by object and
	// do not count. When the limit is reached, each tenant can still use 1 MiB.
	// 0 means no limit. Default: 256.
	MaxAnswerMiB int `json:"maxAnswerMiB"`
	// maxAnswerMiBPerTenant is the same for one tenant. A list that would take
	// more is refused; clients can request it in parts (limit). 0 means no limit.
	// Default: 128.
	MaxAnswerMiBPerTenant int `json:"maxAnswerMiBPerTenant"`
	// bodyTimeout is the time in which the body of a request must arrive; each 16
	// KiB that arrive extend it by one second. A slower request is answered 408.
	// A duration such as 10s. Default: 10s.
	BodyTimeout metav1.Duration `json:"bodyTimeout"`
	// maxConnections is the maximum number of open connections. One more closes
	// the oldest connection of the tenant with the most (of system:masters, only
	// if they have more than seven eighths of all). Until its first request is
	// allowed, a connection counts for its client's address. Three quarters of
	// the process's limit of open files (ulimit -n) apply in any case. 0 means no
	// other limit. Default: 10000.
	MaxConnections int `json:"maxConnections"`
	// maxConnectionsPerTenant is the maximum number of connections of one tenant,
	// or of one address; one more closes its oldest. Set it higher behind a load
	// balancer that hides the addresses of thousands of clients. 0 means no
	// limit. Default: 1000.
	MaxConnectionsPerTenant int `json:"maxConnectionsPerTenant"`
	// requestTimeout ends a request that takes longer, with the answer 504.
	// Clients can ask for less. Watches do not count. A connection or stream,
	// including that of a watch, ends earlier if its client reads nothing of the
	// answer for 10s. A duration such as 60s. Default: 60s.
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
			return fmt.Errorf("api.limits.%s: %d is too large; use 0 for no limit", limit.field, limit.value)
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

// unlimited is larger than any possible count: the library's filter counts
// requests for its metrics, without regard to their tenants. It takes four times as many
// bytes.
const unlimited = 1 << 17

func (c LimitsConfig) applyTo(generic *genericapiserver.Config) (*limiter, error) {
	metrics, err := newLimitMetrics(legacyregistry.Registerer())
	if err != nil {
		return nil, fmt.Errorf("registering the metrics of limits: %w", err)
	}
	l := newLimiter(c, generic, metrics)
	generic.SecureServing.Listener = l.connections
	generic.MaxRequestsInFlight, generic.MaxMutatingRequestsInFlight = unlimited, unlimited
	generic.RequestTimeout = c.RequestTimeout.Duration
	generic.LongRunningFunc = orOwnCall(generic.LongRunningFunc)
	return l, nil
}

// limiter has the state that all requests share.
type limiter struct {
	cfg              LimitsConfig
	generic          *genericapiserver.Config
	reading, writing *fairshare.Places
	open             *fairshare.Budget // requests
	watches          *fairshare.Budget
	bodies           *fairshare.Budget // bytes
	answers          *fairshare.Budget // bytes
	storeLists       *fairshare.Places
	connections      *connections.Listener
	metrics          *limitMetrics
	events           gate // of watches
}

func newLimiter(c LimitsConfig, generic *genericapiserver.Config, metrics *limitMetrics) *limiter {
	return &limiter{
		cfg:        c,
		generic:    generic,
		reading:    fairshare.NewPlaces(c.MaxReading, c.MaxPerTenant),
		writing:    fairshare.NewPlaces(c.MaxWriting, c.MaxPerTenant),
		open:       fairshare.NewBudget(0, int64(c.MaxOpenPerTenant), 0),
		watches:    fairshare.NewBudget(0, int64(c.MaxWatchesPerTenant), 0),
		bodies:     fairshare.NewBudget(int64(c.MaxBodyMiB)<<20, int64(c.MaxBodyMiBPerTenant)<<20, guaranteedBody),
		answers:    fairshare.NewBudget(int64(c.MaxAnswerMiB)<<20, int64(c.MaxAnswerMiBPerTenant)<<20, guaranteedAnswer),
		storeLists: fairshare.NewPlaces(maxStoreLists, maxStoreListsPerTenant),
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
